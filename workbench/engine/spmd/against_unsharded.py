"""Check one sharded step against the same step on one device."""

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf, isfinite
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.engine.spmd.compiled_step import CompiledStep
from workbench.engine.spmd.device_mesh import host_value
from workbench.engine.spmd.explicit_axes import lower_first
from workbench.units import format_bytes


class StepCheck(NamedTuple):
    """How a step differs from the unsharded one.

    - `error`: the largest difference of a result, relative to the largest magnitude among the results of its role; `None` if unchecked;
    - `explained`: the largest such difference that rounding explains; `None` where memory does not suffice to measure it;
    - `reason`: why it is unchecked;
    - `not_numbers`: how many elements of the results are not a number, here and in the unsharded step.
    """

    error: float | None
    explained: float | None = None
    reason: str = ""
    not_numbers: int = 0

    @property
    def is_wrong(self) -> bool:
        return self.error is not None and self.explained is not None and self.error > self.explained


def largest_error(step: CompiledStep, arguments: list[jax.Array]) -> tuple[float | None, str]:
    """The largest relative error of a result, and an empty text; or `None` and why it is not known. Donates `arguments`."""
    found = check_step(step, arguments)
    return found.error, found.reason


def check_step(step: CompiledStep, arguments: list[jax.Array]) -> StepCheck:
    """Compare the sharded step with the unsharded one, if one device can hold that. Donates `arguments`.

    A `shard_map` or explicit axes in the function need all devices of its mesh: such a step is compared with itself under arguments that
    are whole on every device, so that nothing outside of the `shard_map` is split."""
    if has_manual_axes(step.program) or step.program.step.written.explicit:
        return _check_from_whole(step, arguments)
    device = step.mesh.local_devices[0]
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=jax.sharding.SingleDeviceSharding(device)) for array in arguments]
    try:
        plain = jax.jit(step.program.step.call, keep_unused=True)
        unsharded = plain.lower(*specs).compile()
    except ValueError as error:  # the function names devices or a mesh of its own
        return StepCheck(None, reason=f"the step cannot be compiled for one device: {str(error).splitlines()[0]}")
    memory = unsharded.memory_analysis()
    needed = int(memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes)
    if needed > (free := free_bytes(device)):
        return StepCheck(None, reason=f"the unsharded step needs {format_bytes(needed)} on one device, which has {format_bytes(free)} free")
    call = unsharded if step.call is step.compiled else plain
    has_room = _bytes_twice(memory) <= free
    return _check_against(step, arguments, call, [_on_one_device(array, device) for array in arguments], judges=has_room)


def has_manual_axes(program: Program) -> bool:
    """Whether the function says itself what each device does, in a `shard_map`."""
    return any(each.manual for each in program.operations)


def _check_from_whole(step: CompiledStep, arguments: list[jax.Array]) -> StepCheck:
    whole = NamedSharding(step.mesh, PartitionSpec())
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=whole) for array in arguments]

    def lower(call: Callable[..., Any]) -> jax.stages.Lowered:  # a new function: JAX lowers one only once
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
    """Bytes of a step with its arguments and results there twice: as they are, and moved by one rounding."""
    return int(2 * (memory.argument_size_in_bytes + memory.output_size_in_bytes) + memory.temp_size_in_bytes)


def _check_against(
    step: CompiledStep, arguments: list[jax.Array], call: Callable[..., Any], whole: Sequence[jax.Array], *, judges: bool
) -> StepCheck:
    """Compare the step with `call(*whole)`; if it `judges`, that too with itself on arguments that are moved by one rounding."""
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
    """Compare shard by shard, so that nothing is gathered."""
    difference: dict[Role, float] = {}
    magnitude: dict[Role, float] = {}
    for tensor, ours, theirs in zip(step.program.results, sharded, unsharded, strict=True):
        if jax.dtypes.issubdtype(ours.dtype, jax.dtypes.prng_key):
            continue
        expected = np.asarray(theirs)
        gaps = [largest_gap(_wide(shard.data), _wide(expected[shard.index])) for shard in ours.addressable_shards]
        difference[tensor.role] = max(difference.get(tensor.role, 0.0), *gaps)
        magnitude[tensor.role] = max(magnitude.get(tensor.role, 0.0), largest_magnitude(_wide(expected)))
    return relative(difference, magnitude)


def relative(difference: Mapping[Role, float], magnitude: Mapping[Role, float]) -> float:
    """The largest difference of any role, relative to the largest magnitude of that role; infinity where one of them is."""
    if inf in difference.values():
        return inf
    return max(0.0, *(gap / (magnitude[role] or 1.0) for role, gap in difference.items()))


def largest_gap(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> float:
    """The largest difference; none where both are not a number, infinity where only one of the two is, or is infinite.

    >>> largest_gap(np.array([1.0, -inf]), np.array([1.5, -inf])), largest_gap(np.array([1.0]), np.array([np.nan]))
    (0.5, inf)
    >>> largest_gap(np.array([np.nan, 1.0]), np.array([np.nan, 1.0])), largest_gap(np.array([np.nan, 1.0]), np.array([1.0, np.nan]))
    (0.0, inf)
    """
    if (np.isnan(ours) != np.isnan(theirs)).any():
        return inf
    differing = (ours != theirs) & ~np.isnan(theirs)  # equal infinities have no difference
    return float(np.abs(ours[differing] - theirs[differing]).max(initial=0.0))


def count_not_numbers(results: Iterable[Any]) -> int:
    """How many elements of arrays are not a number."""
    inexact = (each for each in results if jax.dtypes.issubdtype(each.dtype, np.inexact))
    return sum(int(np.isnan(_wide(each)).sum()) for each in inexact)


def largest_magnitude(array: np.ndarray[Any, Any]) -> float:
    """The largest magnitude of a finite number."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _wide(array: Any) -> np.ndarray[Any, Any]:
    host = np.asarray(array)
    return host.astype(np.complex128 if np.issubdtype(host.dtype, np.complexfloating) else np.float64)


# The error that rounding explains, measured: how far a step moves when every argument moves by one rounding.

_FAR_ABOVE = 30.0  # sums in another order, at every layer: more roundings than one, of which most cancel
_MOST = 0.5  # of the largest magnitude: as much is wrong, whatever the dtype
_CHAOTIC = 3.0  # times what one rounding does, for steps where one rounding does as much as that
_MULTIPLIED_BY_TPUS = "bfloat16"  # which TPUs round operands of matrix products to
_TF32 = 2.0**-11  # the unit roundoff of TF32, which NVIDIA's GPUs may round operands of float32 products to


def explained_error(sensitivity: float, epsilon: float) -> float:
    """The largest relative error that rounding explains; `sensitivity` is the relative change that one rounding of the arguments makes.

    >>> explained_error(2e-7, 1.2e-7) < 1e-5, explained_error(0.02, 0.008), explained_error(1.0, 0.008)
    (True, 0.5, 3.0)
    """
    one = max(sensitivity, epsilon) if isfinite(sensitivity) else epsilon
    return min(_FAR_ABOVE * one, max(_MOST, _CHAOTIC * one))


def largest_epsilon(program: Program, platform: str) -> float:
    """The machine epsilon of the coarsest floating-point dtype that the program computes in."""
    names = {each.dtype for each in program.operations} | {each.dtype for each in (*program.arguments, *program.results)}
    names |= {_MULTIPLIED_BY_TPUS} if platform == "tpu" else set()
    coarsest = max((float(jax.numpy.finfo(name).eps) for name in names if _is_float(name)), default=0.0)
    return max(coarsest, _TF32) if platform in ("gpu", "cuda") and "float32" in names else coarsest


def move_by_rounding(leaves: Sequence[jax.Array], epsilon: float) -> list[jax.Array]:
    """The arrays with each floating-point number larger or smaller by `epsilon` of itself, at random; others as they are."""
    keys = jax.random.split(jax.random.key(0), max(len(leaves), 1))
    return [_move(leaf, key, epsilon) if _is_float(str(leaf.dtype)) else leaf for leaf, key in zip(leaves, keys, strict=False)]


@partial(jax.jit, static_argnums=2)
def _move(leaf: jax.Array, key: jax.Array, epsilon: float) -> jax.Array:
    wide = leaf.astype(jax.numpy.promote_types(leaf.dtype, "float32"))
    moved: jax.Array = jax.numpy.where(jax.random.bernoulli(key, shape=leaf.shape), wide * (1 + epsilon), wide * (1 - epsilon))
    return moved.astype(leaf.dtype)


def _is_float(name: str) -> bool:
    try:
        return bool(jax.dtypes.issubdtype(jax.numpy.dtype(name), jax.numpy.floating))
    except TypeError:  # a random key, a token
        return False
