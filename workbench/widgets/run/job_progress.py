"""How far a job of a board is, a run or a compilation: what both do with the events that both have."""

from dataclasses import dataclass, replace
from typing import Self

from workbench.reports.report import Report
from workbench.reports.run_events import Cancelled, Failed, Progress, RunEvent, Waiting
from workbench.widgets.run.job_log import Log, append_message, waiting_text

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
