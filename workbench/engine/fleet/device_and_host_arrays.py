"""A model's arrays: on devices within their memory budgets, and on the host while no device needs them."""

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

# One device of a fleet: memory budget, and arrays copied to it and back.

Arrays = dict[Key, Any]
PINNED = "pinned_host"


@dataclass
class TransferTimings:
    """Overheads of a device: bytes and seconds of copies in and out, and seconds between units."""

    copied_in: list[tuple[int, float]] = field(default_factory=list)
    copied_out: list[tuple[int, float]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)


@dataclass
class FleetDevice:
    """A device and its claimed bytes. Units and transfers that would exceed `budget` are refused.

    If the device is the host's CPU there is no other memory to spill to, but arrays are copied all the same. With
    `timings`, transfers are awaited and recorded.
    """

    number: int
    device: jax.Device
    budget: int | None
    used_bytes: int = 0
    peak: int = 0
    moved_bytes: int = 0  # bytes copied in
    transfer_cost: tuple[float, float] = (0.0, 0.0)  # estimated seconds per transfer to it, and per byte
    transfer_seconds: float = 0.0  # estimated seconds of its transfers
    wait_seconds: float = 0.0  # seconds without computation because of transfers
    available: bool = True
    failure: Exception | None = None  # raised while copying results back; later results are invalid
    reserved: int = 0  # other requests for its memory; while there are any it takes no further unit
    timings: TransferTimings | None = None
    sharding: Any = field(init=False)

    def __post_init__(self) -> None:
        self.sharding = jax.sharding.SingleDeviceSharding(self.device)

    def verify_sound(self) -> None:
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
        """Copy host arrays to the device, possibly asynchronously. `since`: when the caller began to fetch them."""
        if not arrays:
            return {}
        size = sum(array.nbytes for array in arrays.values())
        self.moved_bytes += size
        self.transfer_seconds += self.transfer_cost[0] + self.transfer_cost[1] * size
        device_arrays = jax.device_put(list(arrays.values()), self.sharding)
        if self.timings:
            jax.block_until_ready(device_arrays)
            self.timings.copied_in.append((size, time.perf_counter() - since))
        return dict(zip(arrays, device_arrays, strict=True))


def pinned_sharding(device: jax.Device) -> Any:
    """Return the sharding for the device's pinned host memory; `None` if it has none or is the host itself."""
    kinds = {memory.kind for memory in device.addressable_memories()}
    if device.platform == "cpu" or PINNED not in kinds:
        return None
    return jax.sharding.SingleDeviceSharding(device, memory_kind=PINNED)


# Host store of a model's arrays while no device needs them (Hydra's spilling).
#
# Host arrays are in pinned memory if devices can copy from it directly (GPU, TPU: copies then overlap with compute, at the full
# speed of the link), else they are NumPy arrays; with `disk` they are files, read when they are needed. With a folder, what changed
# survives the process (`checkpoint`).


class HostStore:
    """One model's arrays by name. `folder` stores a checkpoint; with `on_disk` arrays are stored only there.

    `pinned`: sharding for pinned host memory (`pinned_sharding`); `None` for NumPy arrays.
    """

    def __init__(self, folder: Path | None, *, on_disk: bool = False, pinned: Any = None) -> None:
        self.checkpoint = None if folder is None else Checkpoint(folder)
        self._on_disk, self._pinned = on_disk, pinned
        self._arrays: dict[Key, Any] = {}
        self._keys: set[Key] = set()  # in memory or on disk
        self._changed: set[Key] = set()

    def get(self, key: Key) -> Any:
        """Return a NumPy array or a JAX array in pinned memory; devices accept both."""
        if key in self._arrays:
            return self._arrays[key]
        assert self.checkpoint is not None, f"{key} was never stored"
        return self.checkpoint.read(key)

    def put(self, arrays: Mapping[Key, Any]) -> None:
        """Store copies of device or host arrays, without keeping references; returns once they are complete."""
        self._arrays |= self._copy_to_host(arrays)
        self._keys |= arrays.keys()
        self._changed |= arrays.keys()

    def _copy_to_host(self, arrays: Mapping[Key, Any]) -> dict[Key, Any]:
        if self._pinned is not None:
            return dict(zip(arrays, jax.block_until_ready(jax.device_put(list(arrays.values()), self._pinned)), strict=True))
        for array in arrays.values():  # start all copies before awaiting the first
            if isinstance(array, jax.Array):
                array.copy_to_host_async()
        return {key: np.array(array) for key, array in arrays.items()}

    def drop(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._arrays.pop(key, None)
            self._keys.discard(key)
            self._changed.discard(key)

    def commit(self, position: Mapping[str, Any]) -> None:
        """Commit all arrays with the model's position, so that they survive this process."""
        if self.checkpoint is None:
            return
        self.checkpoint.commit({key: self._arrays[key] for key in self._changed}, self._keys, position)
        if self._on_disk:
            for key in self._changed:
                del self._arrays[key]
        self._changed.clear()

    def secure(self) -> None:
        """Sync the last commit, so that it survives a power failure."""
        if self.checkpoint is not None:
            self.checkpoint.secure()

    def resume(self) -> dict[str, Any] | None:
        """Load the arrays of the last undamaged commit and return its position; `None` if there is none.

        Only the holder of the folder may call this (`hold_folder`), because files that belong to no commit are removed.
        Raises `FleetError` if every commit is damaged.
        """
        if self.checkpoint is None or (committed := self.checkpoint.resume(keep_arrays=not self._on_disk)) is None:
            return None
        position, arrays = committed
        self._keys = set(arrays)
        if not self._on_disk:
            self._arrays = arrays if self._pinned is None else self._copy_to_host(arrays)
        self.checkpoint.tidy()
        return position

    @property
    def notice(self) -> str:
        return "" if self.checkpoint is None else self.checkpoint.notice
