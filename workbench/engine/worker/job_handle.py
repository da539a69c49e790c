"""Run a job in a separate process, so that a crash, a runaway compilation or a lack of memory becomes an error message
here.

Processes started there by the plan's functions end with it (`worker_process`).
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from workbench.core.child_process import decode_message, encode_message
from workbench.engine.worker.failure_messages import CancelledError, death, too_slow
from workbench.engine.worker.job_payload import WorkerJob, pack
from workbench.engine.worker.worker_process import WorkerProcess, environment, standby_for
from workbench.errors import EngineError, WorkbenchError
from workbench.multimodel.training_events import FleetCommand, TimingDone, TrainingDone, TrainingEvent
from workbench.reports.run_events import CalibrationDone, Cancelled, CompileDone, Failed, Progress, RunDone, RunEvent
from workbench.search.search_messages import SearchClosed, SearchCommand, SearchEvent
from workbench.units import read_positive_seconds

Listener = Callable[[Any], None]  # receives the events of one kind of job
Result = TypeVar("Result")
WorkerEvent = RunEvent | TrainingEvent | SearchEvent


class Handle(Generic[Result]):
    """A running job in a worker process, followed by a separate thread.

    `tell` is called from that thread with every event of the worker, and finally, once, with the event with the result,
    `Failed` or `Cancelled`. `time_limit` is in seconds. Raises `EngineError` for an invalid time limit, or if the
    plan's functions cannot be sent.
    """

    def __init__(self, job: WorkerJob, tell: Listener | None = None, time_limit: float | None = None) -> None:
        time_limit = None if time_limit is None else read_positive_seconds("time_limit", time_limit, EngineError)
        self._job = job
        self._tell = tell or (lambda _: None)
        self._stage = "starting"
        self._reason: WorkbenchError | None = None  # the reason if this handle killed the process
        self._done: WorkerEvent | None = None
        self._result: Result | None = None
        self._error: WorkbenchError | None = None
        self._unsent: list[bytes] | None = []  # commands sent before the job; `None` once the job is sent
        self._writing = threading.Lock()
        job_payload = pack(job)
        self._environment = environment(job)
        standby = standby_for(job.kind).take(self._environment, job.kind)
        self._was_waiting = standby is not None
        worker = standby or WorkerProcess(self._environment)
        self._stderr, self._process = worker.stderr, worker.group  # closed by the listening thread
        self._thread = threading.Thread(target=self._follow, args=(job_payload, worker.pipe, time_limit), daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the job now, at any stage. Does nothing if it has ended."""
        self._stop(CancelledError(f"The {self._job.noun} of {self._job.subject.name} was cancelled."))

    def send(self, command: FleetCommand | SearchCommand) -> None:
        """Send a command to the worker, for fleet trainings and searches. Does nothing if the job has ended."""
        line = encode_message(command)
        with self._writing:
            if self._unsent is None:
                self._write(line)
            else:
                self._unsent.append(line)

    def wait(self) -> Result:
        """Wait for the job and return its result; raises its `EngineError`. An interrupt cancels it."""
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self.cancel()
            raise
        if self._result is not None:
            return self._result
        raise self._error or EngineError(f"The {self._job.noun} was abandoned: its event listener raised an exception.")

    def _stop(self, reason: WorkbenchError) -> None:
        if self._reason is None:
            self._reason = reason
        self._process.kill()

    def _follow(self, job_payload: bytes, pipe: int, time_limit: float | None) -> None:
        limit = time_limit or 0.0
        timer = threading.Timer(min(limit, threading.TIMEOUT_MAX), lambda: self._stop(too_slow(self._job, self._stage, limit)))
        timer.daemon = True
        if time_limit:
            timer.start()
        try:
            with self._stderr:
                self._send(job_payload)
                self._listen(pipe)
                if self._result is None and self._error is None:
                    self._error = self._reason or self._death()
        finally:  # also if the event callback raises, since nobody would read the pipe then
            timer.cancel()
            self._process.close()
            os.close(pipe)
        if self._was_waiting:  # a job that used a standby process prepares the next one
            with suppress(EngineError):
                standby_for(self._job.kind).prepare(self._environment, self._job.kind)
        self._tell(self._ending_event())

    def _send(self, job_payload: bytes) -> None:
        """Send the job. The pipe stays open, because the worker ends when it closes."""
        self._write(len(job_payload).to_bytes(8, "big") + job_payload)
        with self._writing:
            self._write(b"".join(self._unsent or []))
            self._unsent = None

    def _write(self, words: bytes) -> None:
        with suppress(BrokenPipeError, ValueError):  # the process died early, which `_death` reports
            if self._process.stdin:
                self._process.stdin.write(words)
                self._process.stdin.flush()

    def _listen(self, pipe: int) -> None:
        for line in self._process.lines(pipe):
            if not line.endswith(b"\n"):  # an incomplete line
                return
            event: WorkerEvent = decode_message(line)
            if self._store_last_event(event):
                return
            if isinstance(event, Progress):
                self._stage = event.stage
            self._tell(event)

    def _store_last_event(self, event: WorkerEvent) -> bool:
        if isinstance(event, Failed):
            self._error = EngineError(event.message, event.ways_out, event.detail)
        elif (result := _result_of(event)) is not None:
            self._done, self._result = event, result
        return self._error is not None or self._done is not None

    def _death(self) -> WorkbenchError:
        return_code = self._process.wait()
        self._stderr.seek(0)
        return death(self._job, self._stage, return_code, self._stderr.read().decode(errors="replace"))

    def _ending_event(self) -> WorkerEvent:
        if self._done is not None:
            return self._done
        assert self._error is not None
        return Cancelled() if isinstance(self._error, CancelledError) else Failed.of(self._error)


def _result_of(event: WorkerEvent) -> Any:
    match event:
        case RunDone(measurement=result) | TrainingDone(measurement=result):
            return result
        case CalibrationDone(hardware=result):
            return result
        case CompileDone(compiled=result) | TimingDone(times=result) | SearchClosed(requests=result):
            return result
    return None
