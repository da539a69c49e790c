"""Events of a run, a compilation or a calibration: frozen values that a listener matches by class; and the file of a job's events, JSON
lines that are only added to.

    def listen(event: RunEvent) -> None:
        match event:
            case Progress(stage=stage):
                print(stage)
            case StepDone(step=step, of=of, seconds=seconds):
                print(f"step {step} of {of}: {seconds:.3f} s")
            case Failed():
                print(event.text)

`Waiting`, `Progress` and `StepDone` may come again and again; one of `RUN_ENDINGS` comes last, once.
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
    """So many other jobs come first (`app.runners.queued_runner`)."""

    ahead: int


@dataclass(frozen=True)
class Progress:
    """A stage has begun or goes on; `fraction` of all work is done, from 0 to 1.

    - `elapsed`: seconds of the stage so far, `None` where they are not counted;
    - `model`: the model of a fleet that the stage is about, if it is about one.
    """

    stage: str
    fraction: float = 0.0
    elapsed: float | None = None
    model: str = ""


@dataclass(frozen=True)
class StepDone:
    """A step after warm-up has been run: number `step` of `of`, from 1; `loss` is `None` for a program without one."""

    step: int
    of: int
    seconds: float
    loss: float | None = None


@dataclass(frozen=True)
class RunDone:
    """The run has ended with what it measured."""

    measurement: Measurement


@dataclass(frozen=True)
class CompileDone:
    """The compilation has ended with what the compiler made."""

    compiled: Compiled


@dataclass(frozen=True)
class CalibrationDone:
    """The calibration has ended with what the devices were measured to be."""

    hardware: Hardware


@dataclass(frozen=True)
class Failed:
    """The job has ended without a result: what happened, and what to try."""

    message: str
    ways_out: tuple[str, ...] = ()
    detail: str = ""

    @classmethod
    def of(cls, error: WorkbenchError) -> "Failed":
        """The event for this error."""
        return cls(*error.parts)

    @property
    def text(self) -> str:
        """The message with its ways out, as a page or a terminal shows it."""
        return str(WorkbenchError(self.message, self.ways_out, self.detail))


@dataclass(frozen=True)
class Cancelled:
    """The job was ended on request."""


RunEvent = Waiting | Progress | StepDone | RunDone | CompileDone | CalibrationDone | Failed | Cancelled
RunListener = Callable[[RunEvent], None]

RUN_EVENTS = {
    "waiting": Waiting,
    "progress": Progress,
    "step": StepDone,
    "run done": RunDone,
    "compile done": CompileDone,
    "calibration done": CalibrationDone,
    "failed": Failed,
    "cancelled": Cancelled,
}
"""Each member of `RunEvent`, by its kind on the wire between processes."""

RUN_ENDINGS = (RunDone, CompileDone, CalibrationDone, Failed, Cancelled)
"""One of these ends a job."""


# The file of a job's events: JSON lines, one object each, that are only added to.
#
#     {"seq": 1, "time": 1764250000.1, "kind": "started", "process": 0, ...}
#     {"seq": 2, "time": 1764250003.9, "kind": "progress", "stage": "running", "step": 1, "of": 20, "loss": 2.3, "seconds": 0.01, ...}
#
# A line is written by one call of the system, its newline last: a line without one is not there yet. What was torn by a crash is ended by
# the next writer with a newline, and is no JSON then; a reader leaves it out. It needs no more than Python's own library: whoever follows a
# job need not be able to run one.

ENDING_EVENTS = ("done", "failed", "cancelled")
"""The kinds of which one comes last, once."""

EVENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "started": ("process", "processes", "command", "plan", "version"),
    "progress": ("stage", "fraction", "step", "of", "loss", "seconds"),
    "compiled": ("figures",),
    "measured": ("figures",),
    "found": ("document",),
    "failed": ("message", "ways_out"),
    "cancelled": (),
    "done": ("seconds",),
}
"""The fields of each kind, besides `seq`, `time` and `kind`; all of them are in every event of it, `null` where there is nothing to say."""

_TAIL = 1 << 22  # bytes, more than a line has


class EventFile:
    """Adds events to a file, which may have some. It may be used from any thread; nothing is added after the end. Raises `OSError`."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._last, self.has_ended, torn = _last_event(self._path)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o644)
        if torn:
            os.write(self._file, b"\n")

    def add(self, kind: str, **fields: Any) -> None:
        """Add an event; fields that are left out are `None`."""
        with self._lock:
            if self.has_ended:
                return
            self._last += 1
            event = {"seq": self._last, "time": time.time(), "kind": kind, **{name: fields.get(name) for name in EVENT_FIELDS[kind]}}
            _write_whole(self._file, (json.dumps(finite(event), allow_nan=False) + "\n").encode())
            self.has_ended = kind in ENDING_EVENTS

    def close(self) -> None:
        """Nothing more is added. The events are on the disk then."""
        with self._lock:
            if self._file >= 0:
                os.fsync(self._file)
                os.close(self._file)
                self._file = -1
                self.has_ended = True


def finite(value: Any) -> Any:
    """The value with `None` for numbers that JSON does not have: a loss that is no number any more, say.

    >>> finite({"losses": (1.0, float("nan"))})
    {'losses': [1.0, None]}
    """
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def _write_whole(file: int, line: bytes) -> None:
    """A disk that is nearly full takes a part: the rest is tried again, which raises `OSError`."""
    while line:
        line = line[os.write(file, line) :]


def _last_event(path: Path) -> tuple[int, bool, bool]:
    """Of a file that exists: the number of its last event, whether that is an ending, and whether its last line is torn."""
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
        except (ValueError, TypeError, KeyError):  # torn, or not ours
            continue
    return 0, False, not content.endswith(b"\n") and bool(content)
