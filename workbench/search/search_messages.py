"""Messages between a search process and its owner: frozen values, each with the `number` of its request.

A process has one space for its whole life and keeps every figure it planned. It answers questions about plans between
the rounds of a search; a new search ends the current one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from workbench.reports.run_events import Cancelled, Failed
from workbench.search.explain import Counterfactual, Ledger
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirement_conflicts import RequirementConflict
from workbench.search.requirements import Requirement
from workbench.search.search_figures import Figures
from workbench.search.search_state import SearchState

FoundEntries = tuple[tuple[PlanCandidate, Figures], ...]


@dataclass(frozen=True)
class SearchRequest:
    """Command: search for plans that meet the requirements, planning `present` first; `until` as for `run_search`.

    `within` is in seconds. `begin` is the `time.time` from which they count, so that they include starting the process.
    """

    number: int
    requirements: tuple[Requirement, ...]
    objective: str = "seconds"
    within: float = 30.0
    present: PlanCandidate | None = None
    until: str = "complete"


@dataclass(frozen=True)
class ExplainRequest:
    """Command: explain a plan, by the ledger from `start` to `end`, if there is a start, and every decision of `end` changed alone."""

    number: int
    end: PlanCandidate
    start: PlanCandidate | None = None
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class SearchUpdate:
    """Event: the state of a search, and the candidates planned since the last update.

    `is_over` marks the last update, which has the `clash` if no plan meets the requirements.
    """

    number: int
    state: SearchState
    found: FoundEntries = ()
    is_over: bool = False
    clash: RequirementConflict | None = None


@dataclass(frozen=True)
class PlanExplanation:
    """Event: the answer to an `ExplainRequest`."""

    number: int
    end: PlanCandidate
    ledger: Ledger | None
    changes: tuple[Counterfactual, ...]


@dataclass(frozen=True)
class SearchRefused:
    """Event: a request cannot be answered."""

    number: int
    message: str
    ways_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchClosed:
    """Event: the process ended because it was idle, after answering this many requests."""

    requests: int


SearchCommand = SearchRequest | ExplainRequest
SearchEvent = SearchUpdate | PlanExplanation | SearchRefused | SearchClosed | Failed | Cancelled
SearchListener = Callable[[SearchEvent], None]
