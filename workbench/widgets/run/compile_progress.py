"""Compilations as the board sees them: a value that each event updates, and the results of earlier ones."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.report import Report
from workbench.reports.run_events import Cancelled, CompileDone, RunEvent
from workbench.widgets.run.job_progress import MOST_KEPT, JobProgress


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
