"""How far the compilers are with a plan found: a value that each of their answers replaces."""

from dataclasses import dataclass, replace

from workbench.reports.run_events import Progress, Waiting
from workbench.reports.verified_plan import TierFigures, TierName, VerifiedPlan
from workbench.search.plan_candidate import PlanCandidate
from workbench.widgets.run.job_progress import stage_text, waiting_text

PENDING = TierFigures()
"""Of a tier that has not answered."""
STOPPED = "Stopped before it answered."


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was asked of the compilers about plans of one search.

    - `tier`: whose answer is awaited about the plan of `candidate`; empty for none; `stage`: what it is doing;
    - `found`: each plan that was asked about, as far as it is known; a tier that has not answered is `PENDING`.
    """

    tier: TierName | None = None
    candidate: PlanCandidate | None = None
    stage: str = ""
    found: tuple[tuple[PlanCandidate, VerifiedPlan], ...] = ()

    def of(self, candidate: PlanCandidate) -> VerifiedPlan | None:
        """What is known of a candidate; `None` where nobody was asked."""
        return next((verified for each, verified in self.found if each == candidate), None)

    def is_asking(self, candidate: PlanCandidate) -> bool:
        """Whether an answer about this one is awaited."""
        return self.tier is not None and self.candidate == candidate

    def begin(self, candidate: PlanCandidate, asked: VerifiedPlan) -> "Verification":
        """XLA's partitioner is asked first; what was known of this candidate is forgotten."""
        others = tuple(each for each in self.found if each[0] != candidate)
        return Verification(tier="partitioned", candidate=candidate, found=(*others, (candidate, asked)))

    def compile(self, partitioned: TierFigures) -> "Verification":
        """The partitioner has answered; the compiler is asked."""
        return replace(self._with_answers(partitioned), tier="compiled", stage="starting")

    def after(self, event: Waiting | Progress) -> "Verification":
        """The compiler goes on, or waits for others."""
        if isinstance(event, Waiting):
            return replace(self, stage=waiting_text(event.ahead))
        return replace(self, stage=stage_text(event.stage, event.elapsed or 0.0, waits=False))

    def finish(self, compiled: TierFigures) -> "Verification":
        """The compiler has answered."""
        return replace(self._with_answers(None, compiled), tier=None, stage="")

    def stop(self) -> "Verification":
        """Nobody is asked any more; what was answered stays."""
        if self.tier is None or self.candidate is None or (asked := self.of(self.candidate)) is None:
            return self
        stopped = TierFigures(reason=STOPPED)
        return replace(self._with_answers(stopped if asked.partitioned == PENDING else None, stopped), tier=None, stage="")

    def _with_answers(self, partitioned: TierFigures | None, compiled: TierFigures | None = None) -> "Verification":
        """With the answers to what is asked about; `None` leaves what there was."""
        return replace(self, found=tuple((each, self._answered(each, known, partitioned, compiled)) for each, known in self.found))

    def _answered(
        self, candidate: PlanCandidate, known: VerifiedPlan, partitioned: TierFigures | None, compiled: TierFigures | None
    ) -> VerifiedPlan:
        if candidate != self.candidate:
            return known
        return replace(known, partitioned=partitioned or known.partitioned, compiled=compiled or known.compiled)
