"""Where a model's arrays lie while no device needs them, and what of them survives the process.

On the host they lie in pinned memory where a device has its own way to that (GPU, TPU: copies then run beside the computing, at the full
speed of the link), else they are NumPy arrays; with `disk` they are files, read when they are needed. A checkpoint is a folder a model:
arrays as `.npy` files under new names, then `position.json`, which names the ones that count, put in place in one step. A process that is
killed in between leaves the old position and its files; what no position names is removed when the folder is opened again.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workbench.engine.fleet_units import Key
from workbench.errors import FleetError

POSITION = "position.json"


class HostStore:
    """One model's arrays by name. `folder` keeps a checkpoint, `on_disk` keeps nothing else: arrays are read from there.

    `pinned` is the sharding that places an array in pinned host memory (`fleet_devices.pinned_place`); without it they are NumPy's.
    """

    def __init__(self, folder: Path | None, *, on_disk: bool = False, pinned: Any = None) -> None:
        self.folder = folder
        self._on_disk, self._pinned = on_disk, pinned
        self._arrays: dict[Key, Any] = {}
        self._files: dict[Key, str] = {}
        self._changed: set[Key] = set()
        self._version = 0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: Key) -> Any:
        """The array, NumPy's or a JAX array in pinned memory; a device takes either."""
        if key in self._arrays:
            return self._arrays[key]
        assert self.folder is not None, f"{key} was never stored"
        return _read(self.folder / self._files[key])

    def put(self, arrays: Mapping[Key, Any]) -> None:
        """Keep copies of device or host arrays; returns when they are there. The device's memory is not held on to."""
        self._arrays |= self._kept(arrays)
        self._changed |= arrays.keys()

    def _kept(self, arrays: Mapping[Key, Any]) -> dict[Key, Any]:
        if self._pinned is not None:
            return dict(zip(arrays, jax.block_until_ready(jax.device_put(list(arrays.values()), self._pinned)), strict=True))
        for each in arrays.values():  # all copies under way before the first is waited for
            if isinstance(each, jax.Array):
                each.copy_to_host_async()
        return {key: np.array(each) for key, each in arrays.items()}

    def drop(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._arrays.pop(key, None)
            self._files.pop(key, None)
            self._changed.discard(key)

    @property
    def bytes(self) -> int:
        """Of the host's memory."""
        return sum(each.nbytes for each in self._arrays.values())

    def commit(self, position: Mapping[str, Any]) -> None:
        """Make everything so far survive, together with where the model stands."""
        if self.folder is None:
            return
        self._version += 1
        before = set(self._files.values())
        for key in self._changed:
            name = f"{'_'.join(map(str, key))}.{self._version}.npy"
            _write(self.folder / name, np.asarray(self._arrays[key]))
            self._files[key] = name
            if self._on_disk:
                del self._arrays[key]
        self._changed.clear()
        files = {json.dumps(key): name for key, name in self._files.items()}
        draft = self.folder / f"{POSITION}.new"
        with draft.open("w") as stream:
            json.dump({**position, "version": self._version, "files": files}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(self.folder / POSITION)
        for name in before - set(self._files.values()):
            (self.folder / name).unlink(missing_ok=True)

    def resume(self) -> dict[str, Any] | None:
        """The position of the last commit, with its arrays; `None` if there is none. Raises `FleetError` for a folder that is damaged."""
        if self.folder is None or not (self.folder / POSITION).exists():
            return None
        try:
            found: dict[str, Any] = json.loads((self.folder / POSITION).read_text())
            self._files = {tuple(json.loads(key)): name for key, name in found.pop("files").items()}
            self._version = found.pop("version")
            if not self._on_disk:
                self._arrays = self._kept({key: _read(self.folder / name) for key, name in self._files.items()})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FleetError(
                f"The checkpoint in {self.folder} cannot be read: {type(error).__name__}: {error}", ["start anew in another folder"]
            ) from error
        for stray in set(self.folder.glob("*.npy")) - {self.folder / name for name in self._files.values()}:
            stray.unlink()
        return found


def _read(path: Path) -> np.ndarray[Any, Any]:
    """Types that NumPy has no name for (bfloat16, float8) are kept as bytes beside their name."""
    with path.open("rb") as stream:
        name = stream.readline().decode().strip()
        array = np.load(stream, allow_pickle=False)
    return array.view(_dtype(name)) if array.dtype.name != name else array


def _write(path: Path, array: np.ndarray[Any, Any]) -> None:
    plain = array if array.dtype.kind in "biufc" and array.dtype.isbuiltin else array.view(np.dtype(f"u{array.dtype.itemsize}"))
    with path.open("wb") as stream:
        stream.write(f"{array.dtype.name}\n".encode())
        np.save(stream, plain, allow_pickle=False)
        stream.flush()
        os.fsync(stream.fileno())


def _dtype(name: str) -> Any:
    return jnp.dtype(name)
