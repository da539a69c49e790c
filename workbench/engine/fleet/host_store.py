"""The host store of a model's arrays while no device needs them (Hydra's spilling).

On the host they are in pinned memory where a device can copy from it directly (GPU, TPU: copies then overlap with compute, at the full
speed of the link), else they are NumPy arrays; with `disk` they are files, read when they are needed. With a folder, what changed survives
the process (`checkpoint`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from workbench.engine.fleet.checkpoint import Checkpoint
from workbench.engine.fleet.shard_units import Key


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
