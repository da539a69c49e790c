"""How far a job of a board is, a run or a compilation: what both do with the events that both have."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.report import Report
from workbench.reports.run_events import Cancelled, CompileDone, Failed, Progress, RunEvent, Waiting

# A worker's messages, line by line, with their time: the log of a run or of a compilation.

MOST_MESSAGES = 200


class Message(NamedTuple):
    """A message; `seconds` since the work was requested; `tone` is `""`, `good`, `warn` or `bad`."""

    seconds: float
    text: str
    tone: str = ""


Log = tuple[Message, ...]


def append_message(log: Log, seconds: float, text: str, tone: str = "") -> Log:
    """The log with one more line; a stage that is reported every second is listed once."""
    if log and log[-1].text == text:
        return log
    return (*log, Message(max(seconds, 0.0), text, tone))[-MOST_MESSAGES:]


def waiting_text(ahead: int) -> str:
    """The text in place of the stage, while others come first."""
    return f"waiting: {ahead} {'job' if ahead == 1 else 'jobs'} ahead"


def stage_text(stage: str, seconds: float, *, waits: bool) -> str:
    """A stage and its time so far; waiting is not updated every second."""
    return stage if waits else f"{stage} · {max(seconds, 0.0):.0f} s"


def log_state(log: Log) -> list[dict[str, Any]]:
    """JSON."""
    return [
        {"key": f"{place} {each.text[:40]}", "at": f"{each.seconds:.1f} s", "text": each.text, "tone": each.tone}
        for place, each in enumerate(log)
    ]


MOST_KEPT = 8
"""Results of earlier jobs that a board keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The state of a job, which each event replaces by the next one.

    `phase`: `idle`, `running`, `done`, `error`, `cancelled`; `report` is the prediction of the job's plan; `stage` what it does, `fraction`
    how much of it is done; `waits` while others come first; `started` (when it was requested), `turn` (when it stopped waiting) and `now`
    are seconds of one clock; `message` says how it ended; `log` has the worker's messages.
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
        """A new job of this kind, with nothing of this one; `text` is the first line of its log."""
        log = append_message((), 0.0, text)
        return type(self)(phase="running", report=report, stage="starting", started=now, turn=now, now=now, log=log)

    def noting(self, text: str, tone: str = "") -> Self:
        return replace(self, log=append_message(self.log, self.now - self.started, text, tone))

    def after(self, event: RunEvent, now: float = 0.0) -> Self:
        """The job after one event."""
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


# Compilations as the board sees them: a value that each event updates, and the results of earlier ones.


class FinishedCompilation(NamedTuple):
    """A finished compilation, and the prediction of its plan."""

    report: Report
    compiled: Compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileProgress(JobProgress):
    """The state of a compilation: `unasked` for an automatic one; `found` are the last finished ones, the newest first."""

    unasked: bool = False
    found: tuple[FinishedCompilation, ...] = ()

    def begin(self, report: Report, now: float, *, unasked: bool = False) -> Self:
        """A new compilation; earlier results stay."""
        text = f"{report.plan} for {report.plan.hardware or 'the attached devices'}"
        return replace(self.begun(report, text, now), unasked=unasked, found=self.found)

    def after(self, event: RunEvent, now: float = 0.0) -> Self:
        if isinstance(event, Cancelled) and self.unasked:
            return type(self)(found=self.found)  # an automatic one ends without a message
        following = JobProgress.after(self, event, now)  # `super()` does not know a class with slots
        if isinstance(event, CompileDone) and self.report:
            return following.finish(FinishedCompilation(self.report, event.compiled))
        return following

    def finish(self, new: FinishedCompilation) -> Self:
        """The finished compilation; its result replaces an earlier one of the same plan."""
        others = tuple(each for each in self.found if each.report.plan != new.report.plan)
        following = self.noting("done: from the cache" if new.compiled.from_cache else "done", "good")
        return replace(following, phase="done", fraction=1.0, found=(new, *others)[:MOST_KEPT])

    def of(self, plan: Plan) -> FinishedCompilation | None:
        """The result for a plan."""
        return next((each for each in self.found if each.report.plan == plan), None)
