"""The search of one board: it makes the space in a thread, has a process search it, and follows that."""

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
from workbench.search.present_plan import find_candidate, opened_plan
from workbench.search.search_messages import (
    AskExplanation,
    AskSearch,
    ExplainRequest,
    SearchClosed,
    SearchEvent,
    SearchRequest,
)
from workbench.search.search_space import SearchSpace
from workbench.widgets.find.board_compilers import BoardCompilers
from workbench.widgets.find.find_form import SearchTask, first_form, pin_form, read_task, relax_form
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.gestures.panel_gestures import FindGesture
from workbench.widgets.run.runner_protocol import Runner, SearchHandle
from workbench.widgets.shared_states import Defer

MOST_CHANGES = 8  # under the pointer
_TICK = 1.0  # seconds between two looks at the time of a search
_LATE = 0.05
"""A search that does not end by itself is ended so much later, as a share of its time."""

_log = logging.getLogger(__name__)


class Finder:
    """Starts, stops and follows a search, and asks about what it found.

    `defer(work)` moves work from threads to the host's event loop; `changed()` is called there when there is something new to show. The
    process stays for questions and for another search of the same space, and is started again where it has ended. Meanwhile XLA's
    partitioner is asked about the plans that are ahead, and about those that the user wants to know more of the compiler, too.
    """

    def __init__(self, runner: Runner | None, defer: Defer, changed: Callable[[], None]) -> None:
        self._runner, self._defer, self._changed = runner, defer, changed
        self.compilers = BoardCompilers(runner, defer, self._hear_compiler)
        self._verifier: BackgroundVerifier | None = None
        self._over = threading.Event()  # of the present search
        self.form: FindGesture | None = None
        self.progress = FindProgress()
        self._handle: SearchHandle | None = None
        self._space: SearchSpace | None = None  # that of the process
        self._expected: Program | None = None  # traced ahead
        self._questions = itertools.count(1_000_000)  # never the number of a search
        self._pending: deque[Callable[[], None]] = deque()

    @property
    def can_find(self) -> bool:
        return self._runner is not None

    @property
    def badge(self) -> str:
        """What the tab carries: how many plans are on the front, `…` while a search is under way."""
        return "…" if self.progress.running else str(len(self.progress.front) or "")

    def form_for(self, plan: Plan) -> FindGesture:
        """The form as it was last sent, or the first one for a plan."""
        return self.form or first_form(plan)

    def expect(self, plan: Plan) -> None:
        """A search is likely: start its process, and trace the program with each remat meanwhile. Errors are reported with the search."""
        if self._runner is None or self._handle is not None:
            return
        with suppress(WorkbenchError):
            self._runner.expect_search(plan)
        if self._expected is not plan.program:
            self._expected = plan.program
            threading.Thread(target=_trace_ahead, args=(plan,), daemon=True, name="space").start()

    def find(self, form: FindGesture, plan: Plan) -> None:
        """Search as a form says; what was mistyped, or what the space refuses, becomes part of the progress."""
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
            self._over, number, begin = threading.Event(), self.progress.number, time.time()
            threading.Thread(target=self._prepare, args=(number, task, begin), daemon=True, name="space").start()
            threading.Thread(target=self._watch, args=(number, task, begin, self._over), daemon=True, name="search time").start()
        self._changed()

    def _watch(self, number: int, task: SearchTask, begin: float, over: threading.Event) -> None:
        """In a thread: say how much time has passed until there is more to say, and end what does not end by itself in time."""
        while (left := begin + (1 + _LATE) * task.within - time.time()) > 0:
            if over.wait(min(left, _TICK)):
                return
            self._defer(lambda: self._tick(number, time.time() - begin))
        self._defer(lambda: self._expire(number, task.objective))

    def _tick(self, number: int, elapsed: float) -> None:
        if number == self.progress.number and self.progress.running and self.progress.state is None:
            self.progress = replace(self.progress, elapsed=elapsed)
            self._changed()

    def _expire(self, number: int, objective: str) -> None:
        if number != self.progress.number or not (self.progress.running or self.progress.is_checking):
            return
        if self.progress.running:
            self._end()
        self._end_verifying()
        self.progress = self.progress.expire(objective)
        self._changed()

    def pin(self, decision: str, plan: Plan) -> None:
        """Search again with a decision fixed as the present plan has it. Raises `SearchError` where the plan lies outside the space."""
        present = self.present_candidate(plan)
        if present is None:
            raise SearchError("The plan on the board is not in the search space.", ["search a wider space"])
        self.find(pin_form(self.form_for(plan), decision, present), plan)

    def present_candidate(self, plan: Plan) -> PlanCandidate | None:
        """The candidate that the present plan is, if it is one."""
        progress = self.progress
        if progress.space is None:
            return None
        return progress.start if plan == progress.origin else find_candidate(progress.space, plan)

    def relax(self, place: str, plan: Plan) -> None:
        """Search again with the requirement of that place in the clash relaxed. Raises `SearchError` where there is none."""
        clash = self.progress.clash
        if clash is None or not place[:6].isdecimal() or int(place[:6]) >= len(clash.relaxations):
            raise SearchError("That requirement is not part of the search.", ["search again"])
        each = clash.relaxations[int(place)]
        self.find(relax_form(self.form_for(plan), plan, each.requirement, each.weakened), plan)

    def stop(self) -> None:
        """End the search at once; what it found stays."""
        self._end()
        self._end_verifying()
        self.progress = self.progress.stop()
        self._changed()

    def close(self) -> None:
        """Nobody watches any more."""
        self._end()
        self._end_verifying()
        self._over.set()

    def choose(self, number: str) -> None:
        """Choose a plan found by its number; the chosen one again for none. Raises `SearchError` where there is none."""
        candidate = self.candidate(number)
        self.progress = self.progress.choose(None if candidate == self.progress.chosen else candidate)

    def candidate(self, number: str) -> PlanCandidate:
        """A plan found, by its number. Raises `SearchError` where there is none."""
        found = self.progress.found
        if not number[:9].isdecimal() or int(number[:9]) >= len(found):
            raise SearchError("That plan is not among those found.", ["search again"])
        return found[int(number)][0]

    def plan_of(self, candidate: PlanCandidate) -> Plan:
        """The plan of a candidate, without mesh axes of one device, but for the stages' of a pipeline, which may be one stage. Raises
        `WorkbenchError` where it is illegal."""
        if self.progress.space is None:
            raise SearchError("That plan is not among those found.", ["search again"])
        return opened_plan(self.progress.space, candidate)

    def take(self, number: str, plan: Plan) -> OpenPlan | None:
        """The edit that makes a plan found the present plan, by its number; `None` where it is that already. Raises `WorkbenchError` where
        there is none, or where it is illegal."""
        edit = self.edit_of(self.candidate(number))
        return None if edit.plan == plan else edit

    def edit_of(self, candidate: PlanCandidate) -> OpenPlan:
        """The edit that makes a candidate the present plan."""
        return OpenPlan(self.plan_of(candidate), f"the plan found: {candidate}")

    def changes_of(self, candidate: PlanCandidate, plan: Plan) -> str:
        """What a candidate changes of a plan; empty where it is no plan."""
        try:
            changes = [change_text(each) for each in list_changes(plan, self.plan_of(candidate))]
        except WorkbenchError:
            return ""
        rest = [f"and {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
        return f"changes: {' · '.join([*changes[:MOST_CHANGES], *rest])}" if changes else "the present plan"

    def explain(self, number: str, than: str) -> None:
        """Ask why a plan stands where it stands: from another one, else from the best, or for that from its runner-up."""
        candidate = self.candidate(number)
        if self.progress.chosen != candidate:
            self.progress = self.progress.choose(candidate)
        start = self.candidate(than) if than else self._rival_of(candidate)
        question = next(self._questions)
        self.progress = self.progress.ask(question, start)
        request = ExplainRequest(question, candidate, start, self.progress.requirements)
        self._ask(AskExplanation(request))

    def verify(self, number: str) -> None:
        """Ask the compilers about a plan found, by its number. Raises `WorkbenchError` where there is none, or where nothing compiles."""
        candidate = self.candidate(number)
        if self.progress.chosen != candidate:
            self.progress = self.progress.choose(candidate)
        verifier = self._open_verifier()
        verifier.ask(candidate, dict(self.progress.found)[candidate])
        self._read_verified(verifier)

    def stop_verifying(self) -> None:
        """Stop asking the compilers about the plan that was asked for, and no other; what they answered stays."""
        if (verifier := self._verifier) is not None:
            asked = verifier.asking
            verifier.withdraw()
            if verifier.asking == asked:
                self.compilers.give_up()
            self._read_verified(verifier)

    def _verify_contenders(self) -> None:
        """Ask XLA's partitioner about the plans that are ahead, where the board has one."""
        if self.compilers.partitioner is not None and self.progress.found and self.progress.phase in ("searching", "done"):
            verifier = self._open_verifier()
            verifier.show(self.progress.contenders)
            self._read_verified(verifier)

    def _open_verifier(self) -> BackgroundVerifier:
        if self.progress.space is None:
            raise SearchError("That plan is not among those found.", ["search again"])
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
        """The compiler has gone on: which tier is awaited may have changed, too."""
        if self._verifier is not None:
            self._read_verified(self._verifier)
        self._changed()

    def _read_verified(self, verifier: BackgroundVerifier) -> None:
        """What it says now becomes part of the progress."""
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
        return next((each for each, _ in self.progress.front if each != candidate), None)

    def _prepare(self, number: int, task: SearchTask, begin: float) -> None:
        """In a thread: trace what the space needs, and read what a plan must keep to."""
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
            request = SearchRequest(number, requirements, task.objective, task.within, start, task.until, begin)
            self._defer(lambda: self._search(request, space))
            return
        self._defer(lambda: self._fail(number, failure))

    def _fail(self, number: int, failure: Failed) -> None:
        if number == self.progress.number and self.progress.phase == "preparing":
            self.progress = self.progress.fail(failure.message, failure.ways_out)
            self._changed()

    def _search(self, request: SearchRequest, space: SearchSpace) -> None:
        if request.number != self.progress.number or self.progress.phase != "preparing":
            return  # stopped, or another one has begun
        self.progress = self.progress.search(space, request.requirements, request.present)
        self._ask(AskSearch(request))
        self._changed()

    def _ask(self, command: AskSearch | AskExplanation) -> None:
        """Ask the process of this space; start one where there is none."""
        space = self.progress.space
        if space is None or self._runner is None:
            return  # nothing was found that could be asked about
        if self._handle is not None and self._space != space:
            self._end()
        try:
            if self._handle is None:
                self._handle, self._space = self._start(self._runner, space), space
            self._handle.send(command)
        except WorkbenchError as error:
            self.progress = self.progress.after(Failed.of(error))

    def _start(self, runner: Runner, space: SearchSpace) -> SearchHandle:
        """A process; events of one that was ended are dropped."""
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
        if was_running:
            self._verify_contenders()
        self._changed()

    def _end(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()


def _trace_ahead(plan: Plan) -> None:
    """Traces are remembered by the program: the space of a search is then made in a hundredth of a second."""
    with suppress(Exception):
        make_space(plan)
