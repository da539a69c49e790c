"""What was answered to the questions of one exercise, on all boards that share it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.analysis.analyze import analyze
from workbench.errors import WorkbenchError
from workbench.exercises import Exercise, Goal, PlanQuestion, Verdict
from workbench.plan.plan import Plan
from workbench.reports.report import Report


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer to a question, a plan or a text, the number of the try, and the verdict."""

    question: str
    answer: Any
    attempt: int
    verdict: Verdict


class HandingIn(Protocol):
    """Whoever keeps answers: a class's server. Its methods are called on the board's thread."""

    def verify(self) -> None:
        """Raises `WorkbenchError` for somebody who may not answer here."""

    def counts(self) -> bool:
        """Whether an answer is a try of those whose exercise it is; a teacher's is not."""

    def hand_in(self, answered: Answered) -> None:
        """Keep an answer that counts."""


@dataclass
class Attempts:
    """What was answered to one question: how often, the last verdict, and what it was about: a plan, or a text; `counted` is
    the last answer that was a try. `ticks` are the goals of a report."""

    count: int = 0
    verdict: Verdict | None = None
    of: Any = None
    counted: Any = None
    is_done: bool = False
    ticks: tuple[Report, list[dict[str, Any]], str] | None = field(default=None, repr=False)


class ExerciseProgress:
    """`attempts` by the name of the question; `checking` is the question whose answer is being checked, one at a time."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise, self.checking = exercise, ""
        self.attempts = {each.name: Attempts() for each in exercise.questions}
        self._judged: Report | None = None
        self._listeners: list[Callable[[], None]] = []

    def restore(self, tried: Iterable[tuple[str, int, bool]]) -> None:
        """What is known from before: questions, how often each was tried, and whether with success."""
        for name, count, is_done in tried:
            if name in self.attempts:
                self.attempts[name].count, self.attempts[name].is_done = count, is_done

    def learn(self, answered: Answered, counts: bool) -> None:
        """An answer was checked; one that does not `count` leaves the number of tries as it is, and nothing done."""
        attempts = self.attempts[answered.question]
        attempts.verdict, attempts.of = answered.verdict, answered.answer
        if counts:
            attempts.count, attempts.is_done = answered.attempt, attempts.is_done or bool(answered.verdict)
            attempts.counted = answered.answer
        self.checking = ""
        for listener in tuple(self._listeners):
            listener()

    def ticks(self, question: PlanQuestion, report: Report) -> tuple[str, list[dict[str, Any]]]:
        """Why the plan on the board is no answer, and each goal with whether it is met: once for each report."""
        attempts = self.attempts[question.name]
        if attempts.ticks is None or attempts.ticks[0] is not report:
            about, goals = goal_ticks(question, self.planned(report), report)
            attempts.ticks = (report, goals, about)
        return attempts.ticks[2], attempts.ticks[1]

    def planned(self, report: Report) -> Report:
        """The planned report of the plan, made once: its figures settle tier by tier."""
        if self._judged is None or self._judged.plan is not report.plan:
            self._judged = report if report.tier == "planned" else analyze(report.plan)
        return self._judged

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call it when an answer was checked; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None


# The goals of a question, ticked for the plan on a board.


def goal_ticks(question: PlanQuestion, planned: Report, settled: Report) -> tuple[str, list[dict[str, Any]]]:
    """Why the plan is no answer to the question, and each goal with whether it is met.

    Goals are judged by the planned figures, as a grader judges them, and by the settled ones where only those know: all see the same.
    """
    about = next(iter(question.differences(settled.plan)), "")
    return about, [_goal_state(each.goal, (planned, settled), question.plan, about) for each in question.goals]


def _goal_state(goal: Goal, reports: tuple[Report, ...], start: Plan, about: str) -> dict[str, Any]:
    """A goal, whether it is met (`None`: not known yet), and why not, by the first report that knows it."""
    text, report = goal.describe(), next(filter(goal.is_quick, reports), None)
    if about or report is None:
        return {
            "text": text,
            "met": None,
            "reason": "" if about else "Available once XLA's partitioner has answered, or with Check.",
        }
    try:
        reason = goal.miss(report, start)
    except WorkbenchError as error:
        reason = error.message
    return {"text": text, "met": not reason, "reason": reason}
