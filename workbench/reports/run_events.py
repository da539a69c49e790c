"""Events of runs, compilations and calibrations, which a listener matches by class, and the append-only JSON lines file of a job's
events.

    def listen(event: RunEvent) -> None:
        match event:
            case Progress(stage=stage):
                print(stage)
            case StepDone(step=step, of=of, seconds=seconds):
                print(f"step {step} of {of}: {seconds:.3f} s")
            case Failed():
                print(event.text)

`Waiting`, `Progress` and `StepDone` may repeat; exactly one of `RUN_ENDINGS` comes last.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement


@dataclass(frozen=True)
class Waiting:
    """The number of jobs ahead in the queue (`app.runners.queued_runner`)."""

    ahead: int


@dataclass(frozen=True)
class Progress:
    """Progress of a stage; `fraction` of all work is done, from 0 to 1.

    - `elapsed`: seconds of the stage so far, `None` if not measured;
    - `model`: the model of a fleet, if the stage is about one.
    """

    stage: str
    fraction: float = 0.0
    elapsed: float | None = None
    model: str = ""


@dataclass(frozen=True)
class StepDone:
    """Step `step` of `of` (from 1, after warm-up) is done; `loss` is `None` for a program without one."""

    step: int
    of: int
    seconds: float
    loss: float | None = None


@dataclass(frozen=True)
class RunDone:
    """The run has finished."""

    measurement: Measurement


@dataclass(frozen=True)
class CompileDone:
    """The compilation has finished."""

    compiled: Compiled


@dataclass(frozen=True)
class CalibrationDone:
    """The calibration has finished with the measured hardware."""

    hardware: Hardware


@dataclass(frozen=True)
class Failed:
    """The job failed: what happened, and what to try."""

    message: str
    ways_out: tuple[str, ...] = ()
    detail: str = ""

    @classmethod
    def of(cls, error: WorkbenchError) -> "Failed":
        return cls(*error.parts)

    @property
    def text(self) -> str:
        return str(WorkbenchError(self.message, self.ways_out, self.detail))


@dataclass(frozen=True)
class Cancelled:
    """The job was cancelled."""


RunEvent = Waiting | Progress | StepDone | RunDone | CompileDone | CalibrationDone | Failed | Cancelled
RunListener = Callable[[RunEvent], None]

RUN_ENDINGS = (RunDone, CompileDone, CalibrationDone, Failed, Cancelled)
"""Events that end a job."""


# The append-only file of a job's events: JSON lines, one object each.
#
#     {"seq": 1, "time": 1764250000.1, "kind": "started", "process": 0, ...}
#     {"seq": 2, "time": 1764250003.9, "kind": "progress", "stage": "running", "step": 1, "of": 20, "loss": 2.3, "seconds": 0.01, ...}
#
# A line is written by one system call, newline last: a line without newline is not yet complete. The next writer ends a line torn by
# a crash with a newline; readers skip it as invalid JSON. This needs only the standard library, because a process that follows a job
# need not be able to run one.

ENDING_EVENTS = ("done", "failed", "cancelled")
"""Kinds of events that end a job; exactly one comes last."""

_COUNT, _NUMBER = int | None, float | None
EVENT_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "started": {"process": int, "processes": int, "command": str, "plan": str, "version": str},
    "progress": {"stage": str | None, "fraction": _NUMBER, "step": _COUNT, "of": _COUNT, "loss": _NUMBER, "seconds": _NUMBER},
    "compiled": {"figures": dict[str, Any]},
    "measured": {"figures": dict[str, Any]},
    "found": {"document": str},
    "failed": {"message": str, "ways_out": list[str]},
    "cancelled": {},
    "done": {"seconds": _NUMBER},
}
"""Fields of each kind, with their types, besides `seq`, `time` and `kind`; every event has all of them, `null` if unset."""

_TAIL = 1 << 22  # bytes; longer than any line


class EventFile:
    """Appends events to a new or existing file. Thread-safe; nothing is added after an ending. Raises `OSError`."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._last, self.has_ended, torn = _last_event(self._path)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o644)
        if torn:
            os.write(self._file, b"\n")

    def add(self, kind: str, **fields: Any) -> None:
        """Append an event; omitted fields are `None`."""
        with self._lock:
            if self.has_ended:
                return
            self._last += 1
            event = {"seq": self._last, "time": time.time(), "kind": kind, **{name: fields.get(name) for name in EVENT_FIELDS[kind]}}
            _write_whole(self._file, (json.dumps(finite(event), allow_nan=False) + "\n").encode())
            self.has_ended = kind in ENDING_EVENTS

    def close(self) -> None:
        """Flush to disk and close; later events are ignored."""
        with self._lock:
            if self._file >= 0:
                os.fsync(self._file)
                os.close(self._file)
                self._file = -1
                self.has_ended = True


def finite(value: Any) -> Any:
    """Replace numbers that JSON does not have (NaN, infinity) by `None`.

    >>> finite({"losses": (1.0, float("nan"))})
    {'losses': [1.0, None]}
    """
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def _write_whole(file: int, line: bytes) -> None:
    """Write all bytes, retrying partial writes; a full disk raises `OSError`."""
    while line:
        line = line[os.write(file, line) :]


def _last_event(path: Path) -> tuple[int, bool, bool]:
    """Return the last event's number, whether it is an ending, and whether the last line is torn."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            content = file.read()
    except FileNotFoundError:
        return 0, False, False
    for line in reversed(content.split(b"\n")[:-1]):
        try:
            event = json.loads(line)
            return int(event["seq"]), event["kind"] in ENDING_EVENTS, not content.endswith(b"\n")
        except (ValueError, TypeError, KeyError):  # torn or invalid
            continue
    return 0, False, not content.endswith(b"\n") and bool(content)
