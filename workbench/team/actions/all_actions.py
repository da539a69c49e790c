"""All actions, in the order in which the API lists them. Whatever is to hold for each of them is tested over this tuple."""

from workbench.team.actions import (
    audit,
    comments,
    comparison,
    hardware,
    jobs,
    me,
    members,
    people,
    plans,
    programs,
    projects,
    rooms,
    server_settings,
    shares,
    tokens,
)
from workbench.team.actions.action import Action

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
