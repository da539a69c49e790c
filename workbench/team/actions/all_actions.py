"""All actions, in the order in which the API lists them. Whatever is to hold for each of them is tested over this tuple."""

from workbench.team.actions import comments, comparison, jobs, plans, programs, projects, rooms, server_settings, shares, team_hardware
from workbench.team.actions.action import Action, actions_of
from workbench.team.actions.classes import assignments, given_answers, pushed_plans, replays, scores, searched_baselines, student_work
from workbench.team.actions.persons import audit, me, members, people, tokens

ALL_ACTIONS: tuple[Action, ...] = actions_of(
    me,
    tokens,
    projects,
    members,
    plans,
    comparison,
    rooms,
    comments,
    shares,
    assignments,
    student_work,
    pushed_plans,
    given_answers,
    scores,
    replays,
    searched_baselines,
    programs,
    jobs,
    team_hardware,
    people,
    server_settings,
    audit,
)


def action_of(name: str) -> Action:
    """The action of a name, `plans.push`."""
    return next(each for each in ALL_ACTIONS if each.name == name)
