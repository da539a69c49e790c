"""Compiles plans left unchanged for a moment on an idle machine; cancelled by an edit, and can be switched off."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil

from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.session.figure_tiers import Defer, Work, call_from_thread
from workbench.session.plan_history import Session
from workbench.widgets.run.board_jobs import Jobs

PAUSE = 2.0
"""Seconds without an edit before a plan is compiled automatically."""
BUSY = 0.5
"""Share of all processors' time during the pause above which the machine counts as busy."""
SETTING = "WORKBENCH_COMPILE"
"""Environment variable; `when asked` disables automatic compilation, unless a board's own switch overrides it."""

Clock = Callable[[], tuple[float, float]]


class RestingCompiler:
    """Compiles the present plan of a session `PAUSE` seconds after the last change.

    - `defer(work)` moves work to the event loop on which the session changes;
    - `call_later(seconds, work)` schedules work, from any thread; `worked()` returns the busy and idle seconds of all
      processors.
    """

    def __init__(
        self,
        session: Session,
        jobs: Jobs,
        *,
        defer: Defer,
        call_later: Callable[[float, Work], None] = call_from_thread,
        worked: Clock | None = None,
    ) -> None:
        self._session, self._jobs, self._defer = session, jobs, defer
        self._call_later, self._worked = call_later, worked or processor_seconds
        self.is_on = os.environ.get(SETTING, "").strip().lower() != "when asked"
        self._tried: Plan | None = None  # not compiled again: refused by the compiler, or cancelled by the user
        self._seen: Report | None = None
        self._at = 0  # the number of the last pause
        self._is_busy = self._is_closed = False
        self._stop_listening = session.listen(self._hear_move)
        self._hear_move(session.plan, session.report)

    def state(self) -> dict[str, Any]:
        report = self._session.report
        busy = self._is_busy and self.is_on and not report.is_compiled and not self._jobs.compiling.running
        queued = "Kernel times queued" if report.compiled is not None else "Queued"  # beside what libtpu has compiled already
        return {"on": self.is_on, "note": f"{queued}: CPU busy" if busy else ""}

    def turn(self, *, is_on: bool) -> None:
        """Switch automatic compilation on or off; switching off cancels a running one."""
        self.is_on, self._tried = is_on, None
        if not is_on:
            self._give_up()
        self._rest()

    def close(self) -> None:
        self._is_closed = True
        self._stop_listening()

    def _hear_move(self, plan: Plan, report: Report) -> None:
        if self._seen is None or self._seen.plan is not plan:  # otherwise only figures settled, or a plan was named
            self._tried, self._is_busy = None, False
            self._give_up()
            self._rest()
        self._seen = report

    def _give_up(self) -> None:
        if self._jobs.compiling.unasked:
            self._jobs.cancel_compilation()

    def _rest(self) -> None:
        self._at += 1
        if self.is_on and self._may:
            self._call_later(PAUSE, partial(self._defer, partial(self._begin, self._at, self._worked())))

    @property
    def _may(self) -> bool:
        plan = self._session.plan
        return plan.hardware is not None and plan.pipeline is None and not self._session.report.is_compiled and plan is not self._tried

    def _begin(self, at: int, before: tuple[float, float]) -> None:
        if self._is_closed or at != self._at or not self.is_on or not self._may:
            return
        if self._jobs.refuses(self._session.plan):
            return
        was_busy, self._is_busy = self._is_busy, is_busy(before, self._worked())
        if self._is_busy != was_busy:
            self._jobs.show()
        if self._is_busy or self._jobs.compiling.running or self._jobs.live.running:
            self._rest()
            return
        self._tried = self._session.plan
        self._jobs.compile(self._session.report.prediction, unasked=True)


def processor_seconds() -> tuple[float, float]:
    """Return the busy and idle seconds of all processors since boot; waiting for a disk counts as idle."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    return sum(times) - idle, idle


def is_busy(before: tuple[float, float], now: tuple[float, float]) -> bool:
    """Whether the processors were busy for more than `BUSY` of the time between two readings."""
    worked, idle = now[0] - before[0], now[1] - before[1]
    return worked > BUSY * (worked + idle)
