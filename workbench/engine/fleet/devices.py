"""One device of a fleet: its memory budget, and the arrays copied to it and back."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from workbench.engine.fleet.shard_units import Key
from workbench.errors import FleetError
from workbench.units import format_bytes

Arrays = dict[Key, Any]
PINNED = "pinned_host"


@dataclass
class TransferTimings:
    """The overhead around the units of a device: bytes and seconds of the copies in and out, and seconds between two units."""

    copied_in: list[tuple[int, float]] = field(default_factory=list)
    copied_out: list[tuple[int, float]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)


@dataclass
class FleetDevice:
    """A device and the bytes of it that are claimed. `budget` is never exceeded: a unit or a transfer that would exceed it is refused.

    Where the device is the host's own CPU there is no other memory to spill to, and arrays are copied all the same. With `timings`
    transfers are waited for and recorded.
    """

    number: int
    device: jax.Device
    budget: int | None
    used_bytes: int = 0
    peak: int = 0
    moved_bytes: int = 0  # bytes copied in
    transfer_cost: tuple[float, float] = (0.0, 0.0)  # seconds of any transfer to it, and per byte
    transfer_seconds: float = 0.0  # seconds that transfers take by that estimate
    wait_seconds: float = 0.0  # seconds in which nothing was computed because of them
    available: bool = True
    failure: Exception | None = None  # raised while results were copied back: nothing after them is valid
    reserved: int = 0  # requests for memory for something else than units; while there are any it takes no further unit
    timings: TransferTimings | None = None
    sharding: Any = field(init=False)

    def __post_init__(self) -> None:
        self.sharding = jax.sharding.SingleDeviceSharding(self.device)

    def verify_sound(self) -> None:
        """Raise the error that the device has failed with, if any."""
        if self.failure is not None:
            raise self.failure

    def fits(self, count: int) -> bool:
        return self.budget is None or self.used_bytes + count <= self.budget

    def claim(self, count: int, what: str) -> None:
        """Claim `count` bytes; raises `FleetError` beyond the budget."""
        if not self.fits(count):
            assert self.budget is not None
            raise FleetError(
                f"{what} needs {format_bytes(count)} on device {self.number}, where {format_bytes(self.used_bytes)} of "
                f"{format_bytes(self.budget)} are in use.",
                ["give a larger budget of memory", "leave a larger buffer, so that the shards are smaller"],
            )
        self.used_bytes += count
        self.peak = max(self.peak, self.used_bytes)

    def release(self, count: int) -> None:
        self.used_bytes -= count

    def copy_in(self, arrays: Mapping[Key, Any], since: float = 0.0) -> Arrays:
        """Copy host arrays to the device; the copies may be under way when this returns. `since`: when the caller began to fetch them."""
        if not arrays:
            return {}
        size = sum(each.nbytes for each in arrays.values())
        self.moved_bytes += size
        self.transfer_seconds += self.transfer_cost[0] + self.transfer_cost[1] * size
        arrays_here = jax.device_put(list(arrays.values()), self.sharding)
        if self.timings:
            jax.block_until_ready(arrays_here)
            self.timings.copied_in.append((size, time.perf_counter() - since))
        return dict(zip(arrays, arrays_here, strict=True))


def pinned_sharding(device: jax.Device) -> Any:
    """The sharding for the pinned host memory that this device copies from and to; `None` where it has none, or is the host itself."""
    kinds = {each.kind for each in device.addressable_memories()}
    if device.platform == "cpu" or PINNED not in kinds:
        return None
    return jax.sharding.SingleDeviceSharding(device, memory_kind=PINNED)
