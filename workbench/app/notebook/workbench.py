"""The board in a notebook cell."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from workbench.app.notebook.cell import BoardCell
from workbench.app.notebook.snapshot import snapshot_html
from workbench.app.runners.job_queue import JobQueue
from workbench.app.runners.partitioner import EnginePartitioner
from workbench.app.runners.queued_runner import QueuedRunner
from workbench.app.runners.worker_runner import WorkerRunner
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.session import live_plans
from workbench.session.session import Session
from workbench.widgets.board.board import Board
from workbench.widgets.board.host import notebook_host
from workbench.widgets.run.runner import Runner

_QUEUE = JobQueue()  # of all boards of this kernel


def loop_defer(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
    """Carries work from any thread onto a loop; nowhere once that has ended."""

    def defer(work: Callable[[], None]) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(work)

    return defer


class Workbench(BoardCell):
    """The board over a plan, or over a session that other code edits as well.

        bench = wb.Workbench(plan)
        bench                # drag dimensions onto mesh axes
        bench.plan           # the plan as it is now
        bench.measurement    # of the last run
        bench.compiled       # of the last compilation

    `runner` runs and compiles plans; by default the engine does, in worker processes: one run at a time of all this kernel's boards.
    Where no kernel is, a static picture stays. `theme` is `auto`, `light` or `dark`; `tour` shows a first visitor around.
    """

    def __init__(self, plan: Plan | Session, runner: Runner | None = None, theme: str = "auto", tour: bool = False) -> None:
        super().__init__(theme, tour=tour, when_shown=self._begin_settling)
        self.session = plan if isinstance(plan, Session) else Session(plan)
        self._board = Board(self.session, self._show, runner=runner or QueuedRunner(WorkerRunner(), _QUEUE), host=notebook_host())
        live_plans.boards.add(self)
        self.observe(lambda change: self._board.answer(change["new"]), "gesture")

    @property
    def plan(self) -> Plan:
        return self.session.plan

    @property
    def report(self) -> Report:
        return self.session.report

    @property
    def measurement(self) -> Measurement | None:
        """What the last finished run measured."""
        return self._board.measurement

    @property
    def compiled(self) -> Compiled | None:
        """What the last finished compilation found."""
        return self._board.compiled

    def close(self) -> None:
        """Also stops the run, if there is one."""
        if hasattr(self, "_board"):
            self._board.close()
            live_plans.boards.discard(self)
        super().close()

    def _begin_settling(self) -> None:
        """A board that is seen settles, on the loop of the kernel: behind the cell that runs, and the gestures that came before."""
        with suppress(RuntimeError):  # no loop: whoever asked for the board is not a notebook
            defer = loop_defer(asyncio.get_running_loop())
            self._board.begin_settling(EnginePartitioner(), defer)
            self._board.begin_compiling(defer)

    def _picture(self) -> str:
        return snapshot_html(self.board, self.table)

    def __repr__(self) -> str:
        return f"Workbench({self.session.plan})"
