"""The board in a notebook cell."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from workbench.app.notebook.board_snapshot import snapshot_html
from workbench.app.notebook.cell_base import BoardCell
from workbench.app.notebook.kept_edits import can_continue, code_with_plan, continue_edits, kept_record
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
"""Seconds after an edit until the picture of the board is stored again."""
_QUEUE = JobQueue()  # of all boards of this kernel


def loop_defer(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
    """Moves work from any thread to an event loop; drops it once that has ended."""

    def defer(work: Callable[[], None]) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(work)

    return defer


def _first_plan(plan: Plan | None, exercise: Exercise | None, question: str) -> Plan:
    """The plan that is given, else the one that the question starts from, or the first one. Raises `WorkbenchError` where there is none."""
    if plan is not None:
        return as_public(plan)
    if exercise is None:
        raise WorkbenchError("A board needs a plan.", ["pass a plan", "pass an exercise"])
    asked = exercise[question] if question else None
    return asked.plan if isinstance(asked, PlanQuestion) else exercise.first_plan


class Workbench(BoardCell):
    """The board over a plan, or over a session that other code edits as well.

        bench = wb.Workbench(plan)
        bench                # drag dimensions onto mesh axes
        bench.plan           # the plan as it is now
        bench.measurement    # of the last run
        bench.compiled       # of the last compilation

    `runner` runs and compiles plans; by default the engine does, in worker processes: one run at a time for all boards of this kernel.
    Without a kernel, a static picture is shown. With an `exercise` its questions are above the board, beginning with the `question` that
    is named, and the plan may be left out: it is then the one that the question starts from. `theme` is `auto`, `light` or `dark`; `tour`
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
        """Close the board; this also cancels a run."""
        if hasattr(self, "_board"):
            self._stop_keeping()
            if self._picture_due is not None:
                self._picture_due.cancel()
            self._board.close()
            kernel_plans.boards.discard(self)
        super().close()

    def _begin_settling(self) -> None:
        """Begin to settle the figures once the board is shown, on the kernel's event loop: after the running cell, and earlier gestures. A
        view of a board that was edited is told so: it may be of a notebook that was closed meanwhile."""
        if (record := kept_record(self.session, self._start)) is not None:
            self.send({"kept": {"record": record}})
        with suppress(RuntimeError):  # no event loop: the board was made outside of a notebook
            defer = loop_defer(asyncio.get_running_loop())
            self._board.begin_settling(EnginePartitioner(), defer)
            self._board.begin_compiling(defer)

    def _keep(self) -> None:
        """Send the edits to the page at once, for the notebook to store; the picture takes longer, and waits until they rest."""
        if not self._watched or self.session.node.number == self._kept:
            return  # nobody sees it, or only figures have changed: what the notebook has stored stands
        self._kept = self.session.node.number
        self.send({"kept": {"record": kept_record(self.session, self._start)}})
        if self._picture_due is not None:
            self._picture_due.cancel()
        with suppress(RuntimeError):  # no event loop: nobody looks at the board
            self._picture_due = asyncio.get_running_loop().call_later(PICTURE_DELAY, self._keep_picture)

    def _keep_picture(self) -> None:
        self.picture = self._picture()
        self.send({"kept": {"record": kept_record(self.session, self._start), "picture": self.picture, "text": repr(self)}})

    def _answer_cell(self, content: dict[str, Any]) -> None:
        """The cell of the board asks whether stored edits continue its plan, to make them, or for its code with the present plan."""
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
        """In the build of a documentation site, where no kernel will answer, a recording; else the board."""
        moves = recorded_moves()
        if not moves:
            return super()._repr_mimebundle_(**kwargs)
        recording = record_board(self.plan, moves, *self._asked)
        return {"text/html": recorded_element(recording, ["run this cell in a notebook"]), "text/plain": repr(self)}, {}

    def _picture(self) -> str:
        return snapshot_html(self.board, self._board.whole_table())

    def __repr__(self) -> str:
        return f"Workbench({self.session.plan})"
