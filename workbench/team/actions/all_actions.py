"""All actions in the order of the API; tests over all actions iterate over this tuple."""

from workbench.team.actions import audit, comparison, jobs, me, people, plans, programs, projects, rooms, server_settings, shares
from workbench.team.actions.action import Action, actions_of
from workbench.team.actions.classes import assignments, baselines, given_answers, pushed_plans, scores, student_work

ALL_ACTIONS: tuple[Action, ...] = actions_of(
    me,
    projects,
    plans,
    comparison,
    rooms,
    shares,
    assignments,
    student_work,
    pushed_plans,
    given_answers,
    scores,
    baselines,
    programs,
    jobs,
    people,
    server_settings,
    audit,
)


def action_of(name: str) -> Action:
    """Return an action by name, such as `plans.push`."""
    return next(candidate for candidate in ALL_ACTIONS if candidate.name == name)
