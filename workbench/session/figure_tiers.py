"""Which tier of figures a session shows: the planned ones at once, and those of XLA's partitioner as soon as it has answered.

It knows no user interface and no engine: the partitioner's client, and the event loop on which the session changes, are given to it.
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
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Report
from workbench.session.plan_history import Session

Work = Callable[[], None]
Defer = Callable[[Work], None]

MOST_QUESTION_SECONDS = 2.0
"""Seconds that a question may run although a newer one waits: its answer is kept for undo. An older one is cancelled."""
ASK_DELAY, ANALYZE_DELAY = 0.05, 0.35
"""Seconds that a plan stands before it is asked about, and before it is analysed anew: of edits in quick succession, or a walk through the
history, only the last is, and the next drop of a quick hand finds nobody at work."""


class Partitioner(Protocol):
    """A client of XLA's partitioner."""

    def ask(self, plan: Plan, hardware: Hardware | None) -> Future[Partitioned]:
        """Partition a plan for this hardware; the future raises `PartitionError`."""
        ...

    def cancel(self, answer: Future[Partitioned]) -> None:
        """Cancel a question."""
        ...


@dataclass(frozen=True, slots=True)
class SettlingState:
    """The `tier` of the present figures; whether an answer is pending that will replace them, or the `reason` why none will."""

    tier: str
    is_settling: bool = False
    reason: str = ""


class _Subject(NamedTuple):
    """What a question is about: a plan of the history by its number, for this hardware."""

    number: int
    hardware: Hardware | None


@dataclass(frozen=True, slots=True)
class _PendingQuestion:
    subject: _Subject
    answer: Future[Partitioned]
    begun: float


def call_from_thread(seconds: float, work: Work) -> None:
    """Call after so many seconds, from a thread of its own, unless the process ends before."""
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()


class Settler:
    """Asks XLA's partitioner about the present plan of a session after every change, and replaces the planned figures by the answer.

    One question is under way at a time, and only the latest plan waits behind it. The answer to a plan that is no longer present is kept,
    so that undo finds it. A plan that is refused stays planned, and `settling_state` says why.

    - `defer(work)` schedules work on the event loop on which the session changes, after what runs there;
    - `is_idle()`: false while a gesture waits there or is about to come, which takes precedence;
    - `on_change()` is called there when `settling_state` changes although the session did not;
    - `call_later(seconds, work)` calls it then, from any thread.
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
        """The state of the present figures."""
        report = self._session.report
        if report.partitioned is not None:
            return SettlingState(report.tier)
        reason = self._reason()
        return SettlingState(report.tier, is_settling=not reason, reason=reason)

    def close(self) -> None:
        """Ask no more, and cancel the current question."""
        self._is_closed = True
        self._stop_listening()
        if self._question is not None:
            self._partitioner.cancel(self._question.answer)

    def _reason(self) -> str:
        """Why the present figures stay planned; empty if they do not."""
        if reason := why_planned(self._session.plan):
            return reason
        return self._failure[1] if self._failure and self._failure[0] == self._subject() else ""

    def _subject(self) -> _Subject:
        return _Subject(self._session.node.number, self._session.hardware_of(self._session.plan))

    def _on_move(self, _plan: Plan, report: Report) -> None:
        """Ask only once the change is done and shown, and a little later."""
        if report is not self._last_report:  # else a plan was only named or pinned
            self._last_report, self._failure, self._moved_at = report, None, self._clock()
            if self.settling_state.is_settling:
                self._call_later(ASK_DELAY, partial(self._defer, partial(self._ask_about, report)))

    def _ask_about(self, report: Report) -> None:
        if report is self._last_report:
            self._ask_if_needed()

    def _ask_if_needed(self) -> None:
        """Ask about the present plan, unless its answer is known or pending; a pending question about another plan is cancelled."""
        if self._is_closed or not self.settling_state.is_settling:
            return
        subject, pending = self._subject(), self._question
        if pending is None:
            self._begin_question(subject)
        elif pending.subject != subject and pending.answer.done():  # its answer waited for a pause in the gestures
            self._on_answer(pending)
        elif pending.subject != subject:
            self._give_up_if_old(pending)

    def _begin_question(self, subject: _Subject) -> None:
        try:
            answer = self._partitioner.ask(self._session.plan, subject.hardware)
        except Exception as error:  # noqa: BLE001 - whatever fails, the planned figures stand
            self._record_failure(subject, error)
            return
        self._question = question = _PendingQuestion(subject, answer, self._clock())
        answer.add_done_callback(lambda _: self._defer(partial(self._on_answer, question)))

    def _give_up_if_old(self, pending: _PendingQuestion) -> None:
        """Cancel a question about an old plan, after a moment: its answer is of use for undo."""
        left = pending.begun + MOST_QUESTION_SECONDS - self._clock()
        if left <= 0:
            self._given_up_question = pending
            self._partitioner.cancel(pending.answer)
        elif self._timed_question is not pending:
            self._timed_question = pending
            self._call_later(left, partial(self._defer, self._ask_if_needed))

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
            if question is not self._given_up_question:  # else it is asked again if the user went back to that plan
                self._record_failure(question.subject, error)
        self._ask_if_needed()

    def _seconds_to_wait(self, *, has_rested: bool) -> float:
        """Seconds for which gestures take precedence: until they have paused, and while one waits or is about to come."""
        left = 0.0 if has_rested else self._moved_at + ANALYZE_DELAY - self._clock()
        return left if left > 0 or self._is_idle() else ASK_DELAY

    def _use_answer(self, subject: _Subject, answer: Partitioned) -> None:
        """Analyse the present plan with the answer; the answer about another plan is stored."""
        if subject == self._subject():
            self._session.use_partitioned(subject.number, answer)
        elif self._session.hardware_of(self._session.nodes[subject.number].plan) == subject.hardware:
            self._session.store_partitioned(subject.number, answer)

    def _record_failure(self, subject: _Subject, error: Exception) -> None:
        if subject == self._subject():
            self._failure = subject, _reason_of(error)
            self._on_change()


def settled_report(plan: Plan, partition: Callable[[Plan], Partitioned]) -> tuple[Report, str]:
    """The settled report, for a caller that waits for `partition`; if that is the planned one, also why."""
    if reason := why_planned(plan):
        return analyze(plan), reason
    try:
        return analyze(plan, answer=partition(plan)), ""
    except PartitionError as error:
        return analyze(plan), error.message


def is_settled(before: Report, now: Report) -> bool:
    """Whether a report is of the same plan and hardware, with another answer of XLA's partitioner or of the compiler."""
    is_same = before.plan is now.plan and before.hardware == now.hardware
    return is_same and (before.partitioned, before.compiled) != (now.partitioned, now.compiled)


def changes_figures(before: Report, now: Report) -> bool:
    """Whether anything but the tier differs between two reports of one plan."""
    return _figures_of(before) != _figures_of(now)


def _figures_of(report: Report) -> tuple[object, ...]:
    return report.collectives, report.memory, report.step_time, report.diagnostics


def _reason_of(error: Exception) -> str:
    return error.message if isinstance(error, WorkbenchError) else f"XLA's partitioner could not be run: {describe_error(error)}"
