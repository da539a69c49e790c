"""Progress of a board's job, a run or a compilation: the events common to both."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.report import Report
from workbench.reports.run_events import Cancelled, CompileDone, Failed, Progress, RunEvent, Waiting

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
