"""How far the search of a board is: a value that each event of its process replaces."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from workbench.plan.plan import Plan
from workbench.reports.run_events import Cancelled, Failed
from workbench.reports.verified_plan import TierName
from workbench.search.background_verifier import Verified
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirement_conflicts import Clash
from workbench.search.requirements import Requirement, allows_candidate, allows_figures
from workbench.search.search_figures import Figures, ParetoFront
from workbench.search.search_messages import (
    FoundEntries,
    PlanExplained,
    PlanExplanation,
    SearchClosed,
    SearchEvent,
    SearchRefused,
    SearchUpdated,
)
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import CANCELLED, OUT_OF_TIME, SearchState
from workbench.search.tier_ranks import KnownFigures, best_known, list_contenders, rank_front


@dataclass(frozen=True, kw_only=True)
class FindProgress:
    """A search of one board.

    - `phase`: `idle`, `preparing` (the program is traced), `searching`, `done`, `stopped`, `failed`;
    - `number` of the search, which its events carry; `within`: seconds it may take, `elapsed`: those that have passed before it began;
    - `origin`: the plan that the search began from, `start` the candidate that it is, if it is one;
    - `found`: candidates that were planned, the first one first; their places are the numbers that the page knows them by; `tried`
      are those that an explanation planned, and the search perhaps did not;
    - `states`: those in which the best plan or the bound changed, the last one `state`;
    - `verified`: what the compilers said; `is_checking`: whether they are asked about plans, `asking` the one and the tier that is awaited;
    - `chosen`: a candidate that the page shows; `asked`: the number of the question under way, `explanation` the last answer, `than` the
      candidate that its ledger begins at;
    - `message`, `ways_out`: what went wrong.
    """

    phase: str = "idle"
    number: int = 0
    within: float = 0.0
    elapsed: float = 0.0
    origin: Plan | None = None
    start: PlanCandidate | None = None
    space: SearchSpace | None = None
    requirements: tuple[Requirement, ...] = ()
    states: tuple[SearchState, ...] = ()
    found: FoundEntries = ()
    tried: FoundEntries = ()
    verified: Verified = field(default_factory=dict)
    asking: tuple[PlanCandidate, TierName] | None = None
    is_checking: bool = False
    clash: Clash | None = None
    chosen: PlanCandidate | None = None
    asked: int = 0
    than: PlanCandidate | None = None
    explanation: PlanExplanation | None = None
    message: str = ""
    ways_out: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        return self.phase in ("preparing", "searching")

    @property
    def state(self) -> SearchState | None:
        """How far it is, by planned figures."""
        return self.states[-1] if self.states else None

    @cached_property
    def ranked(self) -> SearchState | None:
        """The same with the front by the best tier known."""
        return self.state and replace(self.state, front=rank_front(self.state, self.requirements, self.verified))

    @property
    def front(self) -> FoundEntries:
        return self.ranked.front.entries if self.ranked else ()

    @cached_property
    def contenders(self) -> FoundEntries:
        """The plans that the compilers are asked about."""
        objective = self.state.objective if self.state else "seconds"
        return list_contenders(dict(self.found), self.requirements, objective, self.start)

    def known(self, candidate: PlanCandidate, planned: Figures) -> KnownFigures:
        """The figures of a plan by the best tier that has them."""
        return best_known(*self.verified.get(candidate, (planned, None)))

    def begin(self, origin: Plan) -> "FindProgress":
        """A new search from a plan; of the plans found before nothing stays."""
        return FindProgress(phase="preparing", number=self.number + 1, origin=origin)

    def search(self, space: SearchSpace, requirements: tuple[Requirement, ...], start: PlanCandidate | None) -> "FindProgress":
        """The space is known, and where the plan lies that the search began from; the process searches it."""
        return replace(self, phase="searching", space=space, requirements=requirements, start=start)

    def fail(self, message: str, ways_out: tuple[str, ...] = ()) -> "FindProgress":
        return replace(self, phase="failed", message=message, ways_out=ways_out)

    def stop(self) -> "FindProgress":
        """Stopped on request: what was found stays."""
        return self._ended("stopped", CANCELLED, self.states)

    def expire(self, objective: str) -> "FindProgress":
        """Its time is over: what was found stays."""
        return self._ended("done", OUT_OF_TIME, self.states or (SearchState(self.within, objective, ParetoFront(), 0.0, 0, 0, 1),))

    def _ended(self, phase: str, ending: str, states: tuple[SearchState, ...]) -> "FindProgress":
        idle = replace(self, asked=0, asking=None, is_checking=False)
        ended = tuple(replace(each, ending=ending) for each in states[-1:])
        return replace(idle, phase=phase, states=(*states[:-1], *ended)) if self.running else idle

    def after(self, event: SearchEvent) -> "FindProgress":
        """The search after one event; those of an earlier search change nothing."""
        match event:
            case SearchUpdated(update=update) if update.number == self.number and self.phase == "searching":
                phase = "done" if update.is_over else "searching"
                found = _extend(self.found, (*update.found, *update.state.front))
                states = self._with_state(self._with_tried(update.state, self.tried))
                return replace(self, phase=phase, states=states, found=found, clash=update.clash)
            case PlanExplained(explanation=explanation) if explanation.number == self.asked:
                changes = tuple((each.candidate, each.figures) for each in explanation.changes if each.figures is not None)
                tried, found = _extend(self.tried, changes), _extend(self.found, changes)
                states = self._with_state(self._with_tried(self.state, changes)) if self.state else ()
                return replace(self, asked=0, explanation=explanation, tried=tried, found=found, states=states)
            case SearchRefused(number=number) if number == self.number:
                return self.fail(event.message, event.ways_out)
            case SearchRefused(number=number) if number == self.asked:
                return replace(self, asked=0, message=event.message, ways_out=event.ways_out)
            case Failed():
                return replace(self.fail(event.message, event.ways_out), asked=0)
            case Cancelled() | SearchClosed():
                return replace(self, asked=0)
        return self

    def _with_state(self, state: SearchState) -> tuple[SearchState, ...]:
        """The states with another one, in place of the last where neither the best nor the bound changed since."""
        is_new = self.state is None or (self.state.best, self.state.least) != (state.best, state.least)
        return (*self.states, state) if is_new else (*self.states[:-1], state)

    def _with_tried(self, state: SearchState, tried: FoundEntries) -> SearchState:
        """The state with plans that were tried for an explanation, where they belong on the front."""
        front = state.front
        for candidate, figures in tried:
            if allows_candidate(self.requirements, candidate) and allows_figures(self.requirements, figures):
                front = front.with_item(candidate, figures)
        return replace(state, front=front)

    def ask(self, number: int, than: PlanCandidate | None) -> "FindProgress":
        """A question about the chosen plan is under way."""
        return replace(self, asked=number, than=than, explanation=None)

    def choose(self, candidate: PlanCandidate | None) -> "FindProgress":
        return replace(self, chosen=candidate, asked=0, explanation=None, than=None)

    def number_of(self, candidate: PlanCandidate) -> str:
        """The number that the page knows a candidate by; empty for one that was not planned in this search."""
        return next((str(place) for place, (each, _) in enumerate(self.found) if each == candidate), "")

    def figures_of(self, candidate: PlanCandidate) -> Figures | None:
        return next((figures for each, figures in self.found if each == candidate), None)


def _extend(found: FoundEntries, more: Iterable[tuple[PlanCandidate, Figures]]) -> FoundEntries:
    """With candidates that are not among those found; each keeps its place."""
    known = dict(found)
    return (*found, *((candidate, figures) for candidate, figures in dict(more).items() if candidate not in known))
