"""One device of a fleet: what lies on it, what it may hold, and the units compiled for it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from workbench.engine.fleet_units import Key, UnitFunction
from workbench.errors import FleetError
from workbench.units import format_bytes

Arrays = dict[Key, Any]
PINNED = "pinned_host"


@dataclass(frozen=True)
class CompiledUnit:
    """A unit on one device; `needs` are its bytes at the worst moment, arguments and results included, as the compiler states them."""

    unit: UnitFunction
    compiled: jax.stages.Compiled
    needs: int

    @property
    def takes(self) -> int:
        """Bytes that must be brought in for it."""
        return sum(each.size * each.dtype.itemsize for each in self.unit.specs)


def compile_unit(unit: UnitFunction, device: jax.Device, name: str) -> CompiledUnit:
    """The unit for this device."""
    place = jax.sharding.SingleDeviceSharding(device)

    def call(*arrays: Any) -> tuple[Any, ...]:
        return unit.call(*arrays)

    call.__name__ = name
    jitted = jax.jit(call, in_shardings=place, out_shardings=place, donate_argnums=unit.donated, keep_unused=True)
    compiled = jitted.lower(*unit.specs).compile()
    stats = compiled.memory_analysis()
    takes = sum(each.size * each.dtype.itemsize for each in unit.specs)
    needs = (
        takes
        if stats is None
        else (stats.argument_size_in_bytes + stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes)
    )
    return CompiledUnit(unit, compiled, max(takes, needs))


@dataclass
class FleetDevice:
    """A device and the bytes of it that are spoken for. `budget` is never exceeded: a unit or a transfer that would is refused.

    On the host's own platform there is no other memory to spill to, and arrays are copied all the same.
    """

    number: int
    device: jax.Device
    budget: int | None
    held: int = 0
    peak: int = 0
    moved: int = 0  # bytes that came in
    waited: float = 0.0  # seconds in which nothing was computed because they did
    there: bool = True
    place: Any = field(init=False)

    def __post_init__(self) -> None:
        self.place = jax.sharding.SingleDeviceSharding(self.device)

    def fits(self, count: int) -> bool:
        return self.budget is None or self.held + count <= self.budget

    def claim(self, count: int, what: str) -> None:
        """Speak for `count` bytes; raises `FleetError` beyond the budget."""
        if not self.fits(count):
            assert self.budget is not None
            raise FleetError(
                f"{what} needs {format_bytes(count)} on device {self.number}, where {format_bytes(self.held)} of "
                f"{format_bytes(self.budget)} are in use.",
                ["give a larger budget of memory", "leave a larger buffer, so that the shards are smaller"],
            )
        self.held += count
        self.peak = max(self.peak, self.held)

    def give_back(self, count: int) -> None:
        self.held -= count

    def bring(self, arrays: Mapping[Key, Any]) -> Arrays:
        """Host arrays onto the device; the copies may be under way when this returns."""
        if not arrays:
            return {}
        self.moved += sum(each.nbytes for each in arrays.values())
        placed = jax.device_put(list(arrays.values()), self.place)
        return dict(zip(arrays, placed, strict=True))


def pinned_place(device: jax.Device) -> Any:
    """The sharding for pinned host memory that this device copies from and to; `None` where it has none, or is the host itself."""
    kinds = {each.kind for each in device.addressable_memories()}
    if device.platform == "cpu" or PINNED not in kinds:
        return None
    return jax.sharding.SingleDeviceSharding(device, memory_kind=PINNED)


def bandwidth(device: jax.Device, size: int = 1 << 24) -> float:
    """Bytes a second from the host to the device, measured."""
    host = np.zeros(size, np.uint8)
    jax.block_until_ready(jax.device_put(host, device))
    start = time.perf_counter()
    jax.block_until_ready(jax.device_put(host + np.uint8(1), device))
    return size / max(time.perf_counter() - start, 1e-9)


def timed(unit: CompiledUnit, device: FleetDevice) -> float:
    """Seconds of one call, on zeros; the second of two."""
    seconds = 0.0
    for _ in range(2):
        arrays: Sequence[Any] = [jax.device_put(np.zeros(each.shape, each.dtype), device.place) for each in unit.unit.specs]
        jax.block_until_ready(arrays)
        start = time.perf_counter()
        jax.block_until_ready(unit.compiled(*arrays))
        seconds = time.perf_counter() - start
    return seconds
