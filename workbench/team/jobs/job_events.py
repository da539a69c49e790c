"""The events of a job, as whoever follows it reads them: `read_events(path, after)`, and `EventReader` for a file that grows.

**Invariants**

- What is read is an event of `reports.run_events`, whole and of its kind's fields: a torn line, or anything else that a program wrote into
  its own file, is left out.
- Only a plain file is read, no link and no pipe, and of it at most `MOST_BYTES`: the folder of a job is written by code of users.

The schema of an event is `events.schema.json` beside this file.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import open_plain
from workbench.reports.run_events import EVENT_FIELDS

MOST_BYTES = 1 << 27  # of a file of events
_LONGEST = 1 << 22  # bytes of a line
_CHUNK = 1 << 20  # bytes
_NUMBERS = ("fraction", "loss", "seconds")
_COUNTS = ("process", "processes", "step", "of")
_TEXTS = ("command", "plan", "version", "stage", "message", "document")
_NEEDED = ("process", "processes", "command", "plan", "version", "message", "figures", "ways_out", "document")


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event: number `seq` of its file, at `time` (seconds since 1970), and the fields of its `kind`."""

    seq: int
    time: float
    kind: str
    fields: Mapping[str, Any]

    def record(self) -> dict[str, Any]:
        """As it stands in the file."""
        return {"seq": self.seq, "time": self.time, "kind": self.kind, **self.fields}


class EventReader:
    """Reads a file that grows from where it was read last; one that is not there yet has no events."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> tuple[JobEvent, ...]:
        """The events since the last call."""
        found: list[JobEvent] = []
        with suppress(OSError), open_plain(self._path, follow_links=False) as file:
            file.seek(self._offset)
            while self._offset < MOST_BYTES and (chunk := file.read(_CHUNK)):
                self._offset += len(chunk)
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                found += [event for line in lines if (event := parse_event(line)) is not None]
                self._rest = self._rest[: _LONGEST + 1]  # longer than a line may be: cut, it is no event
        return tuple(found)


def read_events(path: Path, after: int = 0) -> tuple[JobEvent, ...]:
    """The events of a file whose number is above `after`."""
    return tuple(event for event in EventReader(path).read() if event.seq > after)


def parse_event(line: bytes) -> JobEvent | None:
    """The event of a line; `None` for one that is none."""
    if len(line) > _LONGEST:
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(kind := record.get("kind"), str) or kind not in EVENT_FIELDS:
        return None
    fields = {name: record.get(name) for name in EVENT_FIELDS[kind]}
    if set(record) != {"seq", "time", "kind", *fields} or not _is_count(record["seq"]) or not _is_number(record["time"]):
        return None
    if not all(_is_valid(name, value) for name, value in fields.items()):
        return None
    return JobEvent(record["seq"], float(record["time"]), kind, fields)


def _is_valid(name: str, value: Any) -> bool:
    if value is None:
        return name not in _NEEDED
    if name in _NUMBERS:
        return _is_number(value)
    if name in _COUNTS:
        return _is_count(value)
    if name == "figures":
        return isinstance(value, dict) and _is_shallow(value)
    if name == "ways_out":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return name in _TEXTS and isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300 and isfinite(value)


def _is_shallow(value: Any, depth: int = 8) -> bool:
    """Whether figures can go into the store and onto a page: nested a little, of finite numbers."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(_is_shallow(each, depth - 1) for each in inner)
    return not isinstance(value, int | float) or isinstance(value, bool) or _is_number(value)
