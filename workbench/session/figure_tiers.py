"""Upgrade a session's planned figures to the results of XLA's partitioner once available.

Independent of user interface and engine: the partitioner's client and the event loop are passed in.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from workbench.analysis.analyze import analyze
from workbench.analysis.verify_plan import why_planned
from workbench.core.public_error_text import describe_error
from workbench.errors import PartitionError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.partitioned import MOST_QUESTION_SECONDS, Partitioned
from workbench.reports.report import Report
from workbench.session.plan_history import Session

Work = Callable[[], None]
Defer = Callable[[Work], None]

ASK_DELAY, ANALYZE_DELAY = 0.05, 0.35
"""Seconds that a plan must be unchanged before it is requested, and before it is analyzed again, so that quick edits and walks through
the history only process the last plan, and do not delay the next drop."""


class Partitioner(Protocol):
    """A client of XLA's partitioner."""

    def ask(self, plan: Plan, hardware: Hardware | None) -> Future[Partitioned]:
        """Partition a plan for this hardware; the future raises `PartitionError`."""
        ...

    def cancel(self, answer: Future[Partitioned]) -> None: ...


@dataclass(frozen=True, slots=True)
class SettlingState:
    """The `tier` of the current figures, and whether a pending result will replace them, or the `reason` why none will."""

    tier: str
    is_settling: bool = False
    reason: str = ""


class _Subject(NamedTuple):
    """The subject of a request: a plan's number in the history, and the hardware."""

    number: int
    hardware: Hardware | None


@dataclass(frozen=True, slots=True)
class _PendingQuestion:
    subject: _Subject
    answer: Future[Partitioned]
    begun: float


def call_from_thread(seconds: float, work: Work) -> None:
    """Call `work` after `seconds` from a daemon thread."""
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()


class Settler:
    """Requests XLA's partitioning of a session's present plan after every change, and replaces the planned figures.

    One request runs at a time, and only the latest plan waits. Results for plans that are no longer present are kept
    for undo. A rejected plan keeps its planned figures, with the reason in `settling_state`.

    - `defer(work)` schedules work on the event loop that changes the session;
    - `is_idle()`: false while a gesture is waiting or expected, which takes precedence;
    - `on_change()` is called there when `settling_state` changes but the session does not;
    - `call_later(seconds, work)` runs a timer; callable from any thread.
    """

    def __init__(
        self,
        session: Session,
        partitioner: Partitioner,
        *,
        defer: Defer,
        is_idle: Callable[[], bool] = lambda: True,
        on_change: Work = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        call_later: Callable[[float, Work], None] = call_from_thread,
    ) -> None:
        self._session, self._partitioner = session, partitioner
        self._defer, self._is_idle, self._on_change, self._clock, self._call_later = defer, is_idle, on_change, clock, call_later
        self._question: _PendingQuestion | None = None
        self._timed_question: _PendingQuestion | None = None  # rechecked by a timer
        self._given_up_question: _PendingQuestion | None = None
        self._failure: tuple[_Subject, str] | None = None
        self._is_closed = False
        self._last_report: Report | None = None
        self._moved_at = 0.0
        self._stop_listening = session.listen(self._on_move)
        self._on_move(session.plan, session.report)

    @property
    def settling_state(self) -> SettlingState:
        report = self._session.report
        if report.partitioned is not None:
            return SettlingState(report.tier)
        reason = self._reason()
        return SettlingState(report.tier, is_settling=not reason, reason=reason)

    def close(self) -> None:
        self._is_closed = True
        self._stop_listening()
        if self._question is not None:
            self._partitioner.cancel(self._question.answer)

    def _reason(self) -> str:
        if reason := why_planned(self._session.plan):
            return reason
        return self._failure[1] if self._failure and self._failure[0] == self._subject() else ""

    def _subject(self) -> _Subject:
        return _Subject(self._session.node.number, self._session.hardware_of(self._session.plan))

    def _on_move(self, _plan: Plan, report: Report) -> None:
        if report is not self._last_report:  # otherwise a plan was only named or pinned
            self._last_report, self._failure, self._moved_at = report, None, self._clock()
            if self.settling_state.is_settling:
                self._call_later(ASK_DELAY, partial(self._defer, partial(self._ask_about, report)))

    def _ask_about(self, report: Report) -> None:
        if report is self._last_report:
            self._ask_if_needed()

    def _ask_if_needed(self) -> None:
        """Request the present plan unless its result is known or pending; cancel a pending request about another plan."""
        if self._is_closed or not self.settling_state.is_settling:
            return
        subject, pending = self._subject(), self._question
        if pending is None:
            self._begin_question(subject)
        elif pending.subject != subject and pending.answer.done():  # its result was deferred by gestures
            self._on_answer(pending)
        elif pending.subject != subject:
            self._cancel_if_superseded(pending)

    def _begin_question(self, subject: _Subject) -> None:
        try:
            answer = self._partitioner.ask(self._session.plan, subject.hardware)
        except Exception as error:  # noqa: BLE001 - whatever fails, the planned figures stand
            self._record_failure(subject, error)
            return
        self._question = question = _PendingQuestion(subject, answer, self._clock())
        answer.add_done_callback(lambda _: self._defer(partial(self._on_answer, question)))

    def _cancel_if_superseded(self, pending: _PendingQuestion) -> None:
        remaining = pending.begun + MOST_QUESTION_SECONDS - self._clock()
        if remaining <= 0:
            self._given_up_question = pending
            self._partitioner.cancel(pending.answer)
        elif self._timed_question is not pending:
            self._timed_question = pending
            self._call_later(remaining, partial(self._defer, self._ask_if_needed))

    def _on_answer(self, question: _PendingQuestion, *, has_rested: bool = False) -> None:
        if self._is_closed or question is not self._question:
            return
        if question.subject == self._subject() and (seconds := self._seconds_to_wait(has_rested=has_rested)) > 0:
            self._call_later(seconds, partial(self._defer, partial(self._on_answer, question, has_rested=True)))
            return
        self._question = None
        try:
            self._use_answer(question.subject, question.answer.result())
        except Exception as error:  # noqa: BLE001 - whatever fails, the planned figures stand
            if question is not self._given_up_question:  # a cancelled request is repeated if the user returns to that plan
                self._record_failure(question.subject, error)
        self._ask_if_needed()

    def _seconds_to_wait(self, *, has_rested: bool) -> float:
        remaining = 0.0 if has_rested else self._moved_at + ANALYZE_DELAY - self._clock()
        return remaining if remaining > 0 or self._is_idle() else ASK_DELAY

    def _use_answer(self, subject: _Subject, answer: Partitioned) -> None:
        if subject == self._subject():
            self._session.use_partitioned(subject.number, answer)
        elif self._session.hardware_of(self._session.nodes[subject.number].plan) == subject.hardware:
            self._session.store_partitioned(subject.number, answer)

    def _record_failure(self, subject: _Subject, error: Exception) -> None:
        if subject == self._subject():
            self._failure = subject, _reason_of(error)
            self._on_change()


def settled_report(plan: Plan, partition: Callable[[Plan], Partitioned]) -> tuple[Report, str]:
    """Return the report after waiting for `partition`; if it stays planned, also the reason."""
    if reason := why_planned(plan):
        return analyze(plan), reason
    try:
        return analyze(plan, answer=partition(plan)), ""
    except PartitionError as error:
        return analyze(plan), error.message


def is_settled(before: Report, now: Report) -> bool:
    """Return whether `now` reports the same plan and hardware with a new partitioner or compiler result."""
    is_same = before.plan is now.plan and before.hardware == now.hardware
    return is_same and (before.partitioned, before.compiled) != (now.partitioned, now.compiled)


def changes_figures(before: Report, now: Report) -> bool:
    """Return whether figures, not only the tier, differ between two reports of one plan."""
    return _figures_of(before) != _figures_of(now)


def _figures_of(report: Report) -> tuple[object, ...]:
    return report.collectives, report.memory, report.step_time, report.diagnostics


def _reason_of(error: Exception) -> str:
    return error.message if isinstance(error, WorkbenchError) else f"XLA's partitioner could not be run: {describe_error(error)}"
