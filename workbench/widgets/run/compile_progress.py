"""Compilations as the board sees them: a value that each event updates, and the results of earlier ones."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.report import Report
from workbench.reports.run_events import Cancelled, CompileDone, Failed, Progress, RunEvent, Waiting
from workbench.widgets.run.messages import Log, append_message, waiting_text

MOST_KEPT = 8


class FinishedCompilation(NamedTuple):
    """A finished compilation, and the prediction of its plan."""

    report: Report
    compiled: Compiled


@dataclass(frozen=True, slots=True)
class Compiling:
    """The state of a compilation.

    `phase`: `idle`, `running`, `done`, `error`, `cancelled`; `unasked` for an automatic compilation; `waits` while others come first;
    `report` the prediction of the plan that is compiled; `started` (when it was requested), `turn` (when it stopped waiting) and `now` are
    seconds of one clock; `log` has the worker's messages; `found` are the last finished ones, the newest first.
    """

    phase: str = "idle"
    report: Report | None = None
    stage: str = ""
    fraction: float = 0.0
    started: float = 0.0
    turn: float = 0.0
    now: float = 0.0
    waits: bool = False
    unasked: bool = False
    message: str = ""
    log: Log = ()
    found: tuple[FinishedCompilation, ...] = ()

    @property
    def running(self) -> bool:
        return self.phase == "running"

    def begin(self, report: Report, now: float, *, unasked: bool = False) -> "Compiling":
        """A new compilation; earlier results stay."""
        log = append_message((), 0.0, f"{report.plan} for {report.plan.hardware or 'the attached devices'}")
        return Compiling("running", report, "starting", started=now, turn=now, now=now, unasked=unasked, log=log, found=self.found)

    def after(self, event: RunEvent, now: float) -> "Compiling":
        """The compilation after one event."""
        following = replace(self, now=now, waits=False, turn=now if self.waits else self.turn)
        match event:
            case Waiting(ahead=ahead):
                stage = waiting_text(ahead)
                return replace(following.noting(stage), stage=stage, waits=True)
            case Progress(stage=stage, fraction=fraction):
                return replace(following.noting(stage), stage=stage, fraction=fraction)
            case CompileDone(compiled=compiled) if self.report:
                return following.finish(FinishedCompilation(self.report, compiled))
            case Failed():
                return replace(following.noting(event.text, "bad"), phase="error", message=event.text)
            case Cancelled() if self.unasked:
                return Compiling(found=self.found)  # an automatic one ends without a message
            case Cancelled():
                return replace(following.noting("cancelled", "warn"), phase="cancelled", message="Cancelled.")
        return following

    def finish(self, new: FinishedCompilation) -> "Compiling":
        """The finished compilation; its result replaces an earlier one of the same plan."""
        others = tuple(each for each in self.found if each.report.plan != new.report.plan)
        following = self.noting("done: from the cache" if new.compiled.from_cache else "done", "good")
        return replace(following, phase="done", fraction=1.0, found=(new, *others)[:MOST_KEPT])

    def noting(self, text: str, tone: str = "") -> "Compiling":
        return replace(self, log=append_message(self.log, self.now - self.started, text, tone))

    def of(self, plan: Plan) -> FinishedCompilation | None:
        """The result for a plan."""
        return next((each for each in self.found if each.report.plan == plan), None)
