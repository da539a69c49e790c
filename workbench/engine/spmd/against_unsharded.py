"""Check one sharded step against the same step on one device."""

import functools
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.engine.spmd.compiled_step import CompiledStep, argument_specs, lower_first
from workbench.engine.spmd.device_mesh import host_value
from workbench.tracing.jaxpr.equations import closed_jaxpr, function_of, inline, path_of_equation, source_line, variables
from workbench.units import format_bytes


class StepCheck(NamedTuple):
    """Difference between a step and the unsharded one.

    - `error`: largest difference of a result, relative to the largest magnitude among the results of its role; `None`
      if unchecked;
    - `explained`: largest such difference explained by rounding; `None` if memory does not suffice to measure it;
    - `reason`: the reason if it is unchecked;
    - `not_numbers`: number of NaN elements in the results, in both steps.
    """

    error: float | None
    explained: float | None = None
    reason: str = ""
    not_numbers: int = 0

    @property
    def is_wrong(self) -> bool:
        return self.error is not None and self.explained is not None and self.error > self.explained


def largest_error(step: CompiledStep, arguments: list[jax.Array]) -> tuple[float | None, str]:
    """Return the largest relative error of a result and an empty text, or `None` and the reason. Donates `arguments`."""
    step_check = check_step(step, arguments)
    return step_check.error, step_check.reason


def check_step(step: CompiledStep, arguments: list[jax.Array]) -> StepCheck:
    """Compare the sharded step with the unsharded one, if one device has room for that. Donates `arguments`.

    A `shard_map` or explicit axes in the function need all devices of its mesh: such a step is compared with itself on
    replicated arguments, so that nothing outside the `shard_map` is split.
    """
    if has_manual_axes(step.program) or step.program.step.written.explicit:
        return _check_from_whole(step, arguments)
    device = step.mesh.local_devices[0]
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=jax.sharding.SingleDeviceSharding(device)) for array in arguments]
    try:
        plain = jax.jit(step.program.step.call, keep_unused=True)
        unsharded = plain.lower(*specs).compile()
    except ValueError as error:  # the function uses specific devices or a mesh
        return StepCheck(None, reason=f"the step cannot be compiled for one device: {str(error).splitlines()[0]}")
    memory = unsharded.memory_analysis()
    needed = int(memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes)
    if needed > (free := free_bytes(device)):
        return StepCheck(None, reason=f"the unsharded step needs {format_bytes(needed)} on one device, which has {format_bytes(free)} free")
    call = unsharded if step.call is step.compiled else plain
    has_room = _bytes_twice(memory) <= free
    return _check_against(step, arguments, call, [_on_one_device(array, device) for array in arguments], judges=has_room)


def has_manual_axes(program: Program) -> bool:
    """Return whether the function has a `shard_map`."""
    return any(operation.manual for operation in program.operations)


def _check_from_whole(step: CompiledStep, arguments: list[jax.Array]) -> StepCheck:
    whole = NamedSharding(step.mesh, PartitionSpec())
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=whole) for array in arguments]

    def lower(call: Callable[..., Any]) -> jax.stages.Lowered:  # a new function, because JAX lowers each only once
        return jax.jit(functools.partial(call), keep_unused=True, out_shardings=whole).lower(*specs)

    unsplit = lower_first(lower, step.plan, step.mesh).compile()
    memory, device = unsplit.memory_analysis(), step.mesh.local_devices[0]
    needed = int(memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes)
    needed *= len(step.mesh.local_devices) if device.platform == "cpu" else 1  # virtual devices share the host's memory
    if needed > (free := free_bytes(device)):
        return StepCheck(
            None, reason=f"the step with whole arguments on every device needs {format_bytes(needed)}, and {format_bytes(free)} is free"
        )
    copies = len(step.mesh.local_devices) if device.platform == "cpu" else 1
    has_room = copies * _bytes_twice(memory) <= free
    return _check_against(step, arguments, unsplit, [jax.device_put(array, whole) for array in arguments], judges=has_room)


def _bytes_twice(memory: Any) -> int:
    return int(2 * (memory.argument_size_in_bytes + memory.output_size_in_bytes) + memory.temp_size_in_bytes)


def _check_against(
    step: CompiledStep, arguments: list[jax.Array], call: Callable[..., Any], whole: Sequence[jax.Array], *, judges: bool
) -> StepCheck:
    """Compare the step with `call(*whole)`; with `judges`, also that call on arguments moved by one rounding."""
    expected = call(*whole)
    explained = None
    if judges:
        epsilon = largest_epsilon(step.program, step.mesh.local_devices[0].platform)
        explained = explained_error(_compare(step, call(*move_by_rounding(whole, epsilon)), expected), epsilon)
    return StepCheck(_compare(step, step.call(*arguments), expected), explained, not_numbers=count_not_numbers(expected))


def _on_one_device(array: jax.Array, device: jax.Device) -> jax.Array:
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return jax.device_put(array, device)
    return jax.device_put(host_value(array), device)


def free_bytes(device: jax.Device) -> int:
    if stats := device.memory_stats():
        return int(stats.get("bytes_limit", 0) - stats.get("bytes_in_use", 0))
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _compare(step: CompiledStep, sharded: tuple[jax.Array, ...], unsharded: tuple[jax.Array, ...]) -> float:
    difference: dict[Role, float] = {}
    magnitude: dict[Role, float] = {}
    for tensor, ours, theirs in zip(step.program.results, sharded, unsharded, strict=True):
        if jax.dtypes.issubdtype(ours.dtype, jax.dtypes.prng_key):
            continue
        expected = np.asarray(theirs)
        gaps = [largest_gap(shard.data, expected[shard.index]) for shard in ours.addressable_shards]
        difference[tensor.role] = max(difference.get(tensor.role, 0.0), *gaps)
        magnitude[tensor.role] = max(magnitude.get(tensor.role, 0.0), largest_magnitude(expected))
    return relative(difference, magnitude)


def relative(difference: Mapping[Role, float], magnitude: Mapping[Role, float]) -> float:
    """Largest difference of any role over the largest magnitude of that role; infinity for infinite differences."""
    if inf in difference.values():
        return inf
    return max(0.0, *(gap / (magnitude[role] or 1.0) for role, gap in difference.items()))


def largest_gap(ours: Any, theirs: Any) -> float:
    """Largest difference; none for two NaNs, infinity if only one of the two is NaN or infinite.

    Of numbers of eight bits and fewer, only what exceeds one quantization step: a rounding of the value that was
    quantized may have it rounded the other way.

    >>> largest_gap(np.array([1.0, -inf]), np.array([1.5, -inf])), largest_gap(np.array([1.0]), np.array([np.nan]))
    (0.5, inf)
    >>> largest_gap(np.array([np.nan, 1.0]), np.array([np.nan, 1.0])), largest_gap(np.array([np.nan, 1.0]), np.array([1.0, np.nan]))
    (0.0, inf)
    >>> codes = np.array([448.0, 0.5, 1.0]).astype("float8_e4m3fn")
    >>> largest_gap(np.array([416.0, 0.5625, 1.5]).astype("float8_e4m3fn"), codes)
    0.375
    """
    step = quantization_step(theirs)
    ours, theirs = _wide(ours), _wide(theirs)
    if (np.isnan(ours) != np.isnan(theirs)).any():
        return inf
    differing = (ours != theirs) & ~np.isnan(theirs)  # equal infinities have no difference
    beyond = np.abs(ours[differing] - theirs[differing]) - np.broadcast_to(step, theirs.shape)[differing]
    return max(float(beyond.max(initial=0.0)), 0.0)


def quantization_step(codes: Any) -> np.ndarray[Any, Any]:
    """The distance of each number of eight bits and fewer to the next one away from zero; 0 for wider types."""
    dtype = codes.dtype
    if dtype.name in _NARROW_INTEGERS:
        return np.ones(())
    if not _is_narrow_float(dtype.name):
        return np.zeros(())
    limits = jax.numpy.finfo(dtype)
    exponent = np.frexp(np.abs(_wide(codes)))[1] - 1
    return np.maximum(np.ldexp(float(limits.eps), exponent), float(limits.smallest_subnormal))


def count_not_numbers(results: Iterable[Any]) -> int:
    """Count the NaN elements of arrays."""
    inexact = (array for array in results if jax.dtypes.issubdtype(array.dtype, np.inexact))
    return sum(int(np.isnan(_wide(array)).sum()) for array in inexact)


def largest_magnitude(array: Any) -> float:
    """Largest magnitude of a finite number."""
    array = _wide(array)
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _wide(array: Any) -> np.ndarray[Any, Any]:
    host = np.asarray(array)
    return host.astype(np.complex128 if np.issubdtype(host.dtype, np.complexfloating) else np.float64)


# Error explained by rounding, measured as the change of a step when every argument moves by one rounding.

_FAR_ABOVE = 30.0  # reordered sums in every layer: several roundings, most of which cancel
_ABOVE_CODES = 2.0  # where codes round the other way: of the moved arguments far more do than in a sharded step
_MOST = 0.5  # of the largest magnitude: such an error is wrong for any dtype
_CHAOTIC = 3.0  # times the effect of one rounding, for steps where one rounding has that much effect
_MULTIPLIED_BY_TPUS = "bfloat16"  # TPUs round operands of matrix products to it
_MOVES_CODES = 2.0**-13  # a thousandth of the steps between codes of float8_e4m3, 2**-4 to 2**-3 of a number
_NARROW_INTEGERS = ("int2", "int4", "int8")
_TF32 = 2.0**-11  # unit roundoff of TF32, to which NVIDIA GPUs may round operands of float32 products


def explained_error(sensitivity: float, epsilon: float) -> float:
    """Largest relative error explained by rounding; `sensitivity` is the effect of one rounding of the arguments.

    >>> explained_error(2e-7, 1.2e-7) < 1e-5, explained_error(0.02, 0.008), explained_error(1.0, 0.008)
    (True, 0.5, 3.0)
    """
    rounding = max(sensitivity, epsilon) if isfinite(sensitivity) else epsilon
    far_above = _ABOVE_CODES if epsilon == _MOVES_CODES else _FAR_ABOVE
    return min(far_above * rounding, max(_MOST, _CHAOTIC * rounding))


def largest_epsilon(program: Program, platform: str) -> float:
    """Machine epsilon of the coarsest floating-point dtype that the program computes in.

    Types of eight bits and fewer store what was computed in wider ones. A quantized result is compared up to one step
    (`largest_gap`). A quantized operand may round the other way, too: a thousandth of them does if arguments move by
    `_MOVES_CODES`, far more than in a sharded step, so that the effect is measured.
    """
    names = {operation.dtype for operation in program.operations} | {tensor.dtype for tensor in (*program.arguments, *program.results)}
    names |= {_MULTIPLIED_BY_TPUS} if platform == "tpu" else set()
    coarsest = max((float(jax.numpy.finfo(name).eps) for name in names if _is_wide_float(name)), default=0.0)
    coarsest = max(coarsest, _MOVES_CODES) if any(map(_is_narrow_float, names)) else coarsest
    return max(coarsest, _TF32) if platform in ("gpu", "cuda") and "float32" in names else coarsest


def move_by_rounding(leaves: Sequence[jax.Array], epsilon: float) -> list[jax.Array]:
    """Change each floating-point number by a fraction `epsilon` up or down at random; other arrays, and quantized ones,
    are unchanged.
    """
    keys = jax.random.split(jax.random.key(0), max(len(leaves), 1))
    return [_move(leaf, key, epsilon) if _is_wide_float(str(leaf.dtype)) else leaf for leaf, key in zip(leaves, keys, strict=False)]


@partial(jax.jit, static_argnums=2)
def _move(leaf: jax.Array, key: jax.Array, epsilon: float) -> jax.Array:
    widened = leaf.astype("float32") if leaf.dtype.itemsize < 4 else leaf
    moved: jax.Array = jax.numpy.where(jax.random.bernoulli(key, shape=leaf.shape), widened * (1 + epsilon), widened * (1 - epsilon))
    return moved.astype(leaf.dtype)


def _is_float(name: str) -> bool:
    try:
        return bool(jax.dtypes.issubdtype(jax.numpy.dtype(name), jax.numpy.floating))
    except TypeError:  # a random key, a token
        return False


def _is_wide_float(name: str) -> bool:
    return _is_float(name) and not _is_narrow_float(name)


def _is_narrow_float(name: str) -> bool:
    return name.startswith(("float8_", "float6_", "float4_"))


# Find the first wrong value of a sharded step by bisection.


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
