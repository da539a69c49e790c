"""All actions, in the order in which the API lists them. Whatever is to hold for each of them is tested over this tuple."""

from workbench.team.actions import comments, comparison, hardware, jobs, plans, programs, projects, rooms, server_settings, shares
from workbench.team.actions.action import Action
from workbench.team.actions.classes import assignments, given_answers, pushed_plans, replays, scores, searched_baselines, student_work
from workbench.team.actions.persons import audit, me, members, people, tokens

ALL_ACTIONS: tuple[Action, ...] = (
    *me.ACTIONS,
    *tokens.ACTIONS,
    *projects.ACTIONS,
    *members.ACTIONS,
    *plans.ACTIONS,
    *comparison.ACTIONS,
    *rooms.ACTIONS,
    *comments.ACTIONS,
    *shares.ACTIONS,
    *assignments.ACTIONS,
    *student_work.ACTIONS,
    *pushed_plans.ACTIONS,
    *given_answers.ACTIONS,
    *scores.ACTIONS,
    *replays.ACTIONS,
    *searched_baselines.ACTIONS,
    *programs.ACTIONS,
    *jobs.ACTIONS,
    *hardware.ACTIONS,
    *people.ACTIONS,
    *server_settings.ACTIONS,
    *audit.ACTIONS,
)


def action_of(name: str) -> Action:
    """The action of a name, `plans.push`."""
    return next(each for each in ALL_ACTIONS if each.name == name)
