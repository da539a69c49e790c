"""A runner whose runs and compilations wait in a queue."""

import logging
import threading
from collections.abc import Callable

from workbench.app.runners.job_queue import Kind, Slots, Ticket
from workbench.errors import WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.run_events import RUN_ENDINGS, Cancelled, Failed, Progress, RunEvent, RunListener, Waiting
from workbench.search.search_messages import SearchListener
from workbench.search.search_space import SearchSpace
from workbench.widgets.run.runner_protocol import RunHandle, Runner, SearchHandle

_log = logging.getLogger(__name__)


class QueuedRunner:
    """Passes jobs to `inner` on their turn in `slots`, and reports `Waiting` before."""

    def __init__(self, inner: Runner, slots: Slots) -> None:
        self._inner, self._slots = inner, slots

    def start(self, plan: Plan, steps: int, on_event: RunListener) -> "QueuedHandle":
        return QueuedHandle(self._slots, "run", lambda tell: self._inner.start(plan, steps, tell), on_event)

    def compile(self, plan: Plan, on_event: RunListener, *, behind: bool = False) -> "QueuedHandle":
        """Queue a compilation, among the runs if for attached devices: a TPU allows one process at a time."""
        kind: Kind = "compile" if plan.hardware else "run"
        return QueuedHandle(self._slots, kind, lambda tell: self._inner.compile(plan, tell, behind=behind), on_event)

    def calibrate(self, plan: Plan, on_event: RunListener) -> "QueuedHandle":
        """Queue a calibration among the runs, which would distort it."""
        return QueuedHandle(self._slots, "run", lambda tell: self._inner.calibrate(plan, tell), on_event)

    def calibrated(self, plan: Plan) -> Hardware | None:
        return self._inner.calibrated(plan)

    def expect(self, plan: Plan) -> None:
        self._inner.expect(plan)

    def refuses(self, plan: Plan) -> str:
        return self._inner.refuses(plan)

    def search(self, space: SearchSpace, on_event: SearchListener) -> SearchHandle:
        """Search without queueing: it uses one low-priority processor, and its first plans should appear at once."""
        return self._inner.search(space, on_event)

    def expect_search(self, plan: Plan) -> None:
        self._inner.expect_search(plan)


class QueuedHandle:
    """A queued job. However it ends, its slot is released and exactly one ending is reported."""

    def __init__(self, slots: Slots, kind: Kind, begin: Callable[[RunListener], RunHandle], on_event: RunListener) -> None:
        self._begin, self._on_event = begin, on_event
        self._lock = threading.Lock()
        self._waited = self._begun = self._cancelled = self._ended = False
        self._inner: RunHandle | None = None
        self._ticket: Ticket | None = None
        ticket = slots.enter(kind, self._advance_in_queue)
        with self._lock:
            self._ticket = ticket
            ended = self._ended
        if ended:  # while it joined the queue
            ticket.leave()

    def cancel(self) -> None:
        """Leave the queue, or request a stop. Does nothing if the job has ended."""
        with self._lock:
            self._cancelled, begun, inner = True, self._begun, self._inner
        if inner is not None:
            inner.cancel()
        elif not begun:
            self._hear(Cancelled())

    def _advance_in_queue(self, ahead: int) -> None:
        if ahead:
            self._waited = True
            self._hear(Waiting(ahead))
            return
        with self._lock:
            if self._cancelled or self._begun:
                return
            self._begun = True
        if self._waited:
            self._hear(Progress("starting"))
        self._start()

    def _start(self) -> None:
        """Start the job; errors become events, because its turn may come in an unrelated thread."""
        try:
            inner = self._begin(self._hear)
        except BaseException as error:
            self._hear(_failure_event(error))
            if not isinstance(error, Exception):  # an interrupt of the kernel
                raise
            return
        with self._lock:
            self._inner, cancelled = inner, self._cancelled
        if cancelled:  # while it was being started
            inner.cancel()

    def _hear(self, event: RunEvent) -> None:
        """Forward an event; a listener that raises gets no more, as the engine ends such a job silently."""
        ends = isinstance(event, RUN_ENDINGS)
        with self._lock:
            if self._ended:
                return
            self._ended = ends
        try:
            self._on_event(event)
        except BaseException:
            ends = True
            raise
        finally:
            if ends:
                self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._ended, ticket = True, self._ticket
        if ticket is not None:
            ticket.leave()


def _failure_event(error: BaseException) -> Failed:
    if isinstance(error, WorkbenchError):
        return Failed.of(error)
    _log.error("A job could not be started", exc_info=error)
    return Failed(f"The workbench itself failed: {type(error).__name__}: {error}")
