"""Measure the speed of the attached devices, in about a second with all of them busy at once.

Devices are timed together because virtual CPU devices share the cores: each of eight on two cores has a quarter of a
core's speed, and the rates of one device must reflect that. Other load on the machine can only lengthen a time, so the
minimum of several is used; a time too short for the clock never becomes a rate (`_seconds_per_turn`).
"""

import functools
import math
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from workbench.engine.spmd.kept_calibration import store_calibration
from workbench.hardware.hardware import AxisTopology, Chip, Hardware, Link, PhysicalAxis
from workbench.plan.plan import Plan
from workbench.reports.run_events import Progress, RunListener

_REPEATS = 4
_LONG_ENOUGH = 4e-3  # seconds of a timed loop: 1000 times the uncertainty of the clock and of a program's start
_MOST_TURNS = 4096
_AGREED_TURNS = 16  # used with several processes, which must all run the same number of turns
_TINY = 16  # kernels per turn when timing kernel launches
_BETWEEN = 4  # small dots between all-reduces when timing their latency
_GELU_STEPS = 17  # elementwise steps of `_gelu` in the cost model: a tanh is 8, any other 1
_TARGETS = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}  # platform -> name in `Chip.target`


class _Sizes(NamedTuple):
    """Work for one device.

    - `side`, `small`: sides of a square dot and of a small one; `elements`: of an elementwise pass;
    - `near`: side of an array whose elementwise arithmetic takes longer than its memory traffic, 0 if none does;
    - `reduced`: elements of a large all-reduce.
    """

    side: int
    small: int
    elements: int
    near: int
    reduced: int


_CPU = _Sizes(256, 64, 1 << 20, 128, 1 << 18)  # larger than a core's private caches
_ACCELERATOR = _Sizes(4096, 256, 1 << 26, 0, 1 << 24)


@functools.cache
def calibrate(devices: tuple[jax.Device, ...]) -> Hardware:
    """Time dots, elementwise passes, all-reduces and tiny kernels on all of `devices` at once.

    With several processes every one of them must call this, as it runs collectives.
    """
    platform = devices[0].platform
    sizes = _CPU if platform == "cpu" else _ACCELERATOR
    mesh = Mesh(np.array(devices), ("all",), axis_types=(AxisType.Auto,))
    chip = Chip(
        name=devices[0].device_kind,
        flops={"default": 2 * sizes.side**3 / _time_function(_dot, mesh, (sizes.side, sizes.side))},
        memory=_memory(devices),
        memory_bandwidth=2 * 4 * sizes.elements / _time_function(_scale_and_add, mesh, (sizes.elements,)),
        vector_flops=_GELU_STEPS * sizes.near**2 / _time_function(_gelu, mesh, (sizes.near, sizes.near)) if sizes.near else math.inf,
        launch=_time_function(_dots(_TINY), mesh, (8, 8)) / _TINY,
        target=_TARGETS.get(platform, ""),
        calibrated=f"rates of kernels and links measured on {len(devices)} x {devices[0].device_kind}",
    )
    link, shape = Link("measured", *_communication(mesh, sizes)), AxisTopology.RING if platform == "tpu" else AxisTopology.SWITCH
    return Hardware(chip, (PhysicalAxis("device", len(devices), link, shape),), f"{chip.name} x {len(devices)}, calibrated")


def calibrate_for(plan: Plan, on_event: RunListener) -> Hardware:
    """Calibrate as many attached devices as the plan's mesh has, and store the result (`kept_calibration`)."""
    on_event(Progress("calibrating", 0.5))
    hardware = calibrate(tuple(jax.devices()[: plan.mesh.size]))
    store_calibration(plan.mesh.size, hardware)
    return hardware


def calibrate_here(virtual_devices: int) -> Hardware:
    """Calibrate all attached devices: accelerators, or else this many virtual CPU devices.

    Must be called before JAX initializes devices.
    """
    jax.config.update("jax_num_cpu_devices", virtual_devices)
    return calibrate(tuple(jax.devices()))


def _dot(x: Any) -> Any:
    return jnp.einsum("dij,djk->dik", x, x) / x.shape[-1]  # an array of ones is unchanged


def _dots(count: int) -> Callable[[Any], Any]:
    def work(x: Any) -> Any:
        for _ in range(count):  # each dot is a separate kernel: no compiler fuses two
            x = _dot(x)
        return x

    return work


def _layer_work(x: Any) -> Any:
    return _gelu(_dots(_BETWEEN)(x))


def _scale_and_add(x: Any) -> Any:
    return x * 0.5 + 1.0


def _gelu(x: Any) -> Any:
    """Slow elementwise arithmetic with an operand broadcast over its rows, as between the dots of a model."""
    return x * 0.5 * (1.0 + jnp.tanh(0.8 * (x + 0.04 * x * x * x))) + x.mT


def _reduce(x: Any) -> Any:
    return jnp.broadcast_to(x.mean(0, keepdims=True), x.shape)


def _communication(mesh: Mesh, sizes: _Sizes) -> tuple[float, float]:
    """Bandwidth and latency of a link from all-reduces: `t = 2 a steps + 2 V share / B` (`cost.collective_times`).

    The latency is measured between computations, where devices must wake up and wait for the last one.
    """
    n = mesh.size
    if n == 1:
        return math.inf, 0.0
    small, large = (_time_function(_reduce, mesh, (elements,)) for elements in (8, sizes.reduced))
    shape = sizes.small, sizes.small
    compute_seconds, with_reduce_seconds = (
        _time_function(_layer_work, mesh, shape),
        _time_function(lambda x: _reduce(_layer_work(x)), mesh, shape),
    )
    is_ring = mesh.devices.flat[0].platform == "tpu"
    share, steps = (n // 2 / n, n // 2) if is_ring else ((n - 1) / n, math.ceil(math.log2(n)))
    sent = 2 * 4 * (sizes.reduced - 8) * share
    moving = large - small if large > 2 * small else large
    return sent / moving, max(small, with_reduce_seconds - compute_seconds) / (2 * steps)


def _time_function(f: Callable[[Any], Any], mesh: Mesh, shape: tuple[int, ...]) -> float:
    """Seconds of one call of `f` on an array of `shape` per device inside a program, excluding program start."""
    sharding = NamedSharding(mesh, PartitionSpec("all"))
    ones = np.ones((1, *shape), np.float32)
    x = jax.make_array_from_callback((mesh.size, *shape), sharding, lambda _: ones)

    def loop(y: Any, turns: Any) -> Any:
        return jax.lax.fori_loop(0, turns, lambda _, z: jax.lax.with_sharding_constraint(f(z), sharding), y)

    jitted = jax.jit(loop, in_shardings=(sharding, None), out_shardings=sharding)

    def run(turns: int) -> float:
        start = time.perf_counter()
        jax.block_until_ready(jitted(x, turns))
        return time.perf_counter() - start

    run(1)  # compiles
    turns = _AGREED_TURNS if jax.process_count() > 1 else _enough_turns(run)
    return _seconds_per_turn(run, turns)


def _enough_turns(run: Callable[[int], float]) -> int:
    turns = 4
    while turns < _MOST_TURNS and min(run(turns), run(turns)) < _LONG_ENOUGH:
        turns *= 4
    return turns


def _seconds_per_turn(run: Callable[[int], float], turns: int) -> float:
    """Seconds of one turn: the minimal time of many turns less that of a few.

    If the difference is lost in noise, the whole time is used: a rate may be too low, but never far too high.
    """
    few_turns = max(turns // 4, 1)
    times = [(run(few_turns), run(turns)) for _ in range(_REPEATS)]
    short, long = (min(samples) for samples in zip(*times, strict=True))
    expected = long * (1 - few_turns / turns)  # as if starting a program were free
    difference = long - short
    return difference / (turns - few_turns) if difference > expected / 2 else long / turns


def _memory(devices: tuple[jax.Device, ...]) -> int:
    local = [device for device in devices if device.process_index == jax.process_index()]
    if local and (stats := local[0].memory_stats()) and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    if devices[0].platform == "cpu":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(len(local), 1)
    return 0
