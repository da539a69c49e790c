"""Slow questions about a report, computed in a separate thread: the page stays responsive, and is notified of each answer."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from workbench.reports.report import Report

T = TypeVar("T")

PATIENCE = 0.15  # seconds that a caller waits before it says "being worked out": most programs need less

_TOGETHER = 0.4  # seconds


class BackgroundQueries:
    """Answers by name, for one report at a time: a question about another one drops the answers and pending questions of the last.

    `defer(work)` moves work from the thread to the host's event loop, where `changed()` is called for an answer that came late.
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
        """The result of `work`, or `None` while it is being computed; raises what it raised. It waits for a new question for a while."""
        with self._lock:
            self._turn_to(report)
            if name not in self._answered:
                self._answered[name] = threading.Event()
                self._waiting.append((report, name, partial(copy_context().run, work)))  # with the colours of the board
                if not self._busy:
                    self._busy = True
                    threading.Thread(target=self._work, daemon=True, name="aside").start()
            event, is_new = self._answered[name], name not in self._late
        if is_new:
            event.wait(patience)  # only once: a repeated call meanwhile returns at once
        with self._lock:
            if self._report is not report or name not in self._answers:
                self._late.add(name)
                return None
            found = self._answers[name]
        if isinstance(found, Exception):
            raise found
        return found

    def answers_of(self, report: Report) -> dict[str, Any]:
        """All answers about a report so far."""
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
            except Exception as error:  # noqa: BLE001 - whatever it raises goes to the caller
                found = error
            if self._keep(report, name, found):
                self._defer(self._changed)

    def _is_due(self) -> bool:
        """Whether to notify: several answers are shown together, after the last of them, or some of them after a while."""
        if self._waiting and time.monotonic() - self._published < _TOGETHER:
            return False
        self._published = time.monotonic()
        return True

    def _keep(self, report: Report, name: str, found: Any) -> bool:
        """Store an answer; whether a caller that left without it is to be notified now."""
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
    """The answer, computed in the background, or at once where there are no background queries."""
    return work() if background is None else background.ask(report, name, work, patience)
