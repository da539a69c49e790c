"""Where a model's arrays lie while no device needs them.

On the host they lie in pinned memory where a device has its own way to that (GPU, TPU: copies then run beside the computing, at the full
speed of the link), else they are NumPy arrays; with `disk` they are files, read when they are needed. With a folder what changed survives
the process (`checkpoint`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from workbench.engine.fleet.checkpoint import Checkpoint
from workbench.engine.fleet.units import Key


class HostStore:
    """One model's arrays by name. `folder` keeps a checkpoint, `on_disk` keeps nothing else: arrays are read from there.

    `pinned` is the sharding that places an array in pinned host memory (`devices.pinned_sharding`); without it they are NumPy's.
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
        """Keep copies of device or host arrays; returns when they are there. The device's memory is not held on to."""
        self._arrays |= self._copy_to_host(arrays)
        self._keys |= arrays.keys()
        self._changed |= arrays.keys()

    def _copy_to_host(self, arrays: Mapping[Key, Any]) -> dict[Key, Any]:
        if self._pinned is not None:
            return dict(zip(arrays, jax.block_until_ready(jax.device_put(list(arrays.values()), self._pinned)), strict=True))
        for each in arrays.values():  # all copies under way before the first is waited for
            if isinstance(each, jax.Array):
                each.copy_to_host_async()
        return {key: np.array(each) for key, each in arrays.items()}

    def drop(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._arrays.pop(key, None)
            self._keys.discard(key)
            self._changed.discard(key)

    def commit(self, position: Mapping[str, Any]) -> None:
        """Make everything so far survive this process, together with where the model stands."""
        if self.checkpoint is None:
            return
        self.checkpoint.commit({key: self._arrays[key] for key in self._changed}, self._keys, position)
        if self._on_disk:
            for key in self._changed:
                del self._arrays[key]
        self._changed.clear()

    def secure(self) -> None:
        """Make what was committed survive the machine, too."""
        if self.checkpoint is not None:
            self.checkpoint.secure()

    def resume(self) -> dict[str, Any] | None:
        """The position of the last commit that is whole, with its arrays, to go on from; `None` if there is none.

        Only who has the folder may (`lock.hold_folder`): what belongs to no commit is removed. Raises `FleetError` for a folder in which
        all is damaged.
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
        """What was damaged when this was resumed, in words; empty if nothing was."""
        return "" if self.checkpoint is None else self.checkpoint.notice
