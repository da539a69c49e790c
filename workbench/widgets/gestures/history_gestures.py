"""Gestures on the history of plans: undo, redo, the tree and its comparisons."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import FlagUnlessFalse, PlanNumber, Text
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class _ToolGesture(Gesture):
    """A gesture of the toolbar, where its refusal is shown."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class UndoGesture(_ToolGesture):
    """Go to the plan before."""

    verb: ClassVar[str] = "undo"


@dataclass(frozen=True, slots=True)
class RedoGesture(_ToolGesture):
    """Go to the plan that was undone."""

    verb: ClassVar[str] = "redo"


@dataclass(frozen=True, slots=True)
class HistoryGesture(_ToolGesture):
    """Open or close the history."""

    verb: ClassVar[str] = "history"
    open: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class GoGesture(_ToolGesture):
    """Go to one of the plans."""

    verb: ClassVar[str] = "go"
    number: PlanNumber


@dataclass(frozen=True, slots=True)
class NamePlanGesture(_ToolGesture):
    """Name one of the plans."""

    verb: ClassVar[str] = "name_plan"
    number: PlanNumber
    name: Text = ""


@dataclass(frozen=True, slots=True)
class PinGesture(_ToolGesture):
    """Pin or unpin one of the plans."""

    verb: ClassVar[str] = "pin"
    number: PlanNumber
    pinned: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class ComparePlansGesture(_ToolGesture):
    """Pick one of the plans for a comparison; picked again, it is removed."""

    verb: ClassVar[str] = "compare_plans"
    number: PlanNumber


@dataclass(frozen=True, slots=True)
class SwapPlansGesture(_ToolGesture):
    """Swap the two compared plans."""

    verb: ClassVar[str] = "swap_plans"


@dataclass(frozen=True, slots=True)
class StopComparingGesture(_ToolGesture):
    """Close the comparison."""

    verb: ClassVar[str] = "stop_comparing"
