"""Runs a plan in a process of its own, so that a crash, a runaway compile or a lack of memory there is a message here."""

import base64
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TextIO

from workbench.engine.failures import CancelledError, death, too_slow
from workbench.engine.parcel import environment, pack
from workbench.errors import EngineError, WorkbenchError
from workbench.measurement import Measurement
from workbench.plan import Plan

Listener = Callable[[Mapping[str, Any]], None]


def run_plan(
    plan: Plan, steps: int = 20, on_progress: Listener | None = None, check: bool = False, time_limit: float | None = None
) -> Measurement:
    """Run a plan in a worker process and wait for it; an interrupt cancels it. Raises `EngineError`."""
    handle = start_run(plan, steps, on_progress, check=check, time_limit=time_limit)
    try:
        return handle.wait()
    except KeyboardInterrupt:
        handle.cancel()
        raise


def start_run(
    plan: Plan, steps: int = 20, on_event: Listener | None = None, check: bool = False, time_limit: float | None = None
) -> "Handle":
    """Start a plan in a worker process, on the accelerators if there are any, else on as many virtual CPU devices as the mesh needs.

    `on_event` is called from a thread, with

    - `{"event": "progress", "stage": str, "fraction": float}`,
    - `{"event": "step", "step": int, "of": int, "seconds": float, "loss": float | None}`,

    and at last, once, with `{"event": "done", "measurement": Measurement}`, `{"event": "error", "message": str}` or
    `{"event": "cancelled"}`. `time_limit` is in seconds, compilation included. Raises `EngineError` if the plan's functions cannot be sent.
    """
    return Handle(plan, pack(plan, steps, check=check), on_event or (lambda _: None), time_limit)


class Handle:
    """A run under way in a worker process. A thread of its own listens to it."""

    def __init__(self, plan: Plan, parcel: bytes, tell: Listener, time_limit: float | None) -> None:
        self._plan = plan
        self._tell = tell
        self._stage = "starting"
        self._reason: WorkbenchError | None = None  # why we killed it, if we did
        self._outcome: Measurement | WorkbenchError | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - the listening thread closes it
        read_end, write_end = os.pipe()
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-m", "workbench.engine.worker", str(write_end)],
            stdin=subprocess.PIPE,
            stderr=self._stderr,
            pass_fds=(write_end,),
            env=environment(plan.mesh.size),
        )
        os.close(write_end)
        self._thread = threading.Thread(target=self._follow, args=(parcel, os.fdopen(read_end), time_limit), daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """End the run now, in whatever stage it is. Nothing happens if it has ended."""
        self._stop(CancelledError(f"The run of {self._plan.name} was cancelled."))

    def wait(self) -> Measurement:
        """The measurement, once the run has ended; raises its `EngineError`, also when it was cancelled."""
        self._thread.join()
        if isinstance(self._outcome, Measurement):
            return self._outcome
        raise self._outcome or EngineError("The run was abandoned: the function that listens to its events raised an exception.")

    def _stop(self, reason: WorkbenchError) -> None:
        if self._reason is None:
            self._reason = reason
        self._process.kill()

    def _follow(self, parcel: bytes, pipe: TextIO, time_limit: float | None) -> None:
        """The listening thread: send the plan, pass events on, tell the ending once."""
        timer = threading.Timer(time_limit or 0, lambda: self._stop(too_slow(self._plan, self._stage, time_limit or 0)))
        timer.daemon = True
        if time_limit:
            timer.start()
        try:
            with pipe, self._stderr:
                self._send(parcel)
                outcome = self._listen(pipe)
                self._outcome = outcome or self._reason or self._death()
        finally:  # also when the listener to our events raises: nobody would read the pipe then
            timer.cancel()
            self._process.kill()
            self._process.wait()
            with suppress(BrokenPipeError):
                self._process.stdin.close() if self._process.stdin else None
        self._tell(self._ending())

    def _send(self, parcel: bytes) -> None:
        """The pipe stays open: the worker takes its closing for our death, and ends."""
        with suppress(BrokenPipeError):  # it died early; how, `_death` will tell
            if self._process.stdin:
                self._process.stdin.write(len(parcel).to_bytes(8, "big") + parcel)
                self._process.stdin.flush()

    def _listen(self, pipe: TextIO) -> Measurement | WorkbenchError | None:
        """Pass events on until the worker closes its pipe; how it ended, if it told."""
        for line in pipe:
            if not line.endswith("\n"):  # cut off in mid-sentence
                break
            event = json.loads(line)
            if event["event"] == "done":
                measurement: Measurement = pickle.loads(base64.b64decode(event["measurement"]))  # noqa: S301 - our own worker wrote it
                return measurement
            if event["event"] == "error":
                return EngineError(event["message"], event["ways_out"])
            self._stage = event.get("stage", self._stage)
            self._tell(event)
        return None

    def _death(self) -> WorkbenchError:
        return_code = self._process.wait()
        self._stderr.seek(0)
        return death(self._plan, self._stage, return_code, self._stderr.read().decode(errors="replace"))

    def _ending(self) -> Mapping[str, Any]:
        if isinstance(self._outcome, Measurement):
            return {"event": "done", "measurement": self._outcome}
        if isinstance(self._outcome, CancelledError):
            return {"event": "cancelled"}
        return {"event": "error", "message": str(self._outcome)}
