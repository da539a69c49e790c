"""The worker process: `python -m workbench.engine.worker.worker_main FD [KIND]` does the one job it is sent and reports events on pipe FD.

A job arrives on standard input as an eight-byte length and that many bytes of pickle; standard input then stays open for commands, a line
each (`line_codec`), and the worker ends when it closes, so that neither it nor what it has started outlives its parent. Events are lines as
well. Standard output stays the user's own; standard error is read for a crash message if the process dies.
"""

import contextlib
import importlib
import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, TextIO

from workbench.core.child_process import end_by_connection, end_with_parent, raise_niceness
from workbench.engine.worker.line_codec import COMMANDS, EVENTS, WorkerCommand, WorkerEvent
from workbench.errors import WorkbenchError
from workbench.multimodel.training_events import CommandRefused, TimingDone, TrainingDone
from workbench.reports.run_events import CalibrationDone, CompileDone, Failed, RunDone
from workbench.search.search_messages import SearchClosed

WORK = {
    "run": "workbench.engine.spmd.execute_plan:execute",
    "compile": "workbench.engine.compile.compile_in_process:compile_here",
    "calibrate": "workbench.engine.spmd.calibrate:calibrate_for",
    "fleet": "workbench.engine.fleet.train_fleet:train_fleet",
    "timing": "workbench.engine.fleet.train_fleet:time_fleet",
    "search": "workbench.engine.search.serve_searches:serve_searches",
}
"""Each kind of job, and the function `(plan or fleet, on_event=, **options) -> result` that does it."""

DONE: Mapping[str, Callable[[Any], WorkerEvent]] = {
    "run": RunDone,
    "compile": CompileDone,
    "calibrate": CalibrationDone,
    "fleet": TrainingDone,
    "timing": TimingDone,
    "search": SearchClosed,
}
"""Each kind of job, and the event that holds its result."""

TAKES_COMMANDS = ("fleet", "search")
"""Kinds whose function has an additional argument `commands`, a queue of the parent's messages."""

CommandQueue = queue.SimpleQueue[WorkerCommand]

_BEHIND = 15
"""The niceness of a job that nobody waits for."""

_SPEAKING = threading.Lock()


def main(descriptor: int, waits_for: str = "") -> None:
    """Do the job on standard input, if one comes; every ending but a crash is an event.

    With a kind in `waits_for` the job comes later: what such a job needs is imported meanwhile.
    """
    end_with_parent(sys.stdin.fileno())
    if waits_for:
        _function(WORK[waits_for])
    with os.fdopen(descriptor, "w", buffering=1) as pipe:
        try:
            if (size := sys.stdin.buffer.read(8)) == b"":
                return  # our parent is gone, or does not need us
            kind, subject, options = _receive(sys.stdin.buffer, int.from_bytes(size, "big"))
            commands: CommandQueue = queue.SimpleQueue()
            threading.Thread(target=_listen, args=(sys.stdin.buffer, commands, pipe), daemon=True).start()
            end_by_connection()  # that thread ends what the job forks, too
            listening = {"commands": commands} if kind in TAKES_COMMANDS else {}
            result = _function(WORK[kind])(subject, on_event=lambda event: _tell(pipe, event), **options, **listening)
            _tell(pipe, DONE[kind](result))
        except WorkbenchError as error:
            _tell(pipe, Failed.of(error))


def _receive(stream: BinaryIO, size: int) -> tuple[str, Any, dict[str, Any]]:
    """Kind, plan or fleet, options. The outer pickle holds plain values, and JAX's settings are set before what is inside makes arrays."""
    job_payload: dict[str, Any] = pickle.loads(stream.read(size))  # noqa: S301 - our own parent wrote it
    if job_payload["behind"]:
        raise_niceness(_BEHIND)
    import jax

    for name, value in job_payload["jax_config"].items():
        jax.config.update(name, value)
    subject, options = _load_functions(job_payload["body"], job_payload["modules"])
    return job_payload["kind"], subject, options


def _load_functions(body: bytes, modules: Sequence[str]) -> Any:
    """What was pickled. Some packages can only be imported after others, which change something for them: where one fails, `modules`, what
    the parent has imported, are imported in its order before another try. Raises `WorkbenchError` if that fails, too."""
    try:
        return pickle.loads(body)  # noqa: S301
    except Exception:  # noqa: BLE001 - a user's module runs when it is imported here
        for name in modules:
            with contextlib.suppress(Exception, SystemExit):  # what fails here may not be needed
                importlib.import_module(name)
    try:
        return pickle.loads(body)  # noqa: S301
    except Exception as error:
        raise WorkbenchError(
            f"The worker process could not load its functions: {type(error).__name__}: {error}",
            [
                "move the functions to a module that imports the required packages",
                "move them to an importable module",
                "define them in the notebook or script itself",
            ],
        ) from error


def _function(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _tell(pipe: TextIO, event: WorkerEvent) -> None:
    line = EVENTS.encode(event)
    with _SPEAKING:  # the heartbeat has a thread of its own
        pipe.write(line)


def _listen(stream: BinaryIO, commands: CommandQueue, pipe: TextIO) -> None:
    """Pass our parent's commands on, refuse what cannot be read, and end with our parent."""
    for line in stream:
        try:
            commands.put(COMMANDS.decode(line))
        except WorkbenchError as error:
            _tell(pipe, CommandRefused(None, str(error)))
    if os.getpgrp() == os.getpid():  # the group is its own (`worker_process`)
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
