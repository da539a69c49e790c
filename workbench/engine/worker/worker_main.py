"""The worker process: `python -m workbench.engine.worker.worker_main FD [KIND]` does the one job it is sent and reports
events on pipe FD.

A job arrives on standard input as an eight-byte length and that many bytes of pickle; standard input then stays open
for commands, one per line (`core.child_process`). The worker ends when it closes, so that neither the worker nor its child
processes outlive the parent. Events are lines as well. Standard output is left to the user; standard error is read for
a crash message if the process dies.
"""

import contextlib
import functools
import importlib
import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO

from workbench.core.child_process import decode_message, encode_message, end_by_connection, end_with_parent, raise_niceness
from workbench.engine.worker.pickling import use_jax_settings
from workbench.errors import WorkbenchError

WORK = {
    "run": "workbench.engine.spmd.execute_plan:execute",
    "compile": "workbench.engine.compile.compile_in_process:compile_here",
    "calibrate": "workbench.engine.spmd.calibrate:calibrate_for",
    "fleet": "workbench.engine.fleet.train_fleet:train_fleet",
    "timing": "workbench.engine.fleet.train_fleet:time_fleet",
    "search": "workbench.engine.search.serve_searches:serve_searches",
}
"""Kind of job -> function `(plan or fleet, on_event=, **options) -> result`."""

DONE = {
    "run": "workbench.reports.run_events:RunDone",
    "compile": "workbench.reports.run_events:CompileDone",
    "calibrate": "workbench.reports.run_events:CalibrationDone",
    "fleet": "workbench.multimodel.training_events:TrainingDone",
    "timing": "workbench.multimodel.training_events:TimingDone",
    "search": "workbench.search.search_messages:SearchClosed",
}
"""Kind of job -> event with its result. A name, because the module of some imports JAX, before the priority is set."""

TAKES_COMMANDS = ("fleet", "search")
"""Kinds whose function has an additional argument `commands`, a queue of the parent's messages."""

ALWAYS_BEHIND = ("search",)
"""Kinds that are only background jobs: a standby process for one has low priority from its start."""

_BEHIND = 15
"""Niceness of background jobs."""

_SPEAKING = threading.Lock()


def main(descriptor: int, waits_for: str = "") -> None:
    """Do the job on standard input, if one comes; every end except a crash is an event.

    With a kind in `waits_for` the job comes later, and the modules for such a job are imported meanwhile.
    """
    end_with_parent(sys.stdin.fileno())
    if waits_for in ALWAYS_BEHIND:
        _run_behind()
    if waits_for:
        _function(WORK[waits_for])
    with os.fdopen(descriptor, "wb") as pipe:
        try:
            if (size := sys.stdin.buffer.read(8)) == b"":
                return  # the parent has ended, or does not need this process
            kind, subject, options = _receive(sys.stdin.buffer, int.from_bytes(size, "big"))
            commands: queue.SimpleQueue[Any] = queue.SimpleQueue()
            threading.Thread(target=_listen, args=(sys.stdin.buffer, commands), daemon=True).start()
            end_by_connection()  # the listening thread also ends processes forked by the job
            listening = {"commands": commands} if kind in TAKES_COMMANDS else {}
            result = _function(WORK[kind])(subject, on_event=lambda event: _tell(pipe, event), **options, **listening)
            _tell(pipe, _function(DONE[kind])(result))
        except WorkbenchError as error:
            from workbench.reports.run_events import Failed

            _tell(pipe, Failed.of(error))


@functools.cache
def _run_behind() -> None:
    """Lower the priority of this process, once. Called before JAX is imported, which takes seconds of processor time."""
    raise_niceness(_BEHIND)


def _receive(stream: BinaryIO, size: int) -> tuple[str, Any, dict[str, Any]]:
    """Return kind, subject and options; JAX's settings are set before the inner pickle creates arrays."""
    job_payload: dict[str, Any] = pickle.loads(stream.read(size))  # noqa: S301 - our own parent wrote it
    if job_payload["behind"]:
        _run_behind()
    use_jax_settings(job_payload["jax_config"])
    subject, options = _load_functions(job_payload["body"], job_payload["modules"])
    return job_payload["kind"], subject, options


def _load_functions(body: bytes, modules: Sequence[str]) -> Any:
    """Unpickle subject and options; raises `WorkbenchError` if that fails.

    Some packages can only be imported after others: on failure, `modules` are imported in the parent's order before a
    second try.
    """
    try:
        return pickle.loads(body)  # noqa: S301
    except Exception:  # noqa: BLE001 - importing a user's module may raise anything
        for name in modules:
            with contextlib.suppress(Exception, SystemExit):  # a failing module may not be needed
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


def _tell(pipe: BinaryIO, event: object) -> None:
    line = encode_message(event)
    with _SPEAKING:  # the heartbeat runs in a separate thread
        pipe.write(line)
        pipe.flush()


def _listen(stream: BinaryIO, commands: "queue.SimpleQueue[Any]") -> None:
    """Forward the parent's commands, and end with the parent."""
    for line in stream:
        commands.put(decode_message(line))
    if os.getpgrp() == os.getpid():  # the process leads its own group (`worker_process`)
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
