"""Whether an exercise can be answered, which its author hears and no student: each plan of it, in each variant, and each goal's figure.

It plans every start at every size, which takes a second or so: done where authors work and an exercise is handed out, not with each answer.
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

_NAMES_VALUES = {"pipeline", "remat", "precision", "offload"}  # changes after which a program may have other values


@dataclass(frozen=True, slots=True)
class Flaw:
    """What no answer can mend: the `question`, `where` of it, and what the planner says there."""

    question: str
    where: str
    error: WorkbenchError

    def __str__(self) -> str:
        return f"Question `{self.question}`, {self.where}: {self.error.message}"


def find_flaws(exercise: Exercise) -> Iterator[Flaw]:
    """What makes a question of the exercise refuse every answer, or grade none: in order, at most one of a plan in a variant."""
    for question in exercise.questions:
        yield from _flaws(question)


def verify_exercise(exercise: Exercise) -> None:
    """Raises `DocumentError` for an exercise with a question that refuses every answer: which, where, why, and what to do."""
    flaws = list(find_flaws(exercise))
    if not flaws:
        return
    ways_out = dict.fromkeys(way for each in flaws for way in each.error.ways_out)
    listed = "\n".join(f"  - {each}" for each in flaws)
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
    """Of the start; and if it can be planned, of each variant, which is numbered from 1 as in the document."""
    goals = tuple(each.goal for each in question.goals)
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
            there = analyze(variant.apply(start))
        except WorkbenchError as error:
            yield Flaw(question.name, where, _in_variant(error, start))
        else:
            yield from _goal_flaws(question, where, variant.goals or goals, there)


def _in_variant(error: WorkbenchError, start: Plan) -> WorkbenchError:
    """The planner's error with what the author of a variant can do; a layout that does not divide is not for students to mend."""
    statements = f"the start's layout `{start.layout}`" if start.layout else "the start plan"
    ways_out = [f"choose sizes of that variant that fit {statements}", "start from a plan with fewer statements", *error.ways_out]
    return type(error)(f"{error.message} Every answer would be refused there.", ways_out)


def _goal_flaws(question: PlanQuestion, where: str, goals: tuple[Goal, ...], report: Report) -> Iterator[Flaw]:
    """Of goals that ask for what such a plan cannot say."""
    renames = bool(_NAMES_VALUES & set(question.may_change))
    for goal in goals:
        if not goal.is_quick(report) or (renames and isinstance(goal, Lies)):
            continue
        try:
            goal.miss(report, report.plan)
        except WorkbenchError as error:
            yield Flaw(question.name, f"{where}, the goal `{goal.name}`", error)
