"""The work of a process that searches: one space, any number of searches and questions, one memory for all of them."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from workbench.engine.worker.line_codec import WorkerCommand
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.explain import list_counterfactuals, make_ledger
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirement_conflicts import find_clash
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures
from workbench.search.search_messages import (
    AskExplanation,
    AskSearch,
    ExplainRequest,
    FoundEntries,
    PlanExplained,
    PlanExplanation,
    SearchRefused,
    SearchRequest,
    SearchUpdate,
    SearchUpdated,
)
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState
from workbench.search.worker_questions import Answer, InProcess, Question, Wait

# Updates of one search, a few a second: of every state where they come slowly, of the last one where they come fast, and where none comes
# for a while of the same one with the time that has passed, for a round of a large program takes seconds.

EVERY = 0.5  # seconds between two updates

Tell = Callable[[Any], None]


class UpdateSender:
    """Used as a context: the last update is sent after it, by its caller. `take_found()` gives what was planned since the last call."""

    def __init__(self, number: int, tell: Tell, take_found: Callable[[], FoundEntries]) -> None:
        self._number, self._tell, self._take_found = number, tell, take_found
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
        """There is a new state."""
        with self._lock:
            self._state, self._known_at = state, time.perf_counter()
            if self._known_at - self._sent_at >= EVERY:
                self._send(state, self._take_found())

    def _repeat(self) -> None:
        while not self._is_over.wait(EVERY):
            with self._lock:
                now = time.perf_counter()
                if self._state is not None and now - self._sent_at >= EVERY:
                    self._send(replace(self._state, elapsed=self._state.elapsed + now - self._known_at), ())

    def _send(self, state: SearchState, found: FoundEntries) -> None:
        self._sent_at = time.perf_counter()
        self._tell(SearchUpdated(SearchUpdate(self._number, state, found)))


IDLE_LIMIT = 600.0  # seconds without a request, after which the process ends
CLASH_SECONDS = 10.0  # for each search that a clash needs


def serve_searches(plan: Plan, on_event: Tell, commands: "queue.SimpleQueue[WorkerCommand]", space: SearchSpace) -> int:
    """Answer requests about a space until none comes for a while; returns how many there were. `plan` is the start of the space."""
    del plan
    server = SearchServer(space, on_event, commands)
    while True:
        try:
            server.answer(commands.get(timeout=IDLE_LIMIT))
        except queue.Empty:
            return server.answered


@dataclass
class RecordingAnswerer:
    """Answers as another one does, and keeps the figures of what was planned until they are taken."""

    inner: InProcess
    _found: list[tuple[PlanCandidate, Figures]] = field(default_factory=list)

    def submit(self, question: Question) -> Wait:
        return partial(self._answer, question, self.inner.submit(question))

    def _answer(self, question: Question, wait: Wait) -> Answer | None:
        answer = wait()
        if isinstance(answer, Figures):
            self._found.append((question.candidate, answer))
        return answer

    def take_found(self) -> FoundEntries:
        """What was planned since the last call."""
        found, self._found = tuple(self._found), []
        return found

    def close(self) -> None:
        self.inner.close()


class SearchServer:
    """Searches and explains; what comes while it searches is answered between two rounds."""

    def __init__(self, space: SearchSpace, tell: Tell, commands: "queue.SimpleQueue[WorkerCommand]") -> None:
        self._space, self._tell, self._commands = space, tell, commands
        self._evaluator = Evaluator(space)
        self.answered = 0

    def answer(self, command: WorkerCommand) -> None:
        """Answer one command, and the searches that came meanwhile."""
        following: SearchRequest | None = self._answer_or_return(command)
        while following is not None:
            following = self._search(following)

    def _answer_or_return(self, command: WorkerCommand) -> SearchRequest | None:
        """A request to search is returned, any other is answered."""
        self.answered += 1
        if isinstance(command, AskSearch):
            return command.request
        if isinstance(command, AskExplanation):
            try:
                self._tell(PlanExplained(self._explain(command.request)))
            except WorkbenchError as error:
                self._tell(SearchRefused(command.request.number, error.message, error.ways_out))
        return None

    def _explain(self, request: ExplainRequest) -> PlanExplanation:
        ledger = None if request.start is None else make_ledger(self._evaluator, request.start, request.end)
        changes = list_counterfactuals(self._evaluator, request.end, request.requirements)
        return PlanExplanation(request.number, request.end, ledger, changes)

    def _search(self, request: SearchRequest) -> SearchRequest | None:
        """One search to its end, or to the next request for one, which is returned."""
        answerer = RecordingAnswerer(InProcess(self._evaluator))
        state: SearchState | None = None
        late = request.within - (within := request.seconds_left())
        try:
            with UpdateSender(request.number, self._tell, answerer.take_found) as updates:
                for searched in run_search(
                    self._space,
                    request.requirements,
                    objective=request.objective,
                    within=within,
                    answerer=answerer,
                    evaluator=self._evaluator,
                    present=request.present,
                    until=request.until,
                ):
                    state = replace(searched, elapsed=late + searched.elapsed)
                    updates.show(state)
                    if (following := self._answer_waiting()) is not None:
                        return following
        except WorkbenchError as error:
            self._tell(SearchRefused(request.number, error.message, error.ways_out))
            return None
        return None if state is None else self._finish(request, state, answerer)

    def _finish(self, request: SearchRequest, state: SearchState, answerer: RecordingAnswerer) -> SearchRequest | None:
        """The last update of a search, or the next request that came while it was asked what clashes."""
        number, clash = request.number, None
        following: SearchRequest | None = None

        def has_following() -> bool:
            nonlocal following
            following = following or self._answer_waiting()
            return following is not None

        if state.best is None:
            self._tell(SearchUpdated(SearchUpdate(number, state, answerer.take_found())))
            clash = find_clash(
                self._space,
                request.requirements,
                within=min(CLASH_SECONDS, request.seconds_left()),
                evaluator=self._evaluator,
                on_clash=lambda found: self._tell(SearchUpdated(SearchUpdate(number, state, clash=found))),
                is_cancelled=has_following,
                is_complete=state.is_complete,
            )
        if following is None:
            self._tell(SearchUpdated(SearchUpdate(number, state, answerer.take_found(), is_over=True, clash=clash)))
        return following

    def _answer_waiting(self) -> SearchRequest | None:
        """Answer what has come meanwhile, up to a request for another search, which is returned."""
        while True:
            try:
                following = self._answer_or_return(self._commands.get_nowait())
            except queue.Empty:
                return None
            if following is not None:
                return following
