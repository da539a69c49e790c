"""The board in a notebook cell."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from workbench.app.notebook.board_snapshot import snapshot_html
from workbench.app.notebook.cell_base import BoardCell
from workbench.app.notebook.kept_edits import can_continue, code_with_plan, continue_edits, edits_record
from workbench.app.runners.job_queue import JobQueue
from workbench.app.runners.queued_runner import QueuedRunner
from workbench.app.runners.worker_runner import EnginePartitioner, WorkerRunner
from workbench.errors import WorkbenchError
from workbench.exercises import Exercise, PlanQuestion
from workbench.plan.plan import Plan
from workbench.public_plan import Plan as PublicPlan
from workbench.public_plan import as_public
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.session import kernel_plans
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.board.board_host import notebook_host
from workbench.widgets.recorded.record_board import record_board, recorded_element, recorded_moves
from workbench.widgets.run.runner_protocol import Runner

PICTURE_DELAY = 0.5
"""Seconds without an edit before the stored picture of the board is updated."""
_QUEUE = JobQueue()  # of all boards of this kernel


def loop_defer(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
    """Return a function that moves work from any thread to an event loop, and drops it once the loop has closed."""

    def defer(work: Callable[[], None]) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(work)

    return defer


def _first_plan(plan: Plan | None, exercise: Exercise | None, question: str) -> Plan:
    if plan is not None:
        return as_public(plan)
    if exercise is None:
        raise WorkbenchError("A board needs a plan.", ["pass a plan", "pass an exercise"])
    chosen = exercise[question] if question else None
    return chosen.plan if isinstance(chosen, PlanQuestion) else exercise.first_plan


class Workbench(BoardCell):
    """The board over a plan, or over a session that other code edits as well.

        bench = wb.Workbench(plan)
        bench                # drag dimensions onto mesh axes
        bench.plan           # the present plan
        bench.measurement    # of the last run
        bench.compiled       # of the last compilation

    `runner` runs and compiles plans, by default in worker processes, one run at a time for all boards of this kernel.
    Without a kernel a static picture is shown. An `exercise` shows its questions above the board, starting with
    `question`; without a plan the board shows the question's start plan. `theme` is `auto`, `light` or `dark`; `tour`
    shows a first visitor around.
    """

    def __init__(
        self,
        plan: Plan | Session | None = None,
        runner: Runner | None = None,
        theme: str = "auto",
        tour: bool = False,
        exercise: Exercise | None = None,
        question: str = "",
    ) -> None:
        super().__init__(theme, tour=tour, when_shown=self._begin_settling)
        self.session = plan if isinstance(plan, Session) else Session(_first_plan(plan, exercise, question))
        self._asked = exercise, question
        runner = runner or QueuedRunner(WorkerRunner(), _QUEUE)
        self._board = Board(self.session, self._show, runner=runner, host=notebook_host(exercise, question))
        kernel_plans.boards.add(self)
        self._start = self._kept = self.session.node.number
        self._written = self.session.plan
        self._picture_due: asyncio.TimerHandle | None = None
        self._stop_keeping = self.session.listen(lambda _plan, _report: self._keep())
        self.observe(lambda change: self._board.answer(change["new"]), "gesture")

    @property
    def plan(self) -> PublicPlan:
        return as_public(self.session.plan)

    @property
    def report(self) -> Report:
        return self.session.report

    @property
    def measurement(self) -> Measurement | None:
        """The measurement of the last finished run."""
        return self._board.measurement

    @property
    def compiled(self) -> Compiled | None:
        """The result of the last finished compilation."""
        return self._board.compiled

    def close(self) -> None:
        """Close the board and cancel its run."""
        if hasattr(self, "_board"):
            self._stop_keeping()
            if self._picture_due is not None:
                self._picture_due.cancel()
            self._board.close()
            kernel_plans.boards.discard(self)
        super().close()

    def _begin_settling(self) -> None:
        """Start settling once the board is shown, and send stored edits to a new view."""
        if (record := edits_record(self.session, self._start)) is not None:
            self.send({"kept": {"record": record}})
        with suppress(RuntimeError):  # no event loop: the board was made outside of a notebook
            defer = loop_defer(asyncio.get_running_loop())
            self._board.begin_settling(EnginePartitioner(), defer)
            self._board.begin_compiling(defer)

    def _keep(self) -> None:
        """Send edits to the page to be stored in the notebook; the slower picture follows after a pause."""
        if not self._watched or self.session.node.number == self._kept:
            return  # not shown, or only figures have changed: the stored record is current
        self._kept = self.session.node.number
        self.send({"kept": {"record": edits_record(self.session, self._start)}})
        if self._picture_due is not None:
            self._picture_due.cancel()
        with suppress(RuntimeError):  # no event loop: the board is not shown
            self._picture_due = asyncio.get_running_loop().call_later(PICTURE_DELAY, self._keep_picture)

    def _keep_picture(self) -> None:
        self.picture = self._picture()
        self.send({"kept": {"record": edits_record(self.session, self._start), "picture": self.picture, "text": repr(self)}})

    def _answer_cell(self, content: dict[str, Any]) -> None:
        record = content.get("record")
        try:
            if content.get("want") == "offer" and can_continue(self.session, self._start, record):
                self.send({"offer": record})
            elif content.get("want") == "continue" and record and can_continue(self.session, self._start, record):
                continue_edits(self.session, record)
            elif content.get("want") == "code":
                code = code_with_plan(str(content.get("source", "")), self._written, self.session.plan)
                self._written = self.session.plan
                self.send({"code": code})
        except WorkbenchError as error:
            self.send({"problem": str(error)})

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return a recording in a documentation build, where no kernel will answer, else the board."""
        moves = recorded_moves()
        if not moves:
            return super()._repr_mimebundle_(**kwargs)
        recording = record_board(self.plan, moves, *self._asked)
        return {"text/html": recorded_element(recording, ["run this cell in a notebook"]), "text/plain": repr(self)}, {}

    def _picture(self) -> str:
        return snapshot_html(self.board, self._board.whole_table())

    def __repr__(self) -> str:
        return f"Workbench({self.session.plan})"
