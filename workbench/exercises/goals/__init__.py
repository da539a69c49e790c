"""The goals available to exercises, by name in `exercise.json`."""

from collections.abc import Mapping
from typing import Any

from workbench.errors import DocumentError, unknown_name
from workbench.exercises.goals.figure_goals import (
    BoundBy,
    Bubble,
    Devices,
    FigureAtLeast,
    FigureAtMost,
    Fits,
    Holds,
    Mfu,
    Peak,
    Sends,
    StepWithin,
)
from workbench.exercises.goals.goal import Goal, make_goal
from workbench.exercises.goals.layout_goals import (
    ComputesOnce,
    FewStatements,
    GathersNothingWhole,
    Lies,
    PadsNothing,
    SameResult,
    UsesCollective,
)

ALL_GOALS: tuple[type[Goal], ...] = (
    Lies,
    FewStatements,
    Sends,
    UsesCollective,
    ComputesOnce,
    GathersNothingWhole,
    Holds,
    PadsNothing,
    Fits,
    Peak,
    StepWithin,
    Mfu,
    BoundBy,
    Bubble,
    Devices,
    SameResult,
    FigureAtMost,
    FigureAtLeast,
)


def parse_goal(record: Mapping[str, Any]) -> Goal:
    """The goal that an entry of `exercise.json` states. Raises `DocumentError` for an unknown goal or invalid fields."""
    values = dict(record)
    name = values.pop("goal", "")
    kind = next((candidate for candidate in ALL_GOALS if candidate.name == name), None)
    if kind is None:
        raise DocumentError(*unknown_name("goal", name, (candidate.name for candidate in ALL_GOALS)))
    return make_goal(kind, values)
