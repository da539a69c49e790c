"""Answers to one exercise, shared by all boards that show it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.analysis.analyze import analyze
from workbench.errors import WorkbenchError
from workbench.exercises import Exercise, Goal, PlanQuestion, Verdict
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.widgets.shared_states import SharedList


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer to a question (a plan or a text), the number of the attempt, and the verdict."""

    question: str
    answer: Any
    attempt: int
    verdict: Verdict


class HandingIn(Protocol):
    """Recorder of answers, such as a class server. Its methods are called on the board's thread."""

    def verify(self) -> None:
        """Raise `WorkbenchError` if this user may not answer here."""

    def counts(self) -> bool:
        """Whether an answer counts as an attempt; a teacher's does not."""

    def hand_in(self, answered: Answered) -> None:
        """Record an answer that counts."""


class LessonShown(Protocol):
    """The text of a lesson beside a board; `blocks` is another list after each output."""

    blocks: SharedList

    def begin(self, show: Callable[[], None]) -> None:
        """Run its cells in a thread, and call `show` there after each output."""

    def state(self) -> dict[str, Any]:
        """The lesson without its blocks as JSON."""


@dataclass
class Attempts:
    """Attempts at one question; `of` is the subject of the last verdict, `counted` the last counted answer."""

    count: int = 0
    verdict: Verdict | None = None
    of: Any = None
    counted: Any = None
    is_done: bool = False
    ticks: tuple[Report, list[dict[str, Any]], str] | None = field(default=None, repr=False)


class ExerciseProgress:
    """Progress of an exercise: `attempts` by question; `checking` is the question being checked, one at a time."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise, self.checking = exercise, ""
        self.attempts = {question.name: Attempts() for question in exercise.questions}
        self._judged: Report | None = None
        self._listeners: list[Callable[[], None]] = []

    def restore(self, tried: Iterable[tuple[str, int, bool]]) -> None:
        """Restore earlier attempts: question, number of attempts, and success."""
        for name, count, is_done in tried:
            if name in self.attempts:
                self.attempts[name].count, self.attempts[name].is_done = count, is_done

    def learn(self, answered: Answered, counts: bool) -> None:
        """Record a checked answer; one that does not count leaves the number of attempts and the success unchanged."""
        attempts = self.attempts[answered.question]
        attempts.verdict, attempts.of = answered.verdict, answered.answer
        if counts:
            attempts.count, attempts.is_done = answered.attempt, attempts.is_done or bool(answered.verdict)
            attempts.counted = answered.answer
        self.checking = ""
        for listener in tuple(self._listeners):
            listener()

    def ticks(self, question: PlanQuestion, report: Report) -> tuple[str, list[dict[str, Any]]]:
        """Return why the plan is no valid answer, and the state of each goal; cached per report."""
        attempts = self.attempts[question.name]
        if attempts.ticks is None or attempts.ticks[0] is not report:
            about, goals = goal_ticks(question, self.planned(report), report)
            attempts.ticks = (report, goals, about)
        return attempts.ticks[2], attempts.ticks[1]

    def planned(self, report: Report) -> Report:
        """Return the planned report of the plan, cached because its figures settle tier by tier."""
        if self._judged is None or self._judged.plan is not report.plan:
            self._judged = report if report.tier == "planned" else analyze(report.plan)
        return self._judged

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each checked answer; the result unsubscribes."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None


# The goals of a question for the plan on a board.


def goal_ticks(question: PlanQuestion, planned: Report, settled: Report) -> tuple[str, list[dict[str, Any]]]:
    """Return why the plan is no valid answer, and the state of each goal.

    Planned figures decide, as for a grader; settled ones only where necessary, so that all users see the same.
    """
    about = next(iter(question.differences(settled.plan)), "")
    return about, [_goal_state(entry.goal, (planned, settled), question.plan, about) for entry in question.goals]


def _goal_state(goal: Goal, reports: tuple[Report, ...], start: Plan, about: str) -> dict[str, Any]:
    text, report = goal.describe(), next(filter(goal.is_quick, reports), None)
    if about or report is None:
        return {"text": text, "met": None, "reason": "" if about else "Available once XLA's partitioner has answered, or with Check."}
    try:
        reason = goal.miss(report, start)
    except WorkbenchError as error:
        reason = error.message
    return {"text": text, "met": not reason, "reason": reason}
