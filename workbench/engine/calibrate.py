"""How fast the attached devices are, measured in about a second with all of them busy at once.

Devices are timed together and not alone because virtual CPU devices share the cores: eight of them on two cores are each a
quarter as fast as one core, and the rates of one device must say so.
"""

import functools
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from workbench.hardware import Chip, Hardware, Link, PhysicalAxis, Shape

_REPEATS = 5
_TURNS = (2, 12)
_TINY = 16  # kernels a turn when their start is timed


class _Sizes(NamedTuple):
    """Work for one device: side of a square product, elements of an elementwise pass, elements of a large all-reduce."""

    side: int
    elements: int
    reduced: int


_CPU = _Sizes(384, 1 << 21, 1 << 19)  # a pass larger than the caches
_ACCELERATOR = _Sizes(4096, 1 << 26, 1 << 24)


@functools.cache
def calibrate(devices: tuple[jax.Device, ...]) -> Hardware:
    """Time a product, an elementwise pass, two all-reduces and tiny kernels on all of `devices` at once.

    With several processes every one of them must call this, as it runs collectives.
    """
    sizes = _CPU if devices[0].platform == "cpu" else _ACCELERATOR
    mesh = Mesh(np.array(devices), ("all",), axis_types=(AxisType.Auto,))
    latency, link_bandwidth = _communication(mesh, sizes)
    chip = Chip(
        name=devices[0].device_kind,
        flops={"default": 2 * sizes.side**3 / _seconds(_product, mesh, (sizes.side, sizes.side))},
        memory=_memory(devices),
        memory_bandwidth=2 * 4 * sizes.elements / _seconds(_pass, mesh, (sizes.elements,)),
        launch=_seconds(_tiny_products, mesh, (8, 8)) / _TINY,
    )
    # What a device sends in a ring collective is counted in both directions together; a link's bandwidth is of one.
    link = Link("measured", link_bandwidth / 2, latency)
    axis = PhysicalAxis("device", len(devices), link, Shape.RING)
    return Hardware(chip, (axis,), f"{devices[0].device_kind} x {len(devices)}, as measured")


def _product(x: Any) -> Any:
    return jnp.einsum("dij,djk->dik", x, x) / x.shape[-1]  # ones stay ones


def _tiny_products(x: Any) -> Any:
    for _ in range(_TINY):  # a product is a kernel of its own: no compiler fuses two
        x = jnp.einsum("dij,djk->dik", x, x) * (1 / 8)
    return x


def _pass(x: Any) -> Any:
    return x * 0.5 + 1.0


def _reduce(x: Any) -> Any:
    return jnp.broadcast_to(x.mean(0, keepdims=True), x.shape)


def _communication(mesh: Mesh, sizes: _Sizes) -> tuple[float, float]:
    """Latency and bandwidth of a ring all-reduce, from a small and a large one: `t = latency + 2 V (n-1)/n / bandwidth`."""
    n = mesh.size
    if n == 1:
        return 0.0, float("inf")
    small, large = (_seconds(_reduce, mesh, (elements,)) for elements in (8, sizes.reduced))
    sent = 2 * 4 * (sizes.reduced - 8) * (n - 1) / n
    return small, sent / max(large - small, 1e-9)


def _seconds(f: Callable[[Any], Any], mesh: Mesh, shape: tuple[int, ...]) -> float:
    """The time of one `f` on an array of `shape` per device, inside a program: what starting a program costs is left out.

    A loop of `f` is timed short and long; the difference is `f` alone. The counts are fixed: processes must run alike.
    """
    sharding = NamedSharding(mesh, PartitionSpec("all"))
    x = jax.jit(lambda: jnp.ones((mesh.size, *shape), jnp.float32), out_shardings=sharding)()
    short, long = (_loop_seconds(f, x, turns) for turns in _TURNS)
    return max(long - short, 1e-9) / (_TURNS[1] - _TURNS[0])


def _loop_seconds(f: Callable[[Any], Any], x: Any, turns: int) -> float:
    """The median time of a program that applies `f` so many times, every turn laid out as the first."""

    def turn(_: int, y: Any) -> Any:
        return jax.lax.with_sharding_constraint(f(y), x.sharding)

    jitted = jax.jit(lambda y: jax.lax.fori_loop(0, turns, turn, y), in_shardings=x.sharding, out_shardings=x.sharding)
    jax.block_until_ready(jitted(x))  # compiles
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(jitted(x))
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _memory(devices: tuple[jax.Device, ...]) -> int:
    """Bytes of one device; the machine's memory in equal parts where devices are virtual."""
    local = [device for device in devices if device.process_index == jax.process_index()]
    if local and (stats := local[0].memory_stats()) and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    if devices[0].platform == "cpu":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // max(len(local), 1)
    return 0
