"""A model's arrays: on the devices, within the budget of each, and in the host's memory while no device needs them."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from workbench.engine.fleet.model_checkpoint import Checkpoint
from workbench.engine.fleet.shard_units import Key
from workbench.errors import FleetError
from workbench.units import format_bytes

# One device of a fleet: its memory budget, and the arrays copied to it and back.

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
                ["raise the memory budget", "use a larger buffer to get smaller shards"],
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


# The host store of a model's arrays while no device needs them (Hydra's spilling).
#
# On the host they are in pinned memory where a device can copy from it directly (GPU, TPU: copies then overlap with compute, at the full
# speed of the link), else they are NumPy arrays; with `disk` they are files, read when they are needed. With a folder, what changed
# survives the process (`checkpoint`).


class HostStore:
    """One model's arrays by name. `folder` keeps a checkpoint; with `on_disk` arrays are kept only there and read from it.

    `pinned` is the sharding that places an array in pinned host memory (`devices.pinned_sharding`); without it they are NumPy arrays.
    """

    def __init__(self, folder: Path | None, *, on_disk: bool = False, pinned: Any = None) -> None:
        self.checkpoint = None if folder is None else Checkpoint(folder)
        self._on_disk, self._pinned = on_disk, pinned
        self._arrays: dict[Key, Any] = {}
        self._keys: set[Key] = set()  # in memory or on the disk
        self._changed: set[Key] = set()

    def get(self, key: Key) -> Any:
        """The array, NumPy's or a JAX array in pinned memory; a device takes either."""
        if key in self._arrays:
            return self._arrays[key]
        assert self.checkpoint is not None, f"{key} was never stored"
        return self.checkpoint.read(key)

    def put(self, arrays: Mapping[Key, Any]) -> None:
        """Store copies of device or host arrays; returns when they are complete. The device arrays are not referenced any more."""
        self._arrays |= self._copy_to_host(arrays)
        self._keys |= arrays.keys()
        self._changed |= arrays.keys()

    def _copy_to_host(self, arrays: Mapping[Key, Any]) -> dict[Key, Any]:
        if self._pinned is not None:
            return dict(zip(arrays, jax.block_until_ready(jax.device_put(list(arrays.values()), self._pinned)), strict=True))
        for each in arrays.values():  # start all copies before the first is waited for
            if isinstance(each, jax.Array):
                each.copy_to_host_async()
        return {key: np.array(each) for key, each in arrays.items()}

    def drop(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._arrays.pop(key, None)
            self._keys.discard(key)
            self._changed.discard(key)

    def commit(self, position: Mapping[str, Any]) -> None:
        """Commit everything so far, with the model's position, so that it survives this process."""
        if self.checkpoint is None:
            return
        self.checkpoint.commit({key: self._arrays[key] for key in self._changed}, self._keys, position)
        if self._on_disk:
            for key in self._changed:
                del self._arrays[key]
        self._changed.clear()

    def secure(self) -> None:
        """Sync what was committed, so that it survives a power failure."""
        if self.checkpoint is not None:
            self.checkpoint.secure()

    def resume(self) -> dict[str, Any] | None:
        """Resume from the last undamaged commit: its position, with its arrays loaded; `None` if there is none.

        Only the holder of the folder may call this (`lock.hold_folder`): files that belong to no commit are removed. Raises `FleetError`
        for a folder in which every commit is damaged.
        """
        if self.checkpoint is None or (found := self.checkpoint.resume(keep_arrays=not self._on_disk)) is None:
            return None
        position, arrays = found
        self._keys = set(arrays)
        if not self._on_disk:
            self._arrays = arrays if self._pinned is None else self._copy_to_host(arrays)
        self.checkpoint.tidy()
        return position

    @property
    def notice(self) -> str:
        """The damage found on resuming, in words; empty if there was none."""
        return "" if self.checkpoint is None else self.checkpoint.notice
