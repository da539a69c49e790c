"""Resolves a remat policy for a part of the layers, `full layers:1/2`, in a jaxpr before differentiation.

Layers are counted in execution order from 0, separately in each loop, and through the whole program outside of loops.
The first M of every B layers get the policy; the others are merged into their surroundings, which keep everything.

A loop's layers share one body. A scan of L iterations becomes one of L / B, whose body is B copies of the old one:
stacked arguments and results [L, ...] are read as [L / B, B, ...], which moves nothing in memory. (Two scans, each over
a part of the layers, would need a copy of each part of the stacked weights.) Named scopes and source lines stay.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.errors import RematError
from workbench.tracing.jaxpr.equations import equations_below, equations_inside, jaxprs_in, rewrite_inside, scan_widths, substituted
from workbench.units import divisors

Block = tuple[list[Any], list[Any]]
"""Equations, and the variables of their results."""


@dataclass(frozen=True, slots=True)
class SomeLayers:
    """A checkpoint policy that is not resolved yet: `policy` is for the first `count` of every `of` layers."""

    policy: Callable[..., Any] | None
    count: int
    of: int

    def __call__(self, primitive: Any, *operands: Any, **params: Any) -> Any:
        """The policy as JAX sees it if never resolved: applied to all layers."""
        return self.policy is not None and self.policy(primitive, *operands, **params)


def choose_layers(closed: Any, *, counted: int = 0, group: bool = True) -> Any:
    """A jaxpr with every `SomeLayers` resolved, after `counted` layers; without `group`, loops with layers stay.

    Raises `RematError` if the number of a loop's layers is not a multiple of `of`.
    """
    if next(_list_some_layers(closed.jaxpr), None) is None:  # as of nearly every jaxpr, for each layer of a network
        return closed
    return jex_core.ClosedJaxpr(_Chooser(counted, group).choose(closed.jaxpr), closed.consts)


def group_layers(eqn: Any) -> list[Any]:
    """An equation with its layers resolved, several for a loop; raises `RematError` as `choose_layers` does."""
    eqns, results = _group_scan(eqn) if _has_layers(eqn) and eqn.primitive is primitives.scan_p else ([eqn], eqn.outvars)
    renamed = dict(zip(results, eqn.outvars, strict=True))
    return [new_eqn.replace(outvars=[renamed.get(var, var) for var in new_eqn.outvars]) for new_eqn in eqns]


def count_layers(jaxpr: Any) -> int:
    """The number of layers that a jaxpr runs through outside its loops."""
    count = 0
    for eqn in jaxpr.eqns:
        if _some_layers(eqn):
            count += 1
        elif eqn.primitive.name not in ("scan", "while"):
            inner = [count_layers(inner_jaxpr) for inner_jaxpr in jaxprs_in(eqn)]
            count += max(inner, default=0) if eqn.primitive.name == "cond" else sum(inner)
    return count


def copy_equations(jaxpr: Any, arguments: Sequence[Any], stack: Any) -> Block:
    """A jaxpr's equations for these arguments, in the scopes of `stack`, with new variables, as JAX shares jaxprs."""
    replacements = dict(zip(jaxpr.invars, arguments, strict=True))
    eqns = []
    for eqn in jaxpr.eqns:
        outvars = [jex_core.Var(var.aval) for var in eqn.outvars]
        source = eqn.source_info.replace(name_stack=stack + eqn.source_info.name_stack)
        eqns.append(eqn.replace(invars=substituted(eqn.invars, replacements), outvars=outvars, source_info=source))
        replacements.update(zip(eqn.outvars, outvars, strict=True))
    return eqns, substituted(jaxpr.outvars, replacements)


@dataclass(slots=True)
class _Chooser:
    """Walks in execution order after `counted` layers; `barrier` prevents CSE, unnecessary in most loops."""

    counted: int = 0
    group: bool = True
    barrier: bool = False

    def choose(self, jaxpr: Any) -> Any:
        eqns_chosen: list[Any] = []
        replacements: dict[Any, Any] = {}
        for old_eqn in jaxpr.eqns:
            eqn = old_eqn.replace(invars=substituted(old_eqn.invars, replacements))
            eqns, results = self._choose_equation(eqn)
            eqns_chosen += eqns
            replacements.update((var, result) for var, result in zip(eqn.outvars, results, strict=True) if var is not result)
        return jaxpr.replace(eqns=eqns_chosen, outvars=substituted(jaxpr.outvars, replacements))

    def _choose_equation(self, eqn: Any) -> Block:
        if some := _some_layers(eqn):
            self.counted += 1
            return self._choose_layer(eqn, some)
        if not _has_layers(eqn):
            return [eqn], eqn.outvars
        if eqn.primitive is primitives.scan_p:
            return _group_scan(eqn) if self.group else ([eqn], eqn.outvars)
        return [self._choose_inside(eqn)], eqn.outvars

    def _choose_layer(self, eqn: Any, some: SomeLayers) -> Block:
        if (self.counted - 1) % some.of >= some.count:
            return copy_equations(eqn.params["jaxpr"], eqn.invars, eqn.source_info.name_stack)
        barrier = self.barrier or eqn.params["prevent_cse"]
        return [eqn.replace(params={**eqn.params, "policy": some.policy, "prevent_cse": barrier})], eqn.outvars

    def _choose_inside(self, eqn: Any) -> Any:
        """Resolve inner layers: calls continue the count, branches take the maximum, a `while` restarts it."""
        before, ends, is_loop = self.counted, [], eqn.primitive.name == "while"

        def choose(jaxpr: Any) -> Any:
            self.counted = 0 if is_loop else before
            chosen = self.choose(jaxpr)
            ends.append(self.counted)
            return chosen

        chosen = rewrite_inside(eqn, choose)
        self.counted = before if is_loop else max(ends)
        return chosen


def _group_scan(scan: Any) -> Block:
    """A scan over layers with several iterations grouped into one, so that every layer either has the policy or not."""
    count = _iterations_together(scan)
    length = scan.params["length"] // count
    if count == 1:
        return [scan.replace(params={**scan.params, "jaxpr": choose_layers(scan.params["jaxpr"])})], scan.outvars
    width = scan_widths(scan)
    eqns, stacks = [], []
    for atom in scan.invars[sum(width) :]:
        new_eqns, (stack,) = _splice(lambda x: jax.lax.reshape(x, (length, count, *x.shape[1:])), [atom], scan)
        eqns += new_eqns
        stacks.append(stack)
    body = _repeat_body(scan, count, width)
    rows = [jex_core.Var(var.aval.update(shape=(length, *aval.shape))) for var, aval in _stacked_results(scan, body, width[1])]
    outvars = [*(jex_core.Var(var.aval) for var in scan.outvars[: width[1]]), *rows]
    params = {**scan.params, "jaxpr": body, "length": length, "unroll": max(1, scan.params["unroll"] // count)}
    eqns.append(scan.replace(invars=[*scan.invars[: sum(width)], *stacks], outvars=outvars, params=params))
    results = outvars[: width[1]]
    for row in rows:
        new_eqns, (stack,) = _splice(lambda x: jax.lax.reshape(x, (length * count, *x.shape[2:])), [row], scan)
        eqns += new_eqns
        results.append(stack)
    return eqns, results


def _iterations_together(scan: Any) -> int:
    """The number of iterations grouped into one; raises `RematError` if it does not divide the scan's length."""
    body = scan.params["jaxpr"].jaxpr
    layers, length = count_layers(body), scan.params["length"]
    of = next((item.of for item in _list_some_layers(body)), 1)
    count = of // gcd(of, layers) if layers else 1
    if length % count:
        total = layers * length
        parts = [item for item in divisors(total) if item > 1 and length % (item // gcd(item, layers)) == 0]
        known = [f"write `layers:M/B` with B one of {', '.join(map(str, parts))}"] if parts else []
        raise RematError(
            f"A loop runs through {total} layer{'s' * (total != 1)}, no multiple of {of}: remat `layers:M/{of}` is for the first M of "
            f"every {of}.",
            [*known, "leave `layers` out"],
        )
    return count


def _repeat_body(scan: Any, count: int, width: tuple[int, int]) -> Any:
    fixed, carried = width
    closed, params = scan.params["jaxpr"], scan.params
    jaxpr = closed.jaxpr
    invars = [*jaxpr.invars[: fixed + carried], *(_stack_of(var, count) for var in jaxpr.invars[fixed + carried :])]
    empty = type(scan.source_info.name_stack)()
    eqns: list[Any] = []
    slices = []
    for var in invars[fixed + carried :]:
        new_eqns, pieces = _splice(_split, [var], scan, empty)
        eqns += new_eqns
        slices.append(pieces)
    chooser = _Chooser(barrier=params["length"] == count)
    carry, rows = list(invars[fixed : fixed + carried]), {}
    for index in reversed(range(count)) if params["reverse"] else range(count):
        block, results = copy_equations(
            chooser.choose(jaxpr), [*invars[:fixed], *carry, *(row_slices[index] for row_slices in slices)], empty
        )
        eqns += block
        carry, rows[index] = results[:carried], results[carried:]
    outvars = list(carry)
    for column in zip(*(rows[index] for index in range(count)), strict=True):
        new_eqns, (stack,) = _splice(stack_rows, column, scan, empty)
        eqns += new_eqns
        outvars.append(stack)
    return jex_core.ClosedJaxpr(jaxpr.replace(invars=invars, eqns=eqns, outvars=outvars), closed.consts)


def _stacked_results(scan: Any, body: Any, carried: int) -> Iterator[tuple[Any, Any]]:
    return zip(scan.outvars[carried:], body.out_avals[carried:], strict=True)


def _stack_of(var: Any, count: int) -> Any:
    return jex_core.Var(var.aval.update(shape=(count, *var.aval.shape)))


def _split(stack: Any) -> list[Any]:
    return [jax.lax.squeeze(row, (0,)) for row in jax.lax.split(stack, [1] * stack.shape[0])]


def stack_rows(*rows: Any) -> Any:
    return jax.lax.concatenate([jax.lax.expand_dims(row, (0,)) for row in rows], 0)


def _splice(fn: Callable[..., Any], atoms: Sequence[Any], like: Any, stack: Any = None) -> Block:
    """A small function of these atoms as equations with the source line of `like`, in its scope or `stack`."""
    specs = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype, weak_type=atom.aval.weak_type) for atom in atoms]
    jaxpr = jax.make_jaxpr(fn)(*specs).jaxpr
    source = like.source_info if stack is None else like.source_info.replace(name_stack=stack)
    eqns, results = copy_equations(jaxpr, atoms, source.name_stack)
    return [eqn.replace(source_info=source) for eqn in eqns], results


def _some_layers(eqn: Any) -> SomeLayers | None:
    policy = eqn.params.get("policy") if eqn.primitive is primitives.remat_p else None
    return policy if isinstance(policy, SomeLayers) else None


def _list_some_layers(jaxpr: Any) -> Iterator[SomeLayers]:
    return filter(None, (_some_layers(eqn) for eqn, _ in equations_below(jaxpr)))


def _has_layers(eqn: Any) -> bool:
    return any(map(_some_layers, equations_inside(eqn)))
