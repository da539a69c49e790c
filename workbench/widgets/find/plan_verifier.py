"""Asks the compilers about a plan found, in the background: XLA's partitioner first, then the compiler of its hardware."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from workbench.analysis.analyze import analyze
from workbench.analysis.verify_plan import figures_of_compiled, figures_of_partitioned, partitioned_report, refused, why_planned
from workbench.core.public_error_text import describe_error
from workbench.errors import SearchError, WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Report
from workbench.reports.run_events import Cancelled, CompileDone, Failed, Progress, RunEvent, Waiting
from workbench.reports.verified_plan import TierFigures, VerifiedPlan
from workbench.search.plan_candidate import PlanCandidate
from workbench.session.figure_tiers import Partitioner
from workbench.widgets.find.verification import PENDING, STOPPED, Verification
from workbench.widgets.run.runner_protocol import RunHandle, Runner
from workbench.widgets.shared_states import Defer

NO_PARTITIONER = "This board does not ask XLA's partitioner."

_log = logging.getLogger(__name__)


class PlanVerifier:
    """Asks about one plan at a time; the `progress` has all that was answered in this search.

    The partitioner is the one that settles the board's figures, once the board has one; compilations are the runner's, in its queue.
    Reports are made in a thread. `defer(work)` moves work from threads to the host's event loop; `changed()` is called there when there is
    something new to show.
    """

    def __init__(self, runner: Runner | None, defer: Defer, changed: Callable[[], None]) -> None:
        self._runner, self._defer, self._changed = runner, defer, changed
        self.partitioner: Partitioner | None = None
        self.progress = Verification()
        self._number = 0  # of the last plan asked about: answers about another are dropped
        self._question: Future[Partitioned] | None = None
        self._compilation: RunHandle | None = None
        self._pending: deque[Callable[[], None]] = deque()

    def ask(self, candidate: PlanCandidate, plan: Plan, planned: TierFigures) -> None:
        """Ask about a candidate's plan; what is under way about another one is stopped. Raises `SearchError` where nothing compiles."""
        if self._runner is None:
            raise SearchError("This board cannot compile.")
        self.stop()
        self.progress = self.progress.begin(candidate, VerifiedPlan(plan, str(candidate), planned, PENDING, PENDING))
        reason = why_planned(plan) or ("" if self.partitioner else NO_PARTITIONER)
        if reason or self.partitioner is None:
            self._compile(plan, TierFigures(reason=reason), None)
            return
        try:
            self._question = question = self.partitioner.ask(plan, plan.hardware)
        except Exception as error:  # noqa: BLE001 - whatever fails, the compiler can be asked
            self._compile(plan, _refused(error), None)
            return
        self._follow(question, plan)

    def stop(self) -> None:
        """Ask no more; what was answered stays."""
        self._number += 1
        question, self._question = self._question, None
        if question is not None and self.partitioner is not None and not question.done():
            self.partitioner.cancel(question)
        compilation, self._compilation = self._compilation, None
        if compilation is not None:
            compilation.cancel()
        self.progress = self.progress.stop()

    def forget(self) -> None:
        """Another search begins."""
        self.stop()
        self.progress = Verification()

    def _follow(self, question: "Future[Partitioned]", plan: Plan) -> None:
        hear = self._listener()
        question.add_done_callback(lambda done: hear(lambda: self._in_thread(lambda: self._read_answer(done, plan))))

    def _read_answer(self, answer: "Future[Partitioned]", plan: Plan) -> Callable[[], None]:
        """In a thread: the figures of the partitioner's answer; what is to be done then."""
        try:
            report = partitioned_report(plan, answer.result())
            figures = figures_of_partitioned(report)
        except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
            found = _refused(error)
            return lambda: self._compile(plan, found, None)
        return lambda: self._compile(plan, figures, report)

    def _compile(self, plan: Plan, partitioned: TierFigures, report: Report | None) -> None:
        self._question = None
        self.progress = self.progress.compile(partitioned)
        hear = self._listener()
        assert self._runner is not None, "asked of a board that compiles"
        try:
            self._compilation = self._runner.compile(plan, lambda event: hear(lambda: self._receive(event, plan, report)))
        except WorkbenchError as error:
            self._finish(refused(error))
        self._changed()

    def _receive(self, event: RunEvent, plan: Plan, report: Report | None) -> None:
        match event:
            case Waiting() | Progress():
                self.progress = self.progress.after(event)
                self._changed()
            case CompileDone(compiled=compiled):
                self._compilation = None
                self._in_thread(lambda: self._read_compiled(compiled, plan, report))
            case Failed():
                self._finish(TierFigures(reason=event.message, ways_out=event.ways_out))
            case Cancelled():
                self._finish(TierFigures(reason=STOPPED))

    def _read_compiled(self, compiled: Compiled, plan: Plan, report: Report | None) -> Callable[[], None]:
        """In a thread: the figures of what was compiled; what is to be done then."""
        try:
            figures = figures_of_compiled(report or analyze(plan), compiled)
        except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
            figures = _refused(error)
        return lambda: self._finish(figures)

    def _finish(self, compiled: TierFigures) -> None:
        self._compilation = None
        self.progress = self.progress.finish(compiled)
        self._changed()

    def _in_thread(self, work: Callable[[], Callable[[], None]]) -> None:
        """Work that would keep the event loop busy, and then, there, what it returns."""
        hear = self._listener()
        threading.Thread(target=lambda: hear(work()), daemon=True, name="verify").start()

    def _listener(self) -> Callable[[Callable[[], None]], None]:
        """Moves work to the event loop, in order, and drops it if another plan was asked about meanwhile."""
        number = self._number

        def hear(work: Callable[[], None]) -> None:
            self._pending.append(lambda: work() if number == self._number else None)
            self._defer(self._take)

        return hear

    def _take(self) -> None:
        self._pending.popleft()()


def _refused(error: Exception) -> TierFigures:
    if isinstance(error, WorkbenchError):
        return refused(error)
    _log.error("A plan could not be verified", exc_info=error)
    return TierFigures(reason=f"The workbench itself failed: {describe_error(error)}")
