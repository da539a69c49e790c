"""What of a model survives the process: a folder with its arrays, and small files that say which of them count and where the model stands.

`latest.json` is written with every commit, in one step. What a process has written outlives it, however it ends, so a killed run goes on
from there; but until the disk has it a machine that loses power loses it, and disks are slower than units. So now and then all is brought
to the disk, and `position.json` says what is safe there: another start of the machine begins with that. The one that was safe before it
stays as `previous.json`, for disks forget, too: what is damaged is known by its checksum, and the newest that is whole is gone on from.
All arrays of a commit are one file under a new name; what none of the three names is removed by the training that has the folder
(`lock`).
"""

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from workbench.documents.durable_files import explain_write_errors, make_folder, sync_file, sync_folder, write_synced
from workbench.engine.fleet.checkpoint_arrays import Damage, read_array, verify_length, write_arrays
from workbench.engine.fleet.checkpoint_record import CheckpointRecord, read_record, this_boot
from workbench.engine.fleet.units import Key
from workbench.errors import FleetError

LATEST, POSITION, PREVIOUS = "latest.json", "position.json", "previous.json"
NAMES = (LATEST, POSITION, PREVIOUS)
"""From the newest on."""
Checked = TypeVar("Checked")


class Checkpoint:
    """The arrays of one model by name, in files of its folder. One thread commits; others may read and secure meanwhile.

    What cannot be written is a `FleetError`. `notice` says in words what was damaged, where that was found when it was resumed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.notice = folder, ""
        self._state = self._safe = self._previous = CheckpointRecord()
        self._version = 0  # the highest there is: no file is written over
        self._protected: set[str] = set()  # files that are safe, or being made so
        self._lock, self._securing = threading.Lock(), threading.Lock()
        with explain_write_errors(folder, FleetError):
            make_folder(folder)

    def read(self, key: Key) -> np.ndarray[Any, Any]:
        """Raises `FleetError` if it is damaged."""
        try:
            return read_array(self.folder, self._state.locations[key])
        except Damage as damage:
            raise FleetError(
                f"The checkpoint in {self.folder} was damaged while it was used: {damage}.",
                ["run it again: it continues from the newest undamaged checkpoint", "look after that disk"],
            ) from damage

    def commit(self, changed: Mapping[Key, Any], retained: Collection[Key], position: Mapping[str, Any]) -> None:
        """These arrays, those of `retained` that were written before, and nothing else survive this process, with where the model
        stands."""
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
        """What was committed so far survives the machine, too."""
        with self._securing, explain_write_errors(self.folder, FleetError):
            with self._lock:
                state, before, oldest = self._state, self._safe, self._previous
                previous = before if before.version else oldest  # one that was found damaged is no predecessor
                self._protected = oldest.files | before.files | state.files
            if state.version == before.version:
                return
            for name in state.files - before.files:
                sync_file(self.folder / name)
            sync_folder(self.folder)  # the names of the new files, before a position counts on them
            self._write_position(state, replaces=before)
            with self._lock:
                self._safe, self._previous, self._protected = state, previous, previous.files | state.files
                self._remove((before.files | oldest.files) - self._protected - self._state.files)

    def _write_position(self, state: CheckpointRecord, replaces: CheckpointRecord) -> None:
        """In its place, and on the disk, before what only older ones name goes. At every moment one of the two names is there."""
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
        """The position of the newest commit that is whole and counts, and its arrays by name; `None` if there is none.

        Nothing is written or removed. Each array is read; without `keep_arrays` it is only compared with its checksum, and `None` here.
        Raises `FleetError` if all are damaged that there are.
        """

        def read(record: CheckpointRecord) -> dict[Key, np.ndarray[Any, Any] | None]:
            arrays = ((key, read_array(self.folder, location)) for key, location in record.locations.items())
            return {key: array if keep_arrays else None for key, array in arrays}

        if (found := self._find_newest(read)) is None:
            return None
        name, self._state, arrays = found
        self._safe, self._previous = (self._read_or_empty(each) for each in (POSITION, PREVIOUS))
        if name == PREVIOUS:
            self._safe = CheckpointRecord()
        self._protected = self._safe.files | self._previous.files
        return dict(self._state.position), arrays

    def peek_position(self) -> dict[str, Any] | None:
        """The position of `resume`, its arrays not read: only whether each is there to its end. Raises what `resume` does."""

        def verify(record: CheckpointRecord) -> None:
            for location in record.locations.values():
                verify_length(self.folder, location)

        found = self._find_newest(verify)
        return None if found is None else dict(found[1].position)

    def _find_newest(self, check: Callable[[CheckpointRecord], Checked]) -> tuple[str, CheckpointRecord, Checked] | None:
        """The newest record in which `check` finds no `Damage`, with the name of its file and what `check` makes of it.

        Where nothing was safe yet a damaged one is as good as none. Raises `FleetError` where all are damaged.
        """
        records, damages = self._read_records()
        self._version = max([*(each.version for each in records.values()), *self._list_versions()], default=0)
        for name, record in sorted(records.items(), key=lambda each: -each[1].version):
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
        """What the files say, and what is wrong with others; the latest counts only while the machine runs on which it was written."""
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
        return [int(each.stem) for each in self.folder.glob("*.arrays") if each.stem.isdecimal()]

    def _notice_text(self, damages: Collection[str], *, anew: bool = False) -> str:
        """In words, if there is anything to say."""
        if not damages:
            return ""
        what = "; ".join(dict.fromkeys(damages))
        then = (
            "It had no earlier checkpoint, and starts from the beginning"
            if anew
            else "It continues from the one before, which is undamaged"
        )
        return f"The newest checkpoint in {self.folder} is damaged: {what}. {then}."

    def tidy(self) -> None:
        """Remove the files that no position names, which a process was writing when it ended."""
        with self._lock:
            self._remove({each.name for each in self.folder.glob("*.arrays")} - self._state.files - self._protected)


def _all_damaged_error(folder: Path, damages: Collection[str]) -> FleetError:
    return FleetError(
        f"The checkpoint in {folder} is damaged, and none before it is whole: {'; '.join(dict.fromkeys(damages))}.",
        ["start from the beginning in another folder", "put a copy of that folder in its place, if there is one"],
    )
