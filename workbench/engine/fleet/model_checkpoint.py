"""Checkpoint of one model: a folder with its arrays, and small files with the valid arrays and the training position.

`latest.json` is replaced atomically by every commit. Written data outlives its process, so a killed run resumes from
there; but a power failure loses it until it is synced to disk, and syncing after every unit would be too slow.
Therefore everything is synced periodically, and `position.json` names the synced state, from which training resumes
after a reboot. The previously synced state stays as `previous.json`, in case the disk loses data: damage is detected by
checksum, and training resumes from the newest undamaged state. All arrays of a commit are in one file with a new name;
files in none of the three records are removed by the training that holds the folder (`hold_folder`).
"""

import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from workbench.core.operating_system import try_lock
from workbench.core.parse_untrusted import open_plain
from workbench.documents.durable_files import explain_write_errors, make_folder, sync_file, sync_folder, write_synced
from workbench.engine.fleet.checkpoint_arrays import ArrayLocation, Damage, read_array, verify_length, write_arrays
from workbench.engine.fleet.shard_units import Key
from workbench.errors import FleetError

# JSON record of a checkpoint: locations of the arrays, training position, and a checksum of the record.

_BOOT = Path("/proc/sys/kernel/random/boot_id")  # Linux only; identifies one boot of the machine
_FILE = re.compile(r"\d+\.arrays")  # excludes files outside the folder


@dataclass(frozen=True)
class CheckpointRecord:
    """Array locations and model position; `version` counts commits, `boot` identifies the machine's boot."""

    version: int = 0
    locations: Mapping[Key, ArrayLocation] = field(default_factory=dict)
    position: Mapping[str, Any] = field(default_factory=dict)
    boot: str | None = None

    @property
    def files(self) -> set[str]:
        return {location.file for location in self.locations.values()}

    @property
    def text(self) -> str:
        locations = {json.dumps(key): location for key, location in self.locations.items()}
        body = json.dumps({**self.position, "version": self.version, "boot": self.boot, "files": locations})
        return f'{body[:-1]}, "checksum": "{_checksum(body)}"}}'


def read_record(path: Path) -> CheckpointRecord | None:
    """Read a record; `None` if there is none. Raises `Damage` if it is empty, truncated or altered.

    Checkpoints of older versions have no checksums and are accepted.
    """
    try:
        with open_plain(path) as file:
            text = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damage(f"`{path.name}` cannot be read: {error.strerror or error}") from error
    if not text.strip(b"\0"):
        raise Damage(f"`{path.name}` is empty")
    try:
        return _record(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damage(f"`{path.name}` is corrupt") from error


def _record(found: dict[str, Any]) -> CheckpointRecord:
    checksum = found.pop("checksum", None)
    if checksum is not None and checksum != _checksum(json.dumps(found)):
        raise ValueError(checksum)
    boot, version = found.pop("boot"), found.pop("version")
    locations = {tuple(json.loads(key)): ArrayLocation(*location) for key, location in found.pop("files").items()}
    if checksum is None and any(array_location.checksum for array_location in locations.values()):
        raise ValueError(checksum)
    if not isinstance(version, int) or not all(
        _FILE.fullmatch(array_location.file) and array_location.begin >= 0 for array_location in locations.values()
    ):
        raise ValueError(version)
    return CheckpointRecord(version, locations, found, boot)


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


@cache
def this_boot() -> str | None:
    """Return an identifier of the machine's current boot, if available."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return None


LATEST, POSITION, PREVIOUS = "latest.json", "position.json", "previous.json"
NAMES = (LATEST, POSITION, PREVIOUS)
"""From newest to oldest."""
Checked = TypeVar("Checked")


class Checkpoint:
    """The arrays of one model by name, in files of a folder. One thread commits; others may read and secure meanwhile.

    Raises `FleetError` for failed writes. `notice` describes damage found on resuming.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.notice = folder, ""
        self._state = self._safe = self._previous = CheckpointRecord()
        self._version = 0  # the highest existing one, so that no file is overwritten
        self._protected: set[str] = set()  # files that are synced or being synced
        self._lock, self._securing = threading.Lock(), threading.Lock()
        with explain_write_errors(folder, FleetError):
            make_folder(folder)

    def read(self, key: Key) -> np.ndarray[Any, Any]:
        """Read an array. Raises `FleetError` if it is damaged."""
        try:
            return read_array(self.folder, self._state.locations[key])
        except Damage as damage:
            raise FleetError(
                f"The checkpoint in {self.folder} was damaged while it was used: {damage}.",
                ["run it again: it continues from the newest undamaged checkpoint", "check that disk"],
            ) from damage

    def commit(self, changed: Mapping[Key, Any], retained: Collection[Key], position: Mapping[str, Any]) -> None:
        """Commit these arrays, earlier ones in `retained`, and the position, to survive this process; drop all others."""
        self._version, before = self._version + 1, self._state
        with explain_write_errors(self.folder, FleetError):
            written = write_arrays(self.folder / f"{self._version}.arrays", changed) if changed else {}
            locations = {key: location for key, location in before.locations.items() if key in retained} | written
            state = CheckpointRecord(self._version, locations, position, this_boot())
            draft = self.folder / f"{LATEST}.new"
            draft.write_text(state.text)
            draft.replace(self.folder / LATEST)
            with self._lock:
                self._state = state
                self._remove(before.files - state.files - self._protected)
        if state.boot is None:
            self.secure()

    def secure(self) -> None:
        """Sync the commits to disk, so that they survive a power failure."""
        with self._securing, explain_write_errors(self.folder, FleetError):
            with self._lock:
                state, before, oldest = self._state, self._safe, self._previous
                previous = before if before.version else oldest  # a damaged record must not become `previous.json`
                self._protected = oldest.files | before.files | state.files
            if state.version == before.version:
                return
            for name in state.files - before.files:
                sync_file(self.folder / name)
            sync_folder(self.folder)  # sync new file names before a position refers to them
            self._write_position(state, replaces=before)
            with self._lock:
                self._safe, self._previous, self._protected = state, previous, previous.files | state.files
                self._remove((before.files | oldest.files) - self._protected - self._state.files)

    def _write_position(self, state: CheckpointRecord, replaces: CheckpointRecord) -> None:
        """Replace and sync the position before older files are removed; one of the two names always exists."""
        draft, position = self.folder / f"{POSITION}.new", self.folder / POSITION
        write_synced(draft, state.text.encode())
        if replaces.version:
            position.replace(self.folder / PREVIOUS)
        draft.replace(position)
        sync_folder(self.folder)

    def _remove(self, names: Collection[str]) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def resume(self, *, keep_arrays: bool = True) -> tuple[dict[str, Any], dict[Key, np.ndarray[Any, Any] | None]] | None:
        """Return position and arrays by name of the newest undamaged commit; `None` if there is none.

        Nothing is written or removed. Each array is read; without `keep_arrays` only its checksum is verified, and the
        result has `None` instead. Raises `FleetError` if every commit is damaged.
        """

        def read(record: CheckpointRecord) -> dict[Key, np.ndarray[Any, Any] | None]:
            arrays = ((key, read_array(self.folder, location)) for key, location in record.locations.items())
            return {key: array if keep_arrays else None for key, array in arrays}

        if (newest := self._find_newest(read)) is None:
            return None
        name, self._state, arrays = newest
        self._safe, self._previous = (self._read_or_empty(record_name) for record_name in (POSITION, PREVIOUS))
        if name == PREVIOUS:
            self._safe = CheckpointRecord()
        self._protected = self._safe.files | self._previous.files
        return dict(self._state.position), arrays

    def peek_position(self) -> dict[str, Any] | None:
        """Return the position of `resume`, verifying only file lengths; raises the errors of `resume`."""

        def verify(record: CheckpointRecord) -> None:
            for location in record.locations.values():
                verify_length(self.folder, location)

        newest = self._find_newest(verify)
        return None if newest is None else dict(newest[1].position)

    def _find_newest(self, check: Callable[[CheckpointRecord], Checked]) -> tuple[str, CheckpointRecord, Checked] | None:
        """Return the newest record that passes `check`, if any; raises `FleetError` if all synced ones are damaged."""
        records, damages = self._read_records()
        self._version = max([*(record.version for record in records.values()), *self._list_versions()], default=0)
        for name, record in sorted(records.items(), key=lambda item: -item[1].version):
            try:
                checked = check(record)
            except Damage as damage:
                damages[name] = str(damage)
                continue
            self.notice = self._notice_text([text for other, text in damages.items() if NAMES.index(other) < NAMES.index(name)])
            return name, record, checked
        if damages.keys() - {LATEST}:
            raise _all_damaged_error(self.folder, damages.values())
        self.notice = self._notice_text(damages.values(), anew=True)
        return None

    def _read_records(self) -> tuple[dict[str, CheckpointRecord], dict[str, str]]:
        """Return readable records, and the damage of others; the latest record is invalid after a reboot."""
        records, damages = dict[str, CheckpointRecord](), dict[str, str]()
        for name in NAMES:
            try:
                record = read_record(self.folder / name)
            except Damage as damage:
                damages[name] = str(damage)
                continue
            if record is not None and (name != LATEST or record.boot == this_boot()):
                records[name] = record
        return records, damages

    def _read_or_empty(self, name: str) -> CheckpointRecord:
        with suppress(Damage):
            return read_record(self.folder / name) or CheckpointRecord()
        return CheckpointRecord()

    def _list_versions(self) -> list[int]:
        return [int(path.stem) for path in self.folder.glob("*.arrays") if path.stem.isdecimal()]

    def _notice_text(self, damages: Collection[str], *, anew: bool = False) -> str:
        if not damages:
            return ""
        what = "; ".join(dict.fromkeys(damages))
        then = (
            "It had no earlier checkpoint and starts from the beginning"
            if anew
            else "It continues from the previous checkpoint, which is undamaged"
        )
        return f"The newest checkpoint in {self.folder} is damaged: {what}. {then}."

    def tidy(self) -> None:
        """Remove files in no record, which a process left unfinished."""
        with self._lock:
            self._remove({path.name for path in self.folder.glob("*.arrays")} - self._state.files - self._protected)


def _all_damaged_error(folder: Path, damages: Collection[str]) -> FleetError:
    return FleetError(
        f"The checkpoint in {folder} is damaged, and every earlier checkpoint is damaged: {'; '.join(dict.fromkeys(damages))}.",
        ["start from the beginning in another folder", "restore a copy of that folder, if you have one"],
    )


# Lock on a checkpoint folder, since two trainings would overwrite each other's checkpoints.

LOCK = ".lock"
"""Lock file in a fleet's folder; no model's name begins with a dot."""


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Lock the folder for this training; raises `FleetError` if it is in use or not writable.

    The operating system holds the lock (`flock`) and releases it when the process ends; the remaining file has no
    meaning. Without `flock` (Windows, some network drives) the folder is not locked, and the user must avoid concurrent
    trainings.
    """
    with explain_write_errors(folder, FleetError):
        make_folder(folder)
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not try_lock(file):
            raise _folder_in_use_error(folder, os.pread(file, 20, 0).decode())
        with explain_write_errors(folder, FleetError):
            os.truncate(file, 0)
            os.write(file, str(os.getpid()).encode())  # for the error message of the next training
        yield
    finally:
        os.close(file)  # releases the lock


def _folder_in_use_error(folder: Path, process: str) -> FleetError:
    who = f" (process {process})" if process else ""
    return FleetError(
        f"Another training run{who} uses {folder}: the two would overwrite each other's checkpoints.",
        ["wait until it has ended", "stop it: the next run continues from its checkpoint", "give another folder"],
    )
