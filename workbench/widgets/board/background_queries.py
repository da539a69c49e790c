"""Slow questions about a report, answered in a separate thread so that the page stays responsive."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from workbench.reports.report import Report

T = TypeVar("T")

PATIENCE = 0.15  # seconds that a caller waits before it shows a placeholder; most programs need less

_TOGETHER = 0.4  # seconds between two notifications


class BackgroundQueries:
    """Named answers for one report at a time; a question about another report drops the earlier ones.

    `defer(work)` moves work to the host's event loop, where `changed()` is called for each late answer.
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
        """Return the result of `work`, or `None` while it is being computed; re-raises its exception."""
        with self._lock:
            self._turn_to(report)
            if name not in self._answered:
                self._answered[name] = threading.Event()
                self._waiting.append(
                    (report, name, partial(copy_context().run, work))
                )  # in the caller's context, which has the board's colours
                if not self._busy:
                    self._busy = True
                    threading.Thread(target=self._work, daemon=True, name="aside").start()
            event, is_new = self._answered[name], name not in self._late
        if is_new:
            event.wait(patience)  # only for the first call; later ones return at once
        with self._lock:
            if self._report is not report or name not in self._answers:
                self._late.add(name)
                return None
            answer = self._answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answers_of(self, report: Report) -> dict[str, Any]:
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
                answer: Any = work()
            except Exception as error:  # noqa: BLE001 - whatever it raises goes to the caller
                answer = error
            if self._keep(report, name, answer):
                self._defer(self._changed)

    def _is_due(self) -> bool:
        if self._waiting and time.monotonic() - self._published < _TOGETHER:
            return False
        self._published = time.monotonic()
        return True

    def _keep(self, report: Report, name: str, found: Any) -> bool:
        """Store an answer, and return whether to notify a caller that left without it."""
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
    """Return the answer from the background queries, or compute it at once if there are none."""
    return work() if background is None else background.ask(report, name, work, patience)
