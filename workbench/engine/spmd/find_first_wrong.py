"""Find the first wrong value of a sharded step by bisection."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from workbench.engine.spmd.against_unsharded import free_bytes, largest_gap, largest_magnitude
from workbench.engine.spmd.compiled_step import CompiledStep, argument_specs
from workbench.engine.spmd.device_mesh import host_value
from workbench.tracing.jaxpr.equations import closed_jaxpr, function_of, inline, path_of_equation, source_line, variables
from workbench.units import format_bytes

_MOST_SECONDS = 60.0
Tell = Callable[[str], None]


def find_first_wrong(step: CompiledStep, arguments: Sequence[jax.Array], explained: float, tell: Tell) -> str:
    """Return path and source line of the first value whose relative error exceeds `explained`; empty if none is found.

    Each probe compiles the whole step twice, sharded and for one device, with the values alive after some equation as
    results. After a minute the search ends with the first equation known to be wrong. Raises `MemoryError` if a probe
    does not fit. Arguments are not donated.
    """
    if step.plan.layout.is_annotated:  # its constraints are written into a module with other results
        return ""
    until, search = time.monotonic() + _MOST_SECONDS, _Bisection.of(step, arguments, explained)
    low, high = -1, len(search.eqns) - 1
    if high < 0 or not search.is_wrong_after(high):
        return ""
    while high - low > 1 and time.monotonic() < until:
        tell(f"looking for the first wrong value, {high - low} operations left")
        middle = (low + high) // 2
        low, high = (low, middle) if search.is_wrong_after(middle) else (middle, high)
    return search.describe(high, is_first=high - low == 1)


@dataclass(frozen=True)
class _Bisection:
    """The step as flat equations, and its arguments."""

    step: CompiledStep
    arguments: Sequence[jax.Array]
    explained: float
    base: Any
    eqns: list[Any]
    constants: dict[Any, Any]
    outputs: list[Any]

    @classmethod
    def of(cls, step: CompiledStep, arguments: Sequence[jax.Array], explained: float) -> "_Bisection":
        closed = jax.make_jaxpr(partial(step.program.step.call))(*argument_specs(step.program))
        return cls(step, arguments, explained, closed.jaxpr, *inline(closed))

    def is_wrong_after(self, index: int) -> bool:
        alive = self._alive_after(index)
        if not alive:
            return False
        closed = closed_jaxpr(self.base, self.constants, self.base.invars, self.eqns, [*self.outputs, *alive])
        call = function_of(closed)
        device = self.step.mesh.local_devices[0]
        placed = [jax.device_put(argument, device) for argument in self.arguments]
        sharded = _run_within(free_bytes(device), jax.jit(call, in_shardings=self.step.shardings, keep_unused=True), self.arguments)
        whole = _run_within(free_bytes(device), jax.jit(call, keep_unused=True), placed)
        pairs = zip(sharded[len(self.outputs) :], whole[len(self.outputs) :], strict=True)
        return any(_differs(ours, theirs, self.explained) for ours, theirs in pairs)

    def _alive_after(self, index: int) -> list[Any]:
        """Return the floating-point values made up to this equation that later ones or the results read."""
        made = {var for eqn in self.eqns[: index + 1] for var in eqn.outvars}
        read = {var for eqn in self.eqns[index + 1 :] for var in variables(eqn.invars)} | set(variables(self.outputs))
        alive = [var for eqn in self.eqns[: index + 1] for var in eqn.outvars if var in made & read]
        return [var for var in alive if jax.dtypes.issubdtype(var.aval.dtype, jax.numpy.inexact)]

    def describe(self, index: int, *, is_first: bool) -> str:
        path, source = path_of_equation(self.eqns[index], "")[0], source_line(self.eqns[index])
        text = f"{path} ({source})" if source else path
        return text if is_first else f"{text} or before it"


def _run_within(free: int, call: Any, arguments: Sequence[jax.Array]) -> Any:
    compiled = call.lower(*arguments).compile()
    memory = compiled.memory_analysis()
    needed = int(memory.output_size_in_bytes + memory.temp_size_in_bytes)
    if needed > free:
        raise MemoryError(f"{format_bytes(needed)} are needed on a device, and {format_bytes(free)} are free")
    return compiled(*arguments)


def _differs(ours: jax.Array, theirs: jax.Array, explained: float) -> bool:
    expected = host_value(theirs)
    return largest_gap(host_value(ours), expected) > explained * (largest_magnitude(expected) or 1.0)
