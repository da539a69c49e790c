"""The search of one board: builds the space in a thread, searches it in a process, and follows the progress."""

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from workbench.analysis.plan_diff import change_text, list_changes
from workbench.core.program import Program
from workbench.core.public_error_text import describe_error
from workbench.errors import SearchError, WorkbenchError
from workbench.plan.edits import OpenPlan
from workbench.plan.plan import Plan
from workbench.reports.run_events import Cancelled, Failed
from workbench.search.background_verifier import BackgroundVerifier
from workbench.search.find_plans import fit_boundaries, read_requirements
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import board_plan, find_candidate, outside_decision
from workbench.search.search_messages import ExplainRequest, SearchClosed, SearchCommand, SearchEvent, SearchRequest
from workbench.search.search_space import SearchSpace
from workbench.widgets.find.board_compilers import BoardCompilers
from workbench.widgets.find.find_form import SearchTask, first_form, pin_form, read_task, relax_form
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.gestures.panel_gestures import FindGesture
from workbench.widgets.run.runner_protocol import Runner, SearchHandle
from workbench.widgets.shared_states import Defer

MOST_CHANGES = 8  # listed in a preview
_TICK = 1.0  # seconds between two updates of the elapsed time
_LATE = 0.05
"""Grace period for a search that does not end by itself, as a share of its time limit."""
START_LIMIT = 300.0  # seconds from the request to the first answer of the search process
_NOT_STARTED = "The search process gave no answer in {:,.0f} s, so the search has not begun.", ("search again", "close other programs")

_log = logging.getLogger(__name__)


class Finder:
    """Starts, stops and follows a search, and asks about its results.

    `defer(work)` moves work to the host's event loop, where `changed()` is called on news. The search process is kept
    for questions and further searches of the same space. XLA's partitioner checks the contenders meanwhile.
    """

    def __init__(self, runner: Runner | None, defer: Defer, changed: Callable[[], None]) -> None:
        self._runner, self._defer, self._changed = runner, defer, changed
        self.compilers = BoardCompilers(runner, defer, self._hear_compiler)
        self._verifier: BackgroundVerifier | None = None
        self._answered, self._over = threading.Event(), threading.Event()  # of the present search
        self.form: FindGesture | None = None
        self.progress = FindProgress()
        self._handle: SearchHandle | None = None
        self._space: SearchSpace | None = None  # the space of the running process
        self._expected: Program | None = None  # traced ahead
        self._questions = itertools.count(1_000_000)  # never the number of a search
        self._pending: deque[Callable[[], None]] = deque()

    @property
    def can_find(self) -> bool:
        return self._runner is not None

    @property
    def badge(self) -> str:
        """The tab's badge: the number of plans on the front, `…` during a search."""
        return "…" if self.progress.running else str(len(self.progress.front) or "")

    def form_for(self, plan: Plan) -> FindGesture:
        return self.form or first_form(plan)

    def expect(self, plan: Plan) -> None:
        """Start the process of a likely search and trace its programs; errors are reported with the search."""
        if self._runner is None:
            return
        with suppress(WorkbenchError):
            self._runner.expect_search(plan)
        if self._expected is not plan.program:
            self._expected = plan.program
            threading.Thread(target=_trace_ahead, args=(plan,), daemon=True, name="space").start()

    def find(self, form: FindGesture, plan: Plan) -> None:
        """Search as a form describes; invalid text and errors of the space become part of the progress."""
        if self._runner is None:
            raise SearchError("Search is not available on this board.")
        self.form = replace(form, zone="")
        self._end_verifying()
        self._over.set()
        self.progress = self.progress.begin(plan)
        try:
            task = read_task(form, plan)
        except WorkbenchError as error:
            self.progress = self.progress.fail(error.message, error.ways_out)
        else:
            self.progress = replace(self.progress, within=task.within)
            self._answered, self._over, number = threading.Event(), threading.Event(), self.progress.number
            threading.Thread(target=self._prepare, args=(number, task), daemon=True, name="space").start()
            watching = number, task.within, self._answered, self._over
            threading.Thread(target=self._watch, args=watching, daemon=True, name="search time").start()
        self._changed()

    def _watch(self, number: int, within: float, answered: threading.Event, over: threading.Event) -> None:
        """Report the seconds of the start-up, then end a search past its limit; runs in a thread."""
        begin = time.monotonic()
        while not answered.wait(_TICK):
            if over.is_set():
                return
            self._defer(lambda: self._tick(number, time.monotonic() - begin))
        if not over.wait((1 + _LATE) * within):
            self._defer(lambda: self._expire(number))

    def _tick(self, number: int, elapsed: float) -> None:
        if number != self.progress.number or self.progress.state is not None:
            return
        if not self.progress.running:
            self._over.set()
        elif elapsed < START_LIMIT:
            self.progress = replace(self.progress, elapsed=elapsed)
            self._changed()
        else:
            self._end()
            self.progress = self.progress.fail(_NOT_STARTED[0].format(elapsed), _NOT_STARTED[1])
            self._changed()

    def _expire(self, number: int) -> None:
        if number != self.progress.number or not (self.progress.running or self.progress.is_checking):
            return
        if self.progress.running:
            self._end()
        self._end_verifying()
        self.progress = self.progress.expire()
        self._changed()

    def pin(self, decision: str, plan: Plan) -> None:
        """Search again with a decision pinned to the present plan's. Raises `SearchError` outside the space."""
        present = self.present_candidate(plan)
        if present is None:
            decision = outside_decision(self.progress.space, plan) if self.progress.space else ""
            reason = f": {decision}" if decision else ""
            raise SearchError(f"The plan on the board is not in the search space{reason}.", ["search a wider space"])
        self.find(pin_form(self.form_for(plan), decision, present), plan)

    def present_candidate(self, plan: Plan) -> PlanCandidate | None:
        progress = self.progress
        if progress.space is None:
            return None
        return progress.start if plan == progress.origin else find_candidate(progress.space, plan)

    def relax(self, place: str, plan: Plan) -> None:
        """Search again with one conflicting requirement relaxed. Raises `SearchError` for an unknown one."""
        clash = self.progress.clash
        if clash is None or not place[:6].isdecimal() or int(place[:6]) >= len(clash.relaxations):
            raise SearchError("That requirement is not part of the search.", ["search again"])
        relaxation = clash.relaxations[int(place)]
        self.find(relax_form(self.form_for(plan), plan, relaxation.requirement, relaxation.weakened), plan)

    def stop(self) -> None:
        self._end()
        self._end_verifying()
        self.progress = self.progress.stop()
        self._changed()

    def close(self) -> None:
        self._end()
        self._end_verifying()
        self._over.set()

    def choose(self, number: str) -> None:
        """Choose a found plan by number, or deselect it. Raises `SearchError` for an unknown number."""
        candidate = self.candidate(number)
        self.progress = self.progress.choose(None if candidate == self.progress.chosen else candidate)

    def _open(self, number: str) -> PlanCandidate:
        candidate = self.candidate(number)
        if self.progress.chosen != candidate:
            self.progress = self.progress.choose(candidate)
        return candidate

    def candidate(self, number: str) -> PlanCandidate:
        entries = self.progress.found
        if not number[:9].isdecimal() or int(number[:9]) >= len(entries):
            raise SearchError("The search has not found that plan.", ["search again"])
        return entries[int(number)][0]

    def plan_of(self, candidate: PlanCandidate) -> Plan:
        """Return a candidate's plan without mesh axes of size 1, except the stage axis; raises `WorkbenchError`."""
        if self.progress.space is None:
            raise SearchError("The search has not found that plan.", ["search again"])
        return board_plan(self.progress.space, candidate)

    def take(self, number: str, plan: Plan) -> OpenPlan | None:
        """Return the edit that applies a found plan; `None` if present already. Raises `WorkbenchError`."""
        edit = self.edit_of(self.candidate(number))
        return None if edit.plan == plan else edit

    def edit_of(self, candidate: PlanCandidate) -> OpenPlan:
        return OpenPlan(self.plan_of(candidate), f"the plan found: {candidate}")

    def changes_of(self, candidate: PlanCandidate, plan: Plan) -> str:
        """Describe the changes from a plan to a candidate; empty if the candidate is illegal."""
        try:
            changes = [change_text(change) for change in list_changes(plan, self.plan_of(candidate))]
        except WorkbenchError:
            return ""
        rest = [f"and {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
        return f"changes: {' · '.join([*changes[:MOST_CHANGES], *rest])}" if changes else "the present plan"

    def explain(self, number: str, than: str) -> None:
        """Request the ledger of a plan from another one, by default the best, or its runner-up for the best."""
        candidate = self._open(number)
        start = self.candidate(than) if than else self._rival_of(candidate)
        question = next(self._questions)
        self.progress = self.progress.ask(question, start)
        self._ask(ExplainRequest(question, candidate, start, self.progress.requirements))

    def verify(self, number: str) -> None:
        """Verify a found plan with the compilers. Raises `WorkbenchError` if unknown or without a compiler."""
        candidate = self._open(number)
        verifier = self._open_verifier()
        verifier.ask(candidate, dict(self.progress.found)[candidate])
        self._read_verified(verifier)

    def stop_verifying(self) -> None:
        """Stop verifying the requested plan only, and keep its answers."""
        if (verifier := self._verifier) is not None:
            before = verifier.asking
            verifier.withdraw()
            if verifier.asking == before:
                self.compilers.give_up()
            self._read_verified(verifier)

    def _verify_contenders(self) -> None:
        if self.compilers.partitioner is not None and self.progress.found and self.progress.phase in ("searching", "done"):
            verifier = self._open_verifier()
            verifier.show(self.progress.contenders)
            self._read_verified(verifier)

    def _open_verifier(self) -> BackgroundVerifier:
        if self.progress.space is None:
            raise SearchError("The search has not found that plan.", ["search again"])
        if self._verifier is None:
            hear = lambda _: self._defer(lambda: self._hear_verified(verifier))  # noqa: E731
            verifier = BackgroundVerifier(self.progress.space, self.compilers.functions, hear, compiles=False, known=self.progress.verified)
            self._verifier = verifier.__enter__()
        return self._verifier

    def _hear_verified(self, verifier: BackgroundVerifier) -> None:
        if verifier is self._verifier:
            self._read_verified(verifier)
            self._changed()

    def _hear_compiler(self) -> None:
        if self._verifier is not None:
            self._read_verified(self._verifier)
        self._changed()

    def _read_verified(self, verifier: BackgroundVerifier) -> None:
        asking, is_checking = verifier.asking, not verifier.is_idle
        self.progress = replace(self.progress, verified=verifier.verified, asking=asking, is_checking=is_checking)

    def _end_verifying(self) -> None:
        verifier, self._verifier = self._verifier, None
        if verifier is not None:
            verifier.close()
            self.compilers.give_up()
        self.progress = replace(self.progress, asking=None, is_checking=False)

    def _rival_of(self, candidate: PlanCandidate) -> PlanCandidate | None:
        state = self.progress.ranked
        best = state.best[0] if state and state.best else None
        if best is not None and best != candidate:
            return best
        return next((other for other, _ in self.progress.front if other != candidate), None)

    def _prepare(self, number: int, task: SearchTask) -> None:
        try:
            space = make_space(task.plan, **task.choices)
            requirements = read_requirements(space, task.at_most, task.pins, task.objective)
            space = fit_boundaries(space, requirements)
            start = find_candidate(space, task.plan)
        except WorkbenchError as error:
            failure = Failed.of(error)
        except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
            _log.exception("The search space could not be built")
            failure = Failed(f"The workbench itself failed: {describe_error(error)}")
        else:
            request = SearchRequest(number, requirements, task.objective, task.within, start, task.until)
            self._defer(lambda: self._search(request, space))
            return
        self._defer(lambda: self._fail(number, failure))

    def _fail(self, number: int, failure: Failed) -> None:
        if number == self.progress.number and self.progress.phase == "preparing":
            self.progress = self.progress.fail(failure.message, failure.ways_out)
            self._changed()

    def _search(self, request: SearchRequest, space: SearchSpace) -> None:
        if request.number != self.progress.number or self.progress.phase != "preparing":
            return  # stopped, or superseded by another search
        self.progress = self.progress.search(space, request.requirements, request.present)
        self._ask(request)
        self._changed()

    def _ask(self, command: SearchCommand) -> None:
        space = self.progress.space
        if space is None or self._runner is None:
            return  # no search has produced anything to ask about
        if self._handle is not None and self._space != space:
            self._end()
        try:
            if self._handle is None:
                self._handle, self._space = self._start(self._runner, space), space
            self._handle.send(command)
        except WorkbenchError as error:
            self.progress = self.progress.after(Failed.of(error))

    def _start(self, runner: Runner, space: SearchSpace) -> SearchHandle:
        started: list[SearchHandle] = []

        def hear(event: SearchEvent) -> None:
            self._pending.append(lambda: self._receive(event, started))
            self._defer(self._take)

        started.append(runner.search(space, hear))
        return started[0]

    def _take(self) -> None:
        self._pending.popleft()()

    def _receive(self, event: SearchEvent, started: list[SearchHandle]) -> None:
        if not started or started[0] is not self._handle:
            return
        if isinstance(event, SearchClosed | Failed | Cancelled):
            self._handle = None
        was_running = self.progress.running
        self.progress = self.progress.after(event)
        if self.progress.state is not None:
            self._answered.set()
        if was_running:
            self._verify_contenders()
        self._changed()

    def _end(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()


def _trace_ahead(plan: Plan) -> None:
    """Trace in advance: with cached traces, building the search space takes about 10 ms."""
    with suppress(Exception):
        make_space(plan)
