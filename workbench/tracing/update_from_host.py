"""A training step's update with optimizer state in host memory: fetched, used and put back one parameter after the
other.

XLA schedules host copies as early as it can: separate copies would all be on the device at once, even before the
forward pass (libtpu 0.0.42). It does not move copies out of a loop's body. So each parameter's part of the update is a
loop of one iteration, with a data-dependent trip count, or else it would be unrolled.

The parts follow from the update itself: equations that depend on the state of one parameter are in its loop, with those
that only they read; all others (a gradient's global norm, bias corrections) come before. Parameters whose states meet
in one equation share a loop.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core

from workbench.core.offload import STREAMED
from workbench.tracing.jaxpr.equations import closed_jaxpr, inline, select_needed, variables

Leaves = Sequence[Any]
Update = Callable[[Leaves, Leaves, Leaves], tuple[Leaves, Leaves]]


def update_from_host(update: Update, gradients: Leaves, state: Leaves, weights: Leaves, loss: Any) -> tuple[list[Any], list[Any]]:
    """`update(gradients, state, weights) -> (weights, state)` with all non-scalar state in host memory."""
    trace = jax.make_jaxpr(lambda *leaves: update(*_split(leaves, len(gradients), len(state))))
    closed = trace(*(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in (*gradients, *state, *weights)))  # as on the device
    eqns, constants, outvars = inline(closed)
    invars = closed.jaxpr.invars
    first, last = len(gradients), len(gradients) + len(state)
    on_device = [
        *outvars[: len(weights)],
        *(out for var, out in zip(invars[first:last], outvars[len(weights) :], strict=True) if not var.aval.shape),
    ]
    after = {var: out for var, out in zip(invars[first:last], outvars[len(weights) :], strict=True) if var.aval.shape}
    former = dict(zip(outvars[: len(weights)], invars[last:], strict=True))
    before, loops = _LoopFinder(after).sort(select_needed(eqns, outvars), variables(on_device), former)
    values = dict(zip(invars, (*gradients, *state, *weights), strict=True)) | constants
    _evaluate(closed.jaxpr, before, values, [*variables(on_device), *(var for loop in loops for var in loop.reads)])
    hosted, once = dict[Any, Any](), _one(loss)
    with jax.named_scope(STREAMED.rpartition("/")[2]):
        for loop in loops:
            hosted |= _run_loop(closed.jaxpr, loop, values, once)
    new_state = [
        hosted[var] if var in hosted else _value(out, values) for var, out in zip(invars[first:last], outvars[len(weights) :], strict=True)
    ]
    return [_value(out, values) for out in outvars[: len(weights)]], new_state


def _value(atom: Any, values: Mapping[Any, Any]) -> Any:
    return jnp.broadcast_to(jnp.asarray(atom.val, atom.aval.dtype), atom.aval.shape) if isinstance(atom, jex_core.Literal) else values[atom]


def _split(leaves: Leaves, gradients: int, state: int) -> tuple[Leaves, Leaves, Leaves]:
    return leaves[:gradients], leaves[gradients : gradients + state], leaves[gradients + state :]


class _Loop(NamedTuple):
    """Equations that need some of the state, that state with new values, other results with weights they replace."""

    eqns: list[Any]
    state: dict[Any, Any]
    results: dict[Any, Any]

    @property
    def reads(self) -> list[Any]:
        produced = {var for eqn in self.eqns for var in eqn.outvars} | self.state.keys()
        wanted = (*self.results.values(), *(v for eqn in self.eqns for v in variables(eqn.invars)), *variables(self.state.values()))
        return [var for var in dict.fromkeys(wanted) if var is not None and var not in produced]


class _LoopFinder:
    """Groups state arrays that one equation needs together, and sorts equations; `after`: their new values."""

    def __init__(self, after: Mapping[Any, Any]) -> None:
        self._after = after
        self._parent = {var: var for var in after}
        self._group: dict[Any, Any] = {var: var for var in after}

    def sort(self, eqns: Sequence[Any], on_device: Sequence[Any], former: Mapping[Any, Any]) -> tuple[list[Any], list[_Loop]]:
        """Equations before the loops, and the loops; `on_device`: other results, `former`: values they replace."""
        for eqn in eqns:
            self._join([self._group[var] for var in variables(eqn.invars) if var in self._group], eqn.outvars)
        for var, out in self._after.items():
            if not isinstance(out, jex_core.Literal) and out in self._group:
                self._join([var, self._group[out]], [])
        places = self._place(eqns, on_device)
        groups = dict.fromkeys([place for place in places if place is not None] + [self._find(var) for var in self._after])
        loops = []
        for group in groups:
            state = {var: out for var, out in self._after.items() if self._find(var) is group}
            results = {var: former.get(var) for var in on_device if var in self._group and self._find(self._group[var]) is group}
            loops.append(_Loop([eqn for eqn, place in zip(eqns, places, strict=True) if place is group], state, results))
        return [eqn for eqn, place in zip(eqns, places, strict=True) if place is None], loops

    def _place(self, eqns: Sequence[Any], on_device: Sequence[Any]) -> list[Any]:
        """The group of each equation or `None`; equations read by only one group move into its loop."""
        readers: dict[Any, set[Any]] = {var: {None} for var in on_device}
        for var, out in self._after.items():
            readers.setdefault(out, set()).add(self._find(var)) if not isinstance(out, jex_core.Literal) else None
        places: list[Any] = []
        for eqn in reversed(eqns):
            state_group = next((self._find(self._group[var]) for var in eqn.outvars if var in self._group), None)
            wanted = set[Any]().union(*(readers.get(var, set()) for var in eqn.outvars))
            place = state_group if state_group is not None else next(iter(wanted)) if len(wanted) == 1 else None
            places.append(place)
            for var in variables(eqn.invars):
                readers.setdefault(var, set()).add(place)
        return places[::-1]

    def _join(self, groups: Sequence[Any], members: Sequence[Any]) -> None:
        if groups:
            first = self._find(groups[0])
            for member in groups[1:]:
                self._parent[self._find(member)] = first
            self._group.update(dict.fromkeys(members, first))

    def _find(self, var: Any) -> Any:
        while self._parent[var] is not var:
            var = self._parent[var]
        return var


def _evaluate(base: Any, eqns: Sequence[Any], values: dict[Any, Any], wanted: Sequence[Any]) -> None:
    produced = {var for eqn in eqns for var in eqn.outvars}
    outputs = [var for var in dict.fromkeys(wanted) if var in produced]
    needed = select_needed(eqns, outputs)
    inputs = list(dict.fromkeys(var for eqn in needed for var in variables(eqn.invars) if var not in produced))
    fun = jex_core.jaxpr_as_fun(closed_jaxpr(base, {}, inputs, needed, outputs))
    values.update(zip(outputs, fun(*(values[var] for var in inputs)), strict=True))


def _run_loop(base: Any, loop: _Loop, values: dict[Any, Any], once: Any) -> dict[Any, Any]:
    """One parameter's part of the update: adds its results to `values`, and returns its state, in host memory."""
    outside = {var: values[var] for var in loop.reads}
    start = [jnp.zeros(out.aval.shape, out.aval.dtype) if var is None else values[var] for out, var in loop.results.items()]

    def body(carry: tuple[Any, list[Any], list[Any]]) -> tuple[Any, list[Any], list[Any]]:
        turn, now, state = carry
        values_inside = outside | {var: current for var, current in zip(loop.results.values(), now, strict=True) if var is not None}
        values_inside |= zip(loop.state, jax.device_put(state, jax.memory.Space.Device), strict=True)
        _evaluate(base, loop.eqns, values_inside, [*loop.results, *variables(loop.state.values())])
        new_state = [_value(out, values_inside) for out in loop.state.values()]
        return turn + 1, [values_inside[out] for out in loop.results], jax.device_put(new_state, jax.memory.Space.Host)

    held = jax.device_put([values[var] for var in loop.state], jax.memory.Space.Host)
    _, results, state = jax.lax.while_loop(lambda carry: carry[0] < once, body, (jnp.int32(0), start, held))
    values.update(zip(loop.results, results, strict=True))
    return dict(zip(loop.state, state, strict=True))


def _one(loss: Any) -> Any:
    """1, by the sign of the loss, so that no compiler can fold it."""
    bits = jax.lax.bitcast_convert_type(jnp.asarray(loss, jnp.float32), jnp.int32)
    return jnp.abs((bits >> 31) | 1)
