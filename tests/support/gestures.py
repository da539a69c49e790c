"""Gestures as the page sends them, read and answered without a board."""

from collections.abc import Mapping
from typing import Any

from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.widgets.board import gesture_edits, table_chip_options
from workbench.widgets.gestures.gesture_codec import read_gesture
from workbench.widgets.gestures.tensor_gestures import TakeGesture


def edit_of(message: Mapping[str, Any], plan: Plan, report: Report) -> Edit:
    """The edit that a message asks for."""
    return gesture_edits.edit_of(read_gesture(message), plan, report)


def taken(message: Mapping[str, Any], plan: Plan, report: Report) -> dict[str, Any]:
    """What a hand is shown that takes a chip."""
    gesture = read_gesture({"verb": "take", **message})
    assert isinstance(gesture, TakeGesture)
    return table_chip_options.drag_options(gesture, plan, report)
