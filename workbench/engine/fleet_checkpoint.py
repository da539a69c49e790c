"""What of a model survives the process: a folder with its arrays, and in two small files which of them count and where the model stands.

`latest.json` is written with every commit, in one step. What a process has written outlives it, however it ends, so a killed run goes on
from there; but until the disk has it a machine that loses power loses it, and disks are slower than units. So now and then all is brought
to the disk, and `position.json` says what is safe there: another start of the machine begins with that. All arrays of a commit are one
file under a new name; what neither of the two names is removed by the training that has the folder (`fleet_lock`).
"""

import errno
import json
import math
import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from workbench.engine.fleet_units import Key
from workbench.errors import FleetError

POSITION, LATEST = "position.json", "latest.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # of Linux: tells one start of the machine from another
_NO_SYNC = (errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP)  # what file systems say that bring no folder to the disk on request
Place = tuple[str, int]
"""The file that an array is in, and the byte at which it begins."""


@dataclass(frozen=True)
class _State:
    """Where the arrays are, and what the position file says besides; `version` counts commits."""

    version: int = 0
    places: Mapping[Key, Place] = field(default_factory=dict)
    position: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> set[str]:
        return {name for name, _ in self.places.values()}

    @property
    def text(self) -> str:
        places = {json.dumps(key): place for key, place in self.places.items()}
        return json.dumps({**self.position, "version": self.version, "boot": _boot(), "files": places})


class Checkpoint:
    """The arrays of one model by name, in files of its folder. One thread commits; others may read and secure meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state = self._safe = _State()
        self._held: set[str] = set()  # files that are safe, or being made so
        self._lock, self._securing = threading.Lock(), threading.Lock()
        _make(folder)

    def read(self, key: Key) -> np.ndarray[Any, Any]:
        """Types that NumPy has no name for (bfloat16, float8) are kept as bytes beside their name."""
        name, begin = self._state.places[key]
        with (self.folder / name).open("rb") as stream:
            stream.seek(begin)
            dtype = stream.readline().decode().strip()
            array = np.load(stream, allow_pickle=False)
        return array.view(jnp.dtype(dtype)) if array.dtype.name != dtype else array

    def commit(self, changed: Mapping[Key, Any], kept: Collection[Key], position: Mapping[str, Any]) -> None:
        """These arrays, those of `kept` that were written before, and nothing else survive this process, with where the model stands."""
        version, before = self._state.version + 1, self._state
        places = {key: place for key, place in before.places.items() if key in kept} | self._written(changed, f"{version}.arrays")
        state = _State(version, places, position)
        self._put(LATEST, state.text)
        with self._lock:
            self._state = state
            self._remove(before.files - state.files - self._held)
        if _boot() is None:
            self.secure()

    def secure(self) -> None:
        """What was committed so far survives the machine, too."""
        with self._securing:
            with self._lock:
                state, before = self._state, self._safe
                self._held = before.files | state.files
            if state.version == before.version:
                return
            for name in state.files - before.files:
                with (self.folder / name).open("rb") as stream:
                    os.fsync(stream.fileno())
            _sync(self.folder)  # the names of the new files, before a position counts on them
            self._put(POSITION, state.text, through=True)
            _sync(self.folder)  # the new position, before what only the old one names goes
            with self._lock:
                self._safe, self._held = state, state.files
                self._remove(before.files - state.files - self._state.files)

    def _written(self, arrays: Mapping[Key, Any], name: str) -> dict[Key, Place]:
        """One after the other in a file of their own."""
        places: dict[Key, Place] = {}
        if arrays:
            with (self.folder / name).open("wb") as stream:
                for key, each in arrays.items():
                    places[key] = (name, stream.tell())
                    array = np.asarray(each)
                    plain = array if array.dtype.kind in "biufc" and array.dtype.isbuiltin else array.view(f"u{array.dtype.itemsize}")
                    stream.write(f"{array.dtype.name}\n".encode())
                    np.save(stream, plain, allow_pickle=False)
        return places

    def _put(self, name: str, text: str, *, through: bool = False) -> None:
        """In one step; `through` to the disk."""
        draft = self.folder / f"{name}.new"
        with draft.open("w") as stream:
            stream.write(text)
            stream.flush()
            if through:
                os.fsync(stream.fileno())
        draft.replace(self.folder / name)

    def _remove(self, names: Collection[str]) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def resume(self) -> tuple[dict[str, Any], tuple[Key, ...]] | None:
        """The position of the last commit that counts, and the names of its arrays; `None` if there is none. Nothing is written or removed.

        Raises `FleetError` if it is damaged.
        """
        try:
            safe, latest = self._record(POSITION), self._record(LATEST)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(self.folder, error) from error
        if safe is None and latest is None:
            return None
        self._safe = safe or _State()
        self._state = max((self._safe, latest or self._safe), key=lambda each: each.version)
        self._held = self._safe.files
        return dict(self._state.position), tuple(self._state.places)

    def tidy(self) -> None:
        """Remove the files that neither position names, which a process was writing when it ended."""
        with self._lock:
            self._remove({each.name for each in self.folder.glob("*.arrays")} - self._state.files - self._held)

    def look_over(self) -> dict[str, Any] | None:
        """The position of `resume`, its arrays not read: only whether each is whole. Raises `FleetError` if it is damaged."""
        if (found := self.resume()) is None:
            return None
        try:
            for file, begin in self._state.places.values():
                _verify_whole(self.folder / file, begin)
        except (OSError, EOFError, ValueError, TypeError) as error:
            raise damaged(self.folder, error) from error
        return found[0]

    def _record(self, name: str) -> _State | None:
        """What the file says; the latest counts only while the machine runs on which it was written."""
        path = self.folder / name
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        if found.pop("boot") != _boot() and name == LATEST:
            return None
        places = {tuple(json.loads(key)): (file, begin) for key, (file, begin) in found.pop("files").items()}
        return _State(found.pop("version"), places, found)


def _sync(folder: Path) -> None:
    """Which names a folder has is on the disk, where the file system does that on request: Windows opens no folder."""
    try:
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _make(folder: Path) -> None:
    """With those above it, so that they survive the machine."""
    if not folder.exists():
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _verify_whole(path: Path, begin: int) -> None:
    """Raises `EOFError` or `ValueError` for an array that the file does not hold to its end."""
    with path.open("rb") as stream:
        stream.seek(begin)
        stream.readline()
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        if stream.tell() + math.prod(shape) * dtype.itemsize > path.stat().st_size:
            raise EOFError(f"{path.name} ends within an array")


def damaged(folder: Path, error: Exception) -> FleetError:
    return FleetError(f"The checkpoint in {folder} cannot be read: {type(error).__name__}: {error}", ["start anew in another folder"])


@cache
def _boot() -> str | None:
    """Which start of the machine this is, where it can be known."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return None
