"""Progress of a board's job, a run or a compilation: the events common to both."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from workbench.analysis.analyze import analyze
from workbench.hardware.catalogue import is_device_kind
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.reports.run_events import Cancelled, CompileDone, Failed, Progress, RunDone, RunEvent, StepDone, Waiting
from workbench.units import format_seconds

# The log of a run or compilation: a worker's messages, line by line, with their time.

MOST_MESSAGES = 200


class Message(NamedTuple):
    """A message; `seconds` since the request; `tone` is `""`, `good`, `warn` or `bad`."""

    seconds: float
    text: str
    tone: str = ""


Log = tuple[Message, ...]


def append_message(log: Log, seconds: float, text: str, tone: str = "") -> Log:
    """Append a line to the log, unless it repeats the last one, as stages reported every second do."""
    if log and log[-1].text == text:
        return log
    return (*log, Message(max(seconds, 0.0), text, tone))[-MOST_MESSAGES:]


def waiting_text(ahead: int) -> str:
    return f"waiting: {ahead} {'job' if ahead == 1 else 'jobs'} ahead"


def stage_text(stage: str, seconds: float, *, waits: bool) -> str:
    """Format a stage and its time so far; a waiting stage has no time, so that it is not updated every second."""
    return stage if waits else f"{stage} · {max(seconds, 0.0):.0f} s"


def log_state(log: Log) -> list[dict[str, Any]]:
    return [
        {"key": f"{place} {message.text[:40]}", "at": f"{message.seconds:.1f} s", "text": message.text, "tone": message.tone}
        for place, message in enumerate(log)
    ]


MOST_KEPT = 8
"""Results of earlier jobs that a board keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The state of a job, replaced on each event.

    `phase`: `idle`, `running`, `done`, `error`, `cancelled`; `report`: the prediction; `waits`: queued; `started`
    (request), `turn` (end of the wait) and `now`: seconds of one clock; `message`: the ending; `log`: the worker's
    messages.
    """

    phase: str = "idle"
    report: Report | None = None
    stage: str = ""
    fraction: float = 0.0
    started: float = 0.0
    turn: float = 0.0
    now: float = 0.0
    waits: bool = False
    message: str = ""
    log: Log = ()

    @property
    def running(self) -> bool:
        return self.phase == "running"

    def begun(self, report: Report, text: str, now: float) -> Self:
        """Return a new job of this kind; `text` is the first line of its log."""
        log = append_message((), 0.0, text)
        return type(self)(phase="running", report=report, stage="starting", started=now, turn=now, now=now, log=log)

    def noting(self, text: str, tone: str = "") -> Self:
        return replace(self, log=append_message(self.log, self.now - self.started, text, tone))

    def after(self, event: RunEvent, now: float = 0.0) -> Self:
        following = replace(self, now=now, waits=False, turn=now if self.waits else self.turn)
        match event:
            case Waiting(ahead=ahead):
                stage = waiting_text(ahead)
                return replace(following.noting(stage), stage=stage, waits=True)
            case Progress(stage=stage, fraction=fraction):
                return replace(following.noting(stage), stage=stage, fraction=fraction)
            case Failed():
                return replace(following.noting(event.text, "bad"), phase="error", message=event.text)
            case Cancelled():
                return replace(following.noting("cancelled", "warn"), phase="cancelled", message="Cancelled.")
        return following


# Compilations of a board: an immutable value, replaced on each event, with earlier results.


class FinishedCompilation(NamedTuple):
    """A finished compilation, and the prediction of its plan."""

    report: Report
    compiled: Compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileProgress(JobProgress):
    """The state of a compilation; `unasked` if automatic; `found` are the latest finished ones, newest first."""

    unasked: bool = False
    found: tuple[FinishedCompilation, ...] = ()

    def begin(self, report: Report, now: float, *, unasked: bool = False) -> Self:
        text = f"{report.plan} for {report.plan.hardware or 'the attached devices'}"
        return replace(self.begun(report, text, now), unasked=unasked, found=self.found)

    def after(self, event: RunEvent, now: float = 0.0) -> Self:
        if isinstance(event, Cancelled) and self.unasked:
            return type(self)(found=self.found)  # an automatic compilation ends without a message
        following = JobProgress.after(self, event, now)  # `super()` does not know a class with slots
        if isinstance(event, CompileDone) and self.report:
            return following.finish(FinishedCompilation(self.report, event.compiled))
        return following

    def finish(self, new: FinishedCompilation) -> Self:
        """Record a result, which replaces an earlier one of the same plan."""
        others = tuple(result for result in self.found if result.report.plan != new.report.plan)
        following = self.noting("done: from the cache" if new.compiled.from_cache else "done", "good")
        return replace(following, phase="done", fraction=1.0, found=(new, *others)[:MOST_KEPT])

    def of(self, plan: Plan) -> FinishedCompilation | None:
        return next((result for result in self.found if result.report.plan == plan), None)


# Runs of a board: an immutable value, replaced on each event, with earlier results by plan.


MOST_STEPS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress(JobProgress):
    """A run of `steps` steps: `seconds` and `losses` of the steps done, the final `measurement`.

    `ran_as` is the prediction for the run's devices, `report` that for the plan's; `ran` are finished runs, one per
    plan, newest first.
    """

    steps: int = 20
    seconds: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    measurement: Measurement | None = None
    ran_as: Report | None = None
    colours: tuple[tuple[str, int], ...] = ()
    ran: tuple["RunProgress", ...] = ()

    @property
    def plan(self) -> Plan | None:
        return self.report.plan if self.report else None

    def begin(self, report: Report, steps: int, colours: dict[str, int], now: float = 0.0) -> "RunProgress":
        begun = self.begun(report, f"{steps} steps of {report.plan}", now)
        return replace(begun, steps=steps, colours=tuple(colours.items()), ran=self.ran)

    def refuse(self, report: Report, message: str) -> "RunProgress":
        return type(self)(phase="error", steps=self.steps, message=message, report=report, ran=self.ran)

    def after(self, event: RunEvent, now: float = 0.0) -> "RunProgress":
        following = JobProgress.after(self, event, now)  # `super()` does not know a class with slots
        match event:
            case StepDone():
                return following.record_step(event)
            case RunDone(measurement=measurement):
                return following.finish(measurement)
        return following

    def of(self, plan: Plan) -> "RunProgress | None":
        return next((run for run in self.ran if run.plan and same_step(run.plan, plan)), None)

    def run_to_show(self, plan: Plan) -> "RunProgress | None":
        """Return the finished run of a plan, else the latest run of any plan."""
        return self.of(plan) or (self.ran[0] if self.ran else None)

    def with_finished(self, run: "RunProgress") -> "RunProgress":
        """Add a run that another board of the same session has finished."""
        others = (other for other in self.ran if not (other.plan and run.plan and same_step(other.plan, run.plan)))
        return replace(self, ran=(replace(run, ran=()), *others)[:MOST_KEPT])

    def record_step(self, event: StepDone) -> "RunProgress":
        losses = self.losses if event.loss is None else (*self.losses, event.loss)
        following = self.noting(f"first step: {format_seconds(event.seconds)}") if event.step == 1 else self
        stage, fraction = f"step {event.step} of {event.of}", event.step / max(event.of, 1)
        return replace(following, stage=stage, fraction=fraction, seconds=(*self.seconds, event.seconds), losses=losses)

    def finish(self, measured: Measurement) -> "RunProgress":
        following = self.noting(measured.why_untraced, "warn") if measured.why_untraced else self
        following = following.noting(
            f"done: {format_seconds(measured.median_seconds)} a step (median of {len(measured.step_seconds)})", "good"
        )
        ran_as = self.report and _predict_where_run(self.report, measured)
        done = replace(following, phase="done", fraction=1.0, measurement=measured, ran_as=ran_as, ran=())
        others = (run for run in self.ran if not (run.plan and self.plan and same_step(run.plan, self.plan)))
        return replace(done, ran=(done, *others)[:MOST_KEPT])


def same_step(one: Plan, other: Plan) -> bool:
    """Whether two plans have the same step; a run does not depend on the named hardware."""
    return (one.program, one.mesh, one.layout, one.pipeline) == (other.program, other.mesh, other.layout, other.pipeline)


def on_these_devices(plan: Plan, measured: Measurement) -> bool:
    """Whether a run used the kind of device that the plan names; times on CPUs do not predict times on TPUs."""
    return plan.hardware is None or is_device_kind(plan.hardware, measured.device_kind)


def _predict_where_run(report: Report, measured: Measurement) -> Report:
    """Return the prediction for the devices of a run, or the plan's own report if they match or are unknown."""
    if measured.hardware is None or on_these_devices(report.plan, measured):
        return report
    return analyze(report.plan.updated(hardware=measured.hardware, axis_assignment=None)).prediction
