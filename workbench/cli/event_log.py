"""`--events FILE`: write the events of a run, compilation or search to a file for others to follow
(`reports.run_events`).

with event_log(options) as log:
    measurement = run_plan(plan, on_progress=log.hear)
    log.measured(measurement)

The last event is always written: `done`, `failed` with the error message, or `cancelled` on SIGTERM and Ctrl-C. Python
does not see signals while it waits in a compiler or for another process; then a thread writes the last event and ends
the process.
"""

import argparse
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from workbench.core.public_error_text import describe_error
from workbench.documents import compiled_record, dump_plan, measurement_record
from workbench.errors import WorkbenchError, explain_os_errors
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.run_events import EventFile, Progress, RunEvent, StepDone

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a process ended by SIGTERM."""

_LEFT_OUT = {
    "measured": ("trace", "tasks", "why_untraced"),
    "compiled": ("kernels", "collectives", "alive_at_peak", "rematerialised", "stages"),
}
"""Long fields that only the measuring process needs."""


class EventLog:
    """Writes the events of one process of a job; writes nothing without a file."""

    def __init__(self, file: EventFile | None) -> None:
        self._file = file
        self._start = time.monotonic()

    def started(self, command: str, plan: str, process: int = 0, processes: int = 1) -> None:
        from workbench import __version__

        self._add("started", process=process, processes=processes, command=command, plan=plan, version=__version__)

    def hear(self, event: RunEvent) -> None:
        """Listener for `run_plan`, `execute` and `compile_plan`."""
        match event:
            case Progress(stage=stage, fraction=fraction, elapsed=elapsed):
                self._add("progress", stage=stage, fraction=fraction, seconds=elapsed)
            case StepDone(step=step, of=of, seconds=seconds, loss=loss):
                self._add("progress", stage="running", step=step, of=of, seconds=seconds, loss=loss)

    def measured(self, measurement: Measurement) -> None:
        self._add("measured", figures=_short("measured", measurement_record(measurement)))

    def compiled(self, compiled: Compiled, step_seconds: float | None = None) -> None:
        """Add compiled figures; `step_seconds` uses the compiler's kernel times, if it has any."""
        self._add("compiled", figures={**_short("compiled", dict(compiled_record(compiled))), "step_seconds": step_seconds})

    def found(self, plan: Plan) -> None:
        """Add the best plan of a search."""
        self._add("found", document=dump_plan(plan))

    def failed(self, error: BaseException) -> None:
        message = error.message if isinstance(error, WorkbenchError) else f"The command failed: {describe_error(error)}"
        self._add("failed", message=message, ways_out=list(getattr(error, "ways_out", ())))

    def cancelled(self) -> None:
        self._add("cancelled")

    def done(self) -> None:
        self._add("done", seconds=time.monotonic() - self._start)

    def _add(self, kind: str, **fields: Any) -> None:
        if self._file is not None:
            self._file.add(kind, **fields)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@contextmanager
def event_log(options: argparse.Namespace, process: int = 0) -> Iterator[EventLog]:
    """Open the log of `--events FILE`; later processes write `FILE.N.jsonl` next to it. Raises `WorkbenchError` if it
    cannot be written.
    """
    if options.events is None:
        yield EventLog(None)
        return
    log = EventLog(_open(events_path(options.events, process)))
    try:
        with _ending_on_signals(log):
            yield log
        log.done()
    except KeyboardInterrupt:
        log.cancelled()
        raise
    except BaseException as error:
        log.failed(error)
        raise
    finally:
        log.close()


def events_path(path: str, process: int) -> Path:
    """The file of one process of a job.

    >>> events_path("job/events.jsonl", 0).name, events_path("job/events.jsonl", 3).name
    ('events.jsonl', 'events.3.jsonl')
    """
    first = Path(path)
    return first if process == 0 else first.with_name(f"{first.stem}.{process}{first.suffix}")


def _open(path: Path) -> EventFile:
    with explain_os_errors(f"The events cannot be written to `{path}`", WorkbenchError, "name a file in a folder that exists"):
        return EventFile(path)


def _short(kind: str, figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name not in _LEFT_OUT[kind]}


@contextmanager
def _ending_on_signals(log: EventLog) -> Iterator[None]:
    """On SIGTERM, write the last event and exit, even while the main thread waits outside Python."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    before_fd = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_end_when_asked, args=(ours, log), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before_fd)
        signal.signal(signal.SIGTERM, before)
        theirs.close()  # ends the thread


def _end_when_asked(numbers: socket.socket, log: EventLog) -> None:
    with numbers, suppress(OSError):
        while number := numbers.recv(1):
            if number[0] == signal.SIGTERM:
                log.cancelled()
                log.close()
                os._exit(TERMINATED)  # workers that it started end with their pipes
