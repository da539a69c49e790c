"""A traced loss as one flat list of equations: calls inlined, a scanned stack of layers unrolled, weights sliced by
layer.

A scan over layers takes its weights stacked, `[layers, ...]`. To partition between two layers, the argument is replaced
by *parameter slices*, one `[1, ...]` for each iteration; a cast before the scan is applied to each. Other scans stay
loops. Equations are moved and renamed, never evaluated: named scopes and source lines stay, a layer's under its number.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.errors import PipelineError
from workbench.tracing.grad_accumulation.micro_batch_marks import AVERAGE, WEIGHT
from workbench.tracing.jaxpr.choose_layers import choose_layers, count_layers, group_layers, stack_rows
from workbench.tracing.jaxpr.equations import Inlining, equations_inside, scan_widths, select_needed, variables

_OPAQUE = ("scan", "while", "cond", "remat", "checkpoint", "custom_jvp_call", "custom_vjp_call")


class ParamSlice(NamedTuple):
    """A parameter leaf by number, or the slice `[layer : layer + 1]` of a stacked one."""

    leaf: int
    layer: int | None = None


@dataclass(frozen=True)
class Flat:
    """A loss as equations in trace order.

    - `param_slices`: the parameters, each with its variable; `batch`: a variable for each leaf of the batch;
    - `constants`: variables with values known at trace time;
    - `loss` and `weight` (of a micro-batch in the mean; `None` for equal weights): variables or literals;
    - `averages`: numbers of the parameter slices that are moving averages;
    - `base`: the original jaxpr.
    """

    eqns: tuple[Any, ...]
    param_slices: tuple[tuple[ParamSlice, Any], ...]
    batch: tuple[Any, ...]
    constants: dict[Any, Any]
    loss: Any
    weight: Any
    averages: frozenset[int]
    base: Any


def flatten(closed: Any, parameters: int) -> Flat:
    """Flatten the loss `closed(*parameters, *batch) -> loss`, whose first `parameters` arguments are parameter leaves.

    Partial remat policies (`choose_layers`) are resolved here, layer by layer in unrolled loops. Raises `PipelineError`
    for a loss with side effects, `RematError` if they cannot be resolved.
    """
    _verify_pure(closed)
    closed = choose_layers(closed, group=False)
    inlined = Inlining()
    outvars = inlined.block(closed, closed.jaxpr.invars, None)
    inputs = closed.jaxpr.invars
    unroller = _ScanUnroller(inlined.eqns, inputs[:parameters], inlined.constants)
    loss = unroller.run(outvars)[0]
    weight = _find_weight(unroller.eqns)
    eqns = select_needed(unroller.eqns, [loss] if weight is None else [loss, weight])
    used = {var for eqn in eqns for var in variables(eqn.invars)}
    param_slices = [(param_slice, var) for param_slice, var in unroller.param_slices() if var in used or param_slice.layer is None]
    return Flat(
        tuple(eqns),
        tuple(param_slices),
        tuple(inputs[parameters:]),
        inlined.constants,
        loss,
        weight,
        frozenset(_find_averages(eqns, param_slices)),
        closed.jaxpr,
    )


def _verify_pure(closed: Any) -> None:
    if effects := closed.jaxpr.effects:
        kinds = ", ".join(sorted(str(effect) for effect in effects))
        raise PipelineError(
            f"The loss has side effects ({kinds}); in stages they would run several times, in any order.",
            ["remove `jax.debug.print` and callbacks from the loss", "return the value, as the auxiliary part, and print it outside"],
        )


@dataclass(slots=True)
class _ScanUnroller:
    """Walks flat equations and unrolls the scans whose weights are parameters."""

    source_eqns: Sequence[Any]
    parameters: Sequence[Any]
    constants: dict[Any, Any]
    eqns: list[Any] = field(default_factory=list)
    known: dict[Any, Any] = field(default_factory=dict)
    slices_of: dict[Any, list[Any]] = field(default_factory=dict)  # stacked variable -> one slice per layer

    def run(self, outvars: Sequence[Any]) -> list[Any]:
        for var in self._find_stacked():
            self.slices_of[var] = [_make_slice_var(var) for _ in range(var.aval.shape[0])]
        for eqn in self.source_eqns:
            if _is_cast(eqn) and eqn.invars[0] in self.slices_of:
                self._cast_slices(eqn)
            elif any(atom in self.slices_of for atom in _scanned_weights(eqn)):
                self._unroll(eqn)
            else:
                self.eqns += group_layers(eqn.replace(invars=[self._join_slices(atom) for atom in eqn.invars]))
        return [self._join_slices(atom) for atom in outvars]

    def param_slices(self) -> Iterable[tuple[ParamSlice, Any]]:
        for leaf, var in enumerate(self.parameters):
            if var in self.slices_of:
                yield from ((ParamSlice(leaf, layer), slice_var) for layer, slice_var in enumerate(self.slices_of[var]))
            else:
                yield ParamSlice(leaf), var

    def _find_stacked(self) -> list[Any]:
        """The parameters that a scan slices by layer, perhaps after a cast."""
        source = {var: var for var in self.parameters}
        stacked: dict[Any, None] = {}
        for eqn in self.source_eqns:
            if _is_cast(eqn) and eqn.invars[0] in source:
                source[eqn.outvars[0]] = source[eqn.invars[0]]
            stacked.update({source[atom]: None for atom in variables(_scanned_weights(eqn)) if atom in source})
        return list(stacked)

    def _cast_slices(self, eqn: Any) -> None:
        cast_vars = [_make_slice_var(eqn.outvars[0]) for _ in self.slices_of[eqn.invars[0]]]
        for old, new in zip(self.slices_of[eqn.invars[0]], cast_vars, strict=True):
            self.eqns.append(eqn.replace(invars=[old], outvars=[new]))
        self.slices_of[eqn.outvars[0]] = cast_vars

    def _join_slices(self, atom: Any) -> Any:
        """A variable, concatenated from its slices where something other than a scan reads it."""
        if isinstance(atom, jex_core.Literal) or (atom not in self.slices_of and atom not in self.known):
            return atom
        if atom not in self.known:
            self.known[atom] = self._splice_function(_concatenate, self.slices_of[atom], None)
        return self.known[atom]

    def _splice_function(self, fn: Callable[..., Any], atoms: Sequence[Any], like: Any) -> Any:
        """The result of a small function of these atoms, as equations in the scope of equation `like`."""
        traced = _trace_small(fn, tuple((atom.aval.shape, atom.aval.dtype, atom.aval.weak_type) for atom in atoms))
        spliced = Inlining(constants=self.constants)
        stack = None if like is None else like.source_info.name_stack
        (result,) = spliced.block(traced, atoms, stack)
        self.eqns += spliced.eqns
        return result

    def _unroll(self, scan: Any) -> None:
        params = scan.params
        fixed, width = scan_widths(scan)
        invars = [atom if i >= fixed + width else self._join_slices(atom) for i, atom in enumerate(scan.invars)]
        carry = invars[fixed : fixed + width]
        iterations = range(params["length"])
        stacked: list[list[Any]] = [[] for _ in scan.outvars[width:]]
        layers_per_iteration = count_layers(params["jaxpr"].jaxpr)
        for number, layer in enumerate(reversed(iterations) if params["reverse"] else iterations):
            numbered = _scope_to_layer(scan, layer)
            body = Inlining(self.eqns, self.constants)
            arguments = [*invars[:fixed], *carry, *(self._slice_argument(atom, layer, numbered) for atom in invars[fixed + width :])]
            results = body.block(
                choose_layers(params["jaxpr"], counted=number * layers_per_iteration), arguments, numbered.source_info.name_stack
            )
            carry = results[:width]
            for rows, row in zip(stacked, results[width:], strict=True):
                rows.append(row)
        self.known.update(zip(scan.outvars[:width], carry, strict=True))
        self._stack_results(scan, stacked, width, reverse=params["reverse"])

    def _slice_argument(self, atom: Any, layer: int, scan: Any) -> Any:
        if not isinstance(atom, jex_core.Literal) and atom in self.slices_of:
            return self._splice_function(_squeeze_first, [self.slices_of[atom][layer]], scan)
        return self._splice_function(_index_function(layer), [self._join_slices(atom)], scan)

    def _stack_results(self, scan: Any, stacked: list[list[Any]], width: int, *, reverse: bool) -> None:
        read = {var for eqn in self.source_eqns for var in variables(eqn.invars)}
        for var, rows in zip(scan.outvars[width:], stacked, strict=True):
            if var in read:
                ordered = rows[::-1] if reverse else rows
                self.known[var] = self._splice_function(stack_rows, ordered, scan)


@lru_cache(1 << 12)
def _trace_small(fn: Callable[..., Any], avals: tuple[tuple[tuple[int, ...], Any, bool], ...]) -> Any:
    """A traced small function, shared by all layers, micro-batches and networks with these shapes."""
    return jax.make_jaxpr(fn)(*(jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in avals))


def _squeeze_first(param_slice: Any) -> Any:
    return jax.lax.squeeze(param_slice, (0,))


@lru_cache(1 << 12)
def _index_function(layer: int) -> Callable[[Any], Any]:
    return lambda whole: jax.lax.index_in_dim(whole, layer, 0, keepdims=False)


def _concatenate(*slices: Any) -> Any:
    return jax.lax.concatenate(slices, 0)


def _make_slice_var(stacked: Any) -> Any:
    return jex_core.Var(stacked.aval.update(shape=(1, *stacked.aval.shape[1:])))


def _is_cast(eqn: Any) -> bool:
    return eqn.primitive is primitives.convert_element_type_p and isinstance(eqn.invars[0], jex_core.Var)


def _scanned_weights(eqn: Any) -> list[Any]:
    if eqn.primitive is not primitives.scan_p:
        return []
    return variables(eqn.invars[sum(scan_widths(eqn)) :])


def _scope_to_layer(scan: Any, layer: int) -> Any:
    stack = scan.source_info.name_stack
    return scan.replace(source_info=scan.source_info.replace(name_stack=stack.extend(str(layer) if str(stack) else f"layer_{layer}")))


def _find_weight(eqns: Sequence[Any]) -> Any:
    weights = [eqn.outvars[0] for eqn in eqns if eqn.primitive is primitives.name_p and eqn.params["name"] == WEIGHT]
    if len(weights) > 1:
        raise PipelineError(
            f"The loss marks {len(weights)} values as the weight of a micro-batch; it has one.",
            ["mark the count of the mean that is the loss"],
        )
    if not weights and (inside := sorted({eqn.primitive.name for eqn in eqns if eqn.primitive.name in _OPAQUE and _marks_weight(eqn)})):
        raise PipelineError(
            f"The loss marks the weight of a micro-batch inside a {inside[0]}, where it cannot be read.", ["mark it outside of loops"]
        )
    return weights[0] if weights else None


def _marks_weight(eqn: Any) -> bool:
    return any(inner_eqn.primitive is primitives.name_p and inner_eqn.params["name"] == WEIGHT for inner_eqn in equations_inside(eqn))


def _find_averages(eqns: Sequence[Any], param_slices: Sequence[tuple[ParamSlice, Any]]) -> Iterable[int]:
    """Numbers of the parameter slices that `moving_average` reads, perhaps after a squeeze."""
    number = {var: i for i, (_, var) in enumerate(param_slices)}
    for eqn in eqns:
        first = eqn.invars[0] if eqn.invars else None
        if isinstance(first, jex_core.Var) and first in number:
            if eqn.primitive is primitives.name_p and eqn.params["name"] == AVERAGE:
                yield number[first]
            elif eqn.primitive in (primitives.squeeze_p, primitives.convert_element_type_p, primitives.reshape_p):
                number[eqn.outvars[0]] = number[first]
