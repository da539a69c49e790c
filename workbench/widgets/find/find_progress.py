"""Progress of a board's search: an immutable value, replaced on each event of the search process."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from workbench.plan.plan import Plan
from workbench.reports.run_events import Cancelled, Failed
from workbench.reports.verified_plan import TierName
from workbench.search.background_verifier import Verified
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirement_conflicts import RequirementConflict
from workbench.search.requirements import Requirement, allows_candidate, allows_figures
from workbench.search.search_figures import Figures
from workbench.search.search_messages import FoundEntries, PlanExplanation, SearchClosed, SearchEvent, SearchRefused, SearchUpdate
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import CANCELLED, OUT_OF_TIME, SearchState
from workbench.search.tier_ranks import KnownFigures, best_known, list_contenders, rank_front


@dataclass(frozen=True, kw_only=True)
class FindProgress:
    """A search of one board.

    - `phase`: `idle`, `preparing` (the program is traced), `searching`, `done`, `stopped`, `failed`;
    - `number` of the search, carried by its events; `within`: time limit in seconds, which begins with the first
      `state`; `elapsed`: seconds of the start-up before it;
    - `origin`: the plan at the start of the search, `start` its candidate, if it is in the space;
    - `found`: planned candidates in order of discovery, their indices are the numbers that the page uses; `tried`:
      candidates planned for an explanation, perhaps not by the search;
    - `states`: states in which the best plan or the bound changed; the last one is `state`;
    - `verified`: answers of the compilers; `is_checking`: whether plans are being verified, `asking`: the present plan
      and tier;
    - `chosen`: the candidate shown on the page; `asked`: the number of the pending question, `explanation`: the last
      answer, `than`: the start of its ledger;
    - `message`, `ways_out`: the last error.
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
    clash: RequirementConflict | None = None
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
        """The latest state, by planned figures."""
        return self.states[-1] if self.states else None

    @cached_property
    def ranked(self) -> SearchState | None:
        """The latest state with the front ranked by the highest known tier."""
        return self.state and replace(self.state, front=rank_front(self.state, self.requirements, self.verified))

    @property
    def front(self) -> FoundEntries:
        return self.ranked.front.entries if self.ranked else ()

    @cached_property
    def contenders(self) -> FoundEntries:
        """The plans to verify with the compilers."""
        objective = self.state.objective if self.state else "seconds"
        return list_contenders(dict(self.found), self.requirements, objective, self.start)

    def known(self, candidate: PlanCandidate, planned: Figures) -> KnownFigures:
        return best_known(*self.verified.get(candidate, (planned, None)))

    def begin(self, origin: Plan) -> "FindProgress":
        """Start a new search from a plan, without any earlier results."""
        return FindProgress(phase="preparing", number=self.number + 1, origin=origin)

    def search(self, space: SearchSpace, requirements: tuple[Requirement, ...], start: PlanCandidate | None) -> "FindProgress":
        return replace(self, phase="searching", space=space, requirements=requirements, start=start)

    def fail(self, message: str, ways_out: tuple[str, ...] = ()) -> "FindProgress":
        return replace(self, phase="failed", message=message, ways_out=ways_out)

    def stop(self) -> "FindProgress":
        return self._ended("stopped", CANCELLED)

    def expire(self) -> "FindProgress":
        return self._ended("done", OUT_OF_TIME)

    def _ended(self, phase: str, ending: str) -> "FindProgress":
        idle = replace(self, asked=0, asking=None, is_checking=False)
        ended = tuple(replace(last, ending=ending) for last in self.states[-1:])
        return replace(idle, phase=phase, states=(*self.states[:-1], *ended)) if self.running else idle

    def after(self, event: SearchEvent) -> "FindProgress":
        """Return the progress after one event; events of an earlier search change nothing."""
        match event:
            case SearchUpdate() as update if update.number == self.number and self.phase == "searching":
                phase = "done" if update.is_over else "searching"
                entries = _extend(self.found, (*update.found, *update.state.front))
                states = self._with_state(self._with_tried(update.state, self.tried))
                return replace(self, phase=phase, states=states, found=entries, clash=update.clash)
            case PlanExplanation() as explanation if explanation.number == self.asked:
                changes = tuple((change.candidate, change.figures) for change in explanation.changes if change.figures is not None)
                tried, entries = _extend(self.tried, changes), _extend(self.found, changes)
                states = self._with_state(self._with_tried(self.state, changes)) if self.state else ()
                return replace(self, asked=0, explanation=explanation, tried=tried, found=entries, states=states)
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
        """Append a state, or replace the last one if neither the best plan nor the bound changed."""
        is_new = self.state is None or (self.state.best, self.state.least) != (state.best, state.least)
        return (*self.states, state) if is_new else (*self.states[:-1], state)

    def _with_tried(self, state: SearchState, tried: FoundEntries) -> SearchState:
        front = state.front
        for candidate, figures in tried:
            if allows_candidate(self.requirements, candidate) and allows_figures(self.requirements, figures):
                front = front.with_item(candidate, figures)
        return replace(state, front=front)

    def ask(self, number: int, than: PlanCandidate | None) -> "FindProgress":
        return replace(self, asked=number, than=than, explanation=None)

    def choose(self, candidate: PlanCandidate | None) -> "FindProgress":
        return replace(self, chosen=candidate, asked=0, explanation=None, than=None)

    def number_of(self, candidate: PlanCandidate) -> str:
        """Return the page's number of a candidate; empty for one that this search did not plan."""
        return next((str(place) for place, (other, _) in enumerate(self.found) if other == candidate), "")

    def figures_of(self, candidate: PlanCandidate) -> Figures | None:
        return next((figures for other, figures in self.found if other == candidate), None)


def _extend(found: FoundEntries, more: Iterable[tuple[PlanCandidate, Figures]]) -> FoundEntries:
    present = dict(found)
    return (*found, *((candidate, figures) for candidate, figures in dict(more).items() if candidate not in present))
