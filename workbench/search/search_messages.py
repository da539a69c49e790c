"""What a process that searches is asked, and what it answers: frozen values, each with the `number` of its question.

A process has one space for its whole life, and remembers all that it planned. Questions about plans are answered between the rounds of a
search; another search ends the one under way.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from workbench.reports.run_events import Cancelled, Failed
from workbench.search.explain import Counterfactual, Ledger
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirement_conflicts import Clash
from workbench.search.requirements import Requirement
from workbench.search.search_figures import Figures
from workbench.search.search_state import SearchState

FoundEntries = tuple[tuple[PlanCandidate, Figures], ...]


@dataclass(frozen=True)
class SearchRequest:
    """Search the space for plans that keep the requirements, for `within` seconds at most, the `present` plan first; `until` as of
    `run_search`. `begin`: when the seconds began by `time.time`, which count the start of the process; with the search if left out."""

    number: int
    requirements: tuple[Requirement, ...]
    objective: str = "seconds"
    within: float = 30.0
    present: PlanCandidate | None = None
    until: str = "complete"
    begin: float | None = None

    def seconds_left(self) -> float:
        """Of the seconds of the search."""
        return self.within if self.begin is None else max(0.0, self.begin + self.within - time.time())


@dataclass(frozen=True)
class ExplainRequest:
    """The ledger from `start` to `end`, none where `start` is missing; and every decision of `end` changed alone."""

    number: int
    end: PlanCandidate
    start: PlanCandidate | None = None
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class SearchUpdate:
    """How far a search is, and the candidates that were planned since the last update.

    `is_over` in the last one of a search, which has the `clash` if no plan keeps the requirements.
    """

    number: int
    state: SearchState
    found: FoundEntries = ()
    is_over: bool = False
    clash: Clash | None = None


@dataclass(frozen=True)
class PlanExplanation:
    """The answer to an `ExplainRequest`."""

    number: int
    end: PlanCandidate
    ledger: Ledger | None
    changes: tuple[Counterfactual, ...]


@dataclass(frozen=True)
class AskSearch:
    """The command to search."""

    request: SearchRequest


@dataclass(frozen=True)
class AskExplanation:
    """The command to explain a plan."""

    request: ExplainRequest


@dataclass(frozen=True)
class SearchUpdated:
    """News of a search."""

    update: SearchUpdate


@dataclass(frozen=True)
class PlanExplained:
    """The answer to `AskExplanation`."""

    explanation: PlanExplanation


@dataclass(frozen=True)
class SearchRefused:
    """A request that cannot be answered, and why."""

    number: int
    message: str
    ways_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchClosed:
    """The process has ended because nobody asked it anything for a while; it had answered so many requests."""

    requests: int


SearchCommand = AskSearch | AskExplanation
SearchEvent = SearchUpdated | PlanExplained | SearchRefused | SearchClosed | Failed | Cancelled
SearchListener = Callable[[SearchEvent], None]

SEARCH_COMMANDS = {"search": AskSearch, "explain": AskExplanation}
"""Each command, by its kind on the wire between processes."""
SEARCH_EVENTS = {
    "search updated": SearchUpdated,
    "plan explained": PlanExplained,
    "search refused": SearchRefused,
    "search closed": SearchClosed,
}
"""Each event that only a search has, by its kind on the wire between processes."""
