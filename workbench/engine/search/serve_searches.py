"""Main loop of a search process: one space, any number of searches and questions, one cache for all of them."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.explain import list_counterfactuals, make_ledger
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirement_conflicts import find_requirement_conflict
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures
from workbench.search.search_messages import (
    ExplainRequest,
    FoundEntries,
    PlanExplanation,
    SearchCommand,
    SearchRefused,
    SearchRequest,
    SearchUpdate,
)
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState

# Updates of one search, at most two per second: of every state if they are slow, of the latest one if they are fast, and of the same one
# with the elapsed time if there is none for a while, because a round of a large program takes seconds.

EVERY = 0.5  # seconds between updates

Tell = Callable[[Any], None]


class UpdateSender:
    """Context manager that sends updates of a search; the caller sends the last one afterwards.

    `found` holds the plans found so far; every update has those added since the last one.
    """

    def __init__(self, number: int, tell: Tell, found: Mapping[PlanCandidate, Figures]) -> None:
        self._number, self._tell, self._found, self._taken = number, tell, found, 0
        self._lock, self._is_over = threading.Lock(), threading.Event()
        self._state: SearchState | None = None
        self._known_at = self._sent_at = float("-inf")
        self._thread = threading.Thread(target=self._repeat, daemon=True, name="updates")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def show(self, state: SearchState) -> None:
        with self._lock:
            self._state, self._known_at = state, time.perf_counter()
            if self._known_at - self._sent_at >= EVERY:
                self._send(state, self.take_found())

    def take_found(self) -> FoundEntries:
        """Return the plans found since the last call."""
        entries = tuple(self._found.items())[self._taken :]
        self._taken += len(entries)
        return entries

    def _repeat(self) -> None:
        while not self._is_over.wait(EVERY):
            with self._lock:
                now = time.perf_counter()
                if self._state is not None and now - self._sent_at >= EVERY:
                    self._send(replace(self._state, elapsed=self._state.elapsed + now - self._known_at), ())

    def _send(self, state: SearchState, found: FoundEntries) -> None:
        self._sent_at = time.perf_counter()
        self._tell(SearchUpdate(self._number, state, found))


IDLE_LIMIT = 600.0  # seconds without requests after which the process ends
CLASH_SECONDS = 10.0  # seconds per search for clashing requirements


def serve_searches(plan: Plan, on_event: Tell, commands: "queue.SimpleQueue[SearchCommand]", space: SearchSpace) -> int:
    """Answer requests about a space, which starts at `plan`, until it is idle for long; return their number."""
    del plan
    server = SearchServer(space, on_event, commands)
    while True:
        try:
            server.answer(commands.get(timeout=IDLE_LIMIT))
        except queue.Empty:
            return server.answered


class SearchServer:
    """Searches and explains plans; requests that arrive during a search are answered between rounds."""

    def __init__(self, space: SearchSpace, tell: Tell, commands: "queue.SimpleQueue[SearchCommand]") -> None:
        self._space, self._tell, self._commands = space, tell, commands
        self._evaluator = Evaluator(space)
        self.answered = 0

    def answer(self, command: SearchCommand) -> None:
        following: SearchRequest | None = self._answer_or_return(command)
        while following is not None:
            following = self._search(following)

    def _answer_or_return(self, command: SearchCommand) -> SearchRequest | None:
        self.answered += 1
        if isinstance(command, SearchRequest):
            return command
        if isinstance(command, ExplainRequest):
            try:
                self._tell(self._explain(command))
            except WorkbenchError as error:
                self._tell(SearchRefused(command.number, error.message, error.ways_out))
        return None

    def _explain(self, request: ExplainRequest) -> PlanExplanation:
        ledger = None if request.start is None else make_ledger(self._evaluator, request.start, request.end)
        changes = list_counterfactuals(self._evaluator, request.end, request.requirements)
        return PlanExplanation(request.number, request.end, ledger, changes)

    def _search(self, request: SearchRequest) -> SearchRequest | None:
        """Run a search to its end, or to the next search request, which is returned."""
        state: SearchState | None = None
        found: dict[PlanCandidate, Figures] = {}
        begin: float | None = None

        def clock() -> float:  # stands still until the first answer: in a new process this one imports and compiles
            return 0.0 if begin is None else time.perf_counter() - begin

        try:
            with UpdateSender(request.number, self._tell, found) as updates:
                for state in run_search(
                    self._space,
                    request.requirements,
                    objective=request.objective,
                    within=request.within,
                    evaluator=self._evaluator,
                    present=request.present,
                    until=request.until,
                    clock=clock,
                    found=found,
                ):
                    begin = begin or time.perf_counter()
                    updates.show(state)
                    if (following := self._answer_waiting()) is not None:
                        return following
        except WorkbenchError as error:
            self._tell(SearchRefused(request.number, error.message, error.ways_out))
            return None
        return None if state is None else self._finish(request, state, updates)

    def _finish(self, request: SearchRequest, state: SearchState, updates: UpdateSender) -> SearchRequest | None:
        """Send the last update of a search; return a search request that arrived while its clashes were determined."""
        number, clash = request.number, None
        following: SearchRequest | None = None

        def has_following() -> bool:
            nonlocal following
            following = following or self._answer_waiting()
            return following is not None

        if state.best is None:
            self._tell(SearchUpdate(number, state, updates.take_found()))
            clash = find_requirement_conflict(
                self._space,
                request.requirements,
                within=min(CLASH_SECONDS, max(0.0, request.within - state.elapsed)),
                evaluator=self._evaluator,
                on_clash=lambda found: self._tell(SearchUpdate(number, state, clash=found)),
                is_cancelled=has_following,
                is_complete=state.is_complete,
            )
        if following is None:
            self._tell(SearchUpdate(number, state, updates.take_found(), is_over=True, clash=clash))
        return following

    def _answer_waiting(self) -> SearchRequest | None:
        while True:
            try:
                following = self._answer_or_return(self._commands.get_nowait())
            except queue.Empty:
                return None
            if following is not None:
                return following
