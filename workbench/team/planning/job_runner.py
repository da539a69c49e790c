"""Run a room's plans as team jobs through the server.

Sends `{"run": {...}, "name", "steps", "job": n, "visitor": v}` with the plan's description, and `{"cancel": n}`.
Receives `{"job": n, "state", "ahead", "events": [...]}` with events of `reports.run_events`; `problem` says why a job
was not submitted.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.core.public_error_text import describe_error
from workbench.plan.plan import Plan
from workbench.reports.measurement import Measurement, ShardCheck
from workbench.reports.run_events import Cancelled, Failed, Progress, RunDone, RunEvent, RunListener, StepDone, Waiting
from workbench.team.planning.grade_answers import describe_plan, description_record
from workbench.widgets.run.runner_protocol import RunHandle

Send = Callable[[Mapping[str, Any]], None]


@dataclass(slots=True)
class _RunningJob:
    on_event: RunListener
    measurement: Measurement | None = None
    is_over: bool = False


class TeamJobs:
    """The jobs of one room. `tell` is called on the thread that reads the server's messages."""

    def __init__(self, send: Send) -> None:
        self._send, self._lock = send, threading.Lock()
        self._jobs: dict[int, _RunningJob] = {}
        self._number = 0

    def start(self, plan: Plan, steps: int, on_event: RunListener, visitor: int) -> RunHandle:
        """Submit a run for a visitor. Raises `DocumentError` for a plan that has no document."""
        described = description_record(describe_plan(plan, analyze(plan)))
        with self._lock:
            self._number += 1
            number = self._number
            self._jobs[number] = _RunningJob(on_event)
        self._send({"run": described, "name": plan.name, "steps": steps, "job": number, "visitor": visitor})
        return _JobHandle(lambda: self._send({"cancel": number}))

    def tell(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            job = self._jobs.get(message["job"])
        if job is None or job.is_over:
            return
        if problem := message.get("problem"):
            self._end(message["job"], job, Failed(problem["message"], tuple(problem["ways_out"])))
            return
        try:
            self._follow(message["job"], job, message["state"], message)
        except (LookupError, TypeError, ValueError) as error:  # a job runs user code, which may write anything
            text = f"The result of the job cannot be read: {describe_error(error)}"
            self._end(message["job"], job, Failed(text, ("see its output on the page of the job",)))

    def _follow(self, number: int, job: _RunningJob, state: str, message: Mapping[str, Any]) -> None:
        if state == "queued":
            job.on_event(Waiting(message.get("ahead", 0)))
        elif state == "running" and not message["events"]:
            job.on_event(Progress("starting"))
        for event in message["events"]:
            self._handle_event(number, job, event)
        if state in _ENDED and not job.is_over:
            self._end(number, job, _ended(state, job))

    def _handle_event(self, number: int, job: _RunningJob, event: Mapping[str, Any]) -> None:
        if event["kind"] == "progress":
            job.on_event(_progress(event))
        elif event["kind"] == "measured":
            job.measurement = measurement_of(event["figures"])
        elif event["kind"] == "failed":
            self._end(number, job, Failed(event["message"], tuple(event["ways_out"])))

    def _end(self, number: int, job: _RunningJob, event: RunEvent) -> None:
        job.is_over = True
        with self._lock:
            self._jobs.pop(number, None)
        job.on_event(event)


_ENDED = ("done", "failed", "cancelled")


class _JobHandle:
    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel

    def cancel(self) -> None:
        self._cancel()


def measurement_of(figures: Mapping[str, Any]) -> Measurement:
    """Return the measurement that a job wrote (`documents.measurement_record`), which omits tasks and trace."""
    compiled = {(tuple(row["axes"]), row["kind"]): row["payload"] for row in figures["compiled"]}
    names = ("device_kind", "devices", "processes", "compile_seconds", "compiled_peak", "device_peak", "predicted_seconds", "max_error")
    values: dict[str, Any] = {name: figures[name] for name in names} | {name: tuple(figures[name]) for name in ("step_seconds", "losses")}
    values |= {name: figures[name] for name in ("explained_error", "first_wrong", "not_numbers") if name in figures}
    if figures.get("is_wrong") and values["max_error"] is None:
        values["max_error"] = inf  # JSON has no infinity
    shards = tuple(ShardCheck(row["path"], tuple(row["predicted"]), tuple(row["actual"])) for row in figures["shards"])
    return Measurement(**values, shards=shards, compiled=compiled)


def _progress(event: Mapping[str, Any]) -> RunEvent:
    if event.get("step") is not None:
        return StepDone(event["step"], event["of"], event["seconds"], event.get("loss"))
    return Progress(event["stage"], event.get("fraction") or 0.0, event.get("seconds"))


def _ended(state: str, job: _RunningJob) -> RunEvent:
    if state == "cancelled":
        return Cancelled()
    if state == "done" and job.measurement is not None:
        return RunDone(job.measurement)
    return Failed("The job ended without a result.", ("see its output on its page",))
