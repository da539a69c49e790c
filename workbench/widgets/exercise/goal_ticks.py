"""The goals of a question, ticked for the plan on a board."""

from typing import Any

from workbench.errors import WorkbenchError
from workbench.exercises import Goal, PlanQuestion
from workbench.plan.plan import Plan
from workbench.reports.report import Report


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
            "reason": "" if about else "Known when XLA's partitioner has answered, or with Check.",
        }
    try:
        reason = goal.miss(report, start)
    except WorkbenchError as error:
        reason = error.message
    return {"text": text, "met": not reason, "reason": reason}
