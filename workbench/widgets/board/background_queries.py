"""Questions about a report that take a moment, worked out in a thread of their own: the page stays awake, and is told of each answer."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from workbench.reports.report import Report

T = TypeVar("T")

PATIENCE = 0.15  # seconds that an asker waits before it says "being worked out": most programs need less

_TOGETHER = 0.4  # seconds


class BackgroundQueries:
    """Answers by name, of one report at a time: asked about another, it forgets those of the last, and what of it still waits.

    `defer(work)` carries work from the thread onto the host's loop, where `changed()` is called for an answer that came late.
    """

    def __init__(self, defer: Callable[[Callable[[], None]], None], changed: Callable[[], None]) -> None:
        self._defer, self._changed = defer, changed
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._answers: dict[str, Any] = {}
        self._waiting: deque[tuple[Report, str, Callable[[], Any]]] = deque()
        self._answered: dict[str, threading.Event] = {}
        self._late: set[str] = set()
        self._busy = self._owed = False
        self._published = 0.0

    def ask(self, report: Report, name: str, work: Callable[[], T], patience: float = PATIENCE) -> T | None:
        """What `work` returns, or `None` while it is being worked out; raises what it raised. A new question is waited for so long."""
        with self._lock:
            self._turn_to(report)
            if name not in self._answered:
                self._answered[name] = threading.Event()
                self._waiting.append((report, name, work))
                if not self._busy:
                    self._busy = True
                    threading.Thread(target=self._work, daemon=True, name="aside").start()
            event, is_new = self._answered[name], name not in self._late
        if is_new:
            event.wait(patience)  # once: who asks again while it lasts is told so at once
        with self._lock:
            if self._report is not report or name not in self._answers:
                self._late.add(name)
                return None
            found = self._answers[name]
        if isinstance(found, Exception):
            raise found
        return found

    def answers_of(self, report: Report) -> dict[str, Any]:
        """All that is answered of a report."""
        with self._lock:
            return dict(self._answers) if self._report is report else {}

    def _turn_to(self, report: Report) -> None:
        if self._report is not report:
            self._report = report
            self._answers, self._answered, self._late = {}, {}, set()
            self._waiting.clear()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                report, name, work = self._waiting.popleft()
            try:
                found: Any = work()
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                found = error
            if self._keep(report, name, found):
                self._defer(self._changed)

    def _is_due(self) -> bool:
        """Several answers at once are shown together: the last of them, or some of them after a while."""
        if self._waiting and time.monotonic() - self._published < _TOGETHER:
            return False
        self._published = time.monotonic()
        return True

    def _keep(self, report: Report, name: str, found: Any) -> bool:
        """Whether somebody who went away without an answer is to be told now."""
        with self._lock:
            if self._report is not report:
                return False
            self._answers[name] = found
            self._answered[name].set()
            self._owed |= name in self._late
            if not self._owed or not self._is_due():
                return False
            self._owed = False
            return True


def compute_in_background(
    background: BackgroundQueries | None, report: Report, name: str, work: Callable[[], T], patience: float = PATIENCE
) -> T | None:
    """Worked out aside, or, where there is nobody to wait, at once."""
    return work() if background is None else background.ask(report, name, work, patience)
