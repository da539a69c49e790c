"""Validation of exercises for authors: whether each start plan and variant can be planned and each goal evaluated.

It plans every start plan at every size, which takes about a second. It runs when an exercise is authored or
distributed, not for each answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.analysis.analyze import analyze
from workbench.errors import DocumentError, WorkbenchError
from workbench.exercises.exercise import Exercise
from workbench.exercises.goals.goal import Goal
from workbench.exercises.goals.layout_goals import Lies
from workbench.exercises.number_question import NumberQuestion
from workbench.exercises.parse_questions import Question
from workbench.exercises.plan_question import PlanQuestion
from workbench.plan.plan import Plan
from workbench.reports.report import Report

_NAMES_VALUES = {"pipeline", "remat", "precision", "offload"}  # settings that may change the values of a program


@dataclass(frozen=True, slots=True)
class Flaw:
    """An error that no answer can avoid: the `question`, `where` in it, and the planner's error."""

    question: str
    where: str
    error: WorkbenchError

    def __str__(self) -> str:
        return f"Question `{self.question}`, {self.where}: {self.error.message}"


def find_flaws(exercise: Exercise) -> Iterator[Flaw]:
    """Errors that make a question reject every answer or prevent grading, in order."""
    for question in exercise.questions:
        yield from _flaws(question)


def verify_exercise(exercise: Exercise) -> None:
    """Raises `DocumentError` if a question rejects every answer, with location, reason and suggestions."""
    flaws = list(find_flaws(exercise))
    if not flaws:
        return
    ways_out = dict.fromkeys(way for flaw in flaws for way in flaw.error.ways_out)
    listed = "\n".join(f"  - {flaw}" for flaw in flaws)
    raise DocumentError(f"`{exercise.name}` has goals that no answer can meet:\n{listed}", ways_out)


def _flaws(question: Question) -> Iterator[Flaw]:
    if isinstance(question, PlanQuestion):
        yield from _plan_flaws(question)
    elif isinstance(question, NumberQuestion):
        try:
            _ = question.right
        except WorkbenchError as error:
            yield Flaw(question.name, "the plan of the answer", error)


def _plan_flaws(question: PlanQuestion) -> Iterator[Flaw]:
    goals = tuple(scored.goal for scored in question.goals)
    try:
        start = question.plan
        report = analyze(start)
    except WorkbenchError as error:
        yield Flaw(question.name, "the start plan", error)
        return
    yield from _goal_flaws(question, "the start plan", goals, report)
    for number, variant in enumerate(question.variants, 1):
        where = f"its variant {number} ({variant.describe() or 'which changes nothing'})"
        try:
            variant_report = analyze(variant.apply(start))
        except WorkbenchError as error:
            yield Flaw(question.name, where, _in_variant(error, start))
        else:
            yield from _goal_flaws(question, where, variant.goals or goals, variant_report)


def _in_variant(error: WorkbenchError, start: Plan) -> WorkbenchError:
    """The planner's error with suggestions for the author of a variant."""
    statements = f"the start's layout `{start.layout}`" if start.layout else "the start plan"
    ways_out = [f"choose sizes of that variant that fit {statements}", "start from a plan with fewer statements", *error.ways_out]
    return type(error)(f"{error.message} Every answer would be rejected for it.", ways_out)


def _goal_flaws(question: PlanQuestion, where: str, goals: tuple[Goal, ...], report: Report) -> Iterator[Flaw]:
    renames = bool(_NAMES_VALUES & set(question.may_change))
    for goal in goals:
        if not goal.is_quick(report) or (renames and isinstance(goal, Lies)):
            continue
        try:
            goal.miss(report, report.plan)
        except WorkbenchError as error:
            yield Flaw(question.name, f"{where}, the goal `{goal.name}`", error)
