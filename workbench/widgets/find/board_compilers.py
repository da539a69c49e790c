"""The board's access to XLA's partitioner and the hardware's compiler, for a thread that waits for their answers."""

import logging
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from workbench.analysis.verify_plan import Compilers
from workbench.core.public_error_text import describe_error
from workbench.errors import EngineError, PartitionError, WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.partitioned import Partitioned
from workbench.reports.run_events import Cancelled, CompileDone, Failed, Progress, RunEvent, Waiting
from workbench.session.figure_tiers import Partitioner
from workbench.widgets.run.job_progress import stage_text, waiting_text
from workbench.widgets.run.runner_protocol import Runner
from workbench.widgets.shared_states import Defer

NO_PARTITIONER = "This board does not ask XLA's partitioner."
STOPPED = "Stopped before it answered."
T = TypeVar("T")
_log = logging.getLogger(__name__)


class BoardCompilers:
    """Answers one query at a time by the board's partitioner, or by the runner in its queue.

    `defer(work)` moves work to the host's event loop, where `changed()` is called when `stage` changes.
    """

    def __init__(self, runner: Runner | None, defer: Defer, changed: Callable[[], None]) -> None:
        self._runner, self._defer, self._changed = runner, defer, changed
        self.partitioner: Partitioner | None = None
        self.stage = ""
        self._waiting: tuple[Future[Any], Callable[[], None]] | None = None

    @property
    def functions(self) -> Compilers:
        return Compilers(self._partition, self._compile)

    def give_up(self) -> None:
        """Cancel the present query, which then raises `EngineError`."""
        if self._waiting is not None:
            answer, cancel = self._waiting
            answer.cancel()
            cancel()

    def _partition(self, plan: Plan) -> Partitioned:
        partitioner = self.partitioner
        if partitioner is None:
            raise PartitionError(NO_PARTITIONER)
        request, answer = partitioner.ask(plan, plan.hardware), Future[Partitioned]()
        request.add_done_callback(lambda done: _pass_on(done, answer))
        return self._wait(answer, lambda: partitioner.cancel(request))

    def _compile(self, plan: Plan) -> Compiled:
        if self._runner is None:
            raise EngineError("This board cannot compile.")
        answer = Future[Compiled]()
        self.stage = "starting"
        handle = self._runner.compile(plan, lambda event: self._defer(lambda: self._hear(event, answer)))
        return self._wait(answer, handle.cancel)

    def _wait(self, answer: "Future[T]", cancel: Callable[[], None]) -> T:
        self._waiting = waiting = answer, cancel
        try:
            return answer.result()
        except CancelledError:
            raise EngineError(STOPPED) from None
        except WorkbenchError:
            raise
        except Exception as error:
            _log.exception("A compiler's answer failed")
            raise EngineError(f"The workbench itself failed: {describe_error(error)}") from error
        finally:
            if self._waiting is waiting:  # a later search may wait already
                self._waiting, self.stage = None, ""

    def _hear(self, event: RunEvent, answer: "Future[Compiled]") -> None:
        if answer.done():
            return
        match event:
            case Waiting():
                self.stage = waiting_text(event.ahead)
                self._changed()
            case Progress():
                self.stage = stage_text(event.stage, event.elapsed or 0.0, waits=False)
                self._changed()
            case CompileDone(compiled=compiled):
                answer.set_result(compiled)
            case Failed():
                answer.set_exception(WorkbenchError(event.message, event.ways_out))
            case Cancelled():
                answer.cancel()


def _pass_on(done: "Future[T]", answer: "Future[T]") -> None:
    if not answer.done():
        if done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(done.result())
