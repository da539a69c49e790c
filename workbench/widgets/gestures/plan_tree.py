"""What a hand does with the plans there were: undo, redo, the history and its comparisons."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import FlagUnlessFalse, PlanNumber, Text
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class _ToolGesture(Gesture):
    """A gesture of the head; what is refused of it is said under it."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class UndoGesture(_ToolGesture):
    """The plan before."""

    verb: ClassVar[str] = "undo"


@dataclass(frozen=True, slots=True)
class RedoGesture(_ToolGesture):
    """The plan that was undone."""

    verb: ClassVar[str] = "redo"


@dataclass(frozen=True, slots=True)
class HistoryGesture(_ToolGesture):
    """The history opened or closed."""

    verb: ClassVar[str] = "history"
    open: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class GoGesture(_ToolGesture):
    """Back to one of the plans."""

    verb: ClassVar[str] = "go"
    number: PlanNumber


@dataclass(frozen=True, slots=True)
class NamePlanGesture(_ToolGesture):
    """A name for one of the plans."""

    verb: ClassVar[str] = "name_plan"
    number: PlanNumber
    name: Text = ""


@dataclass(frozen=True, slots=True)
class PinGesture(_ToolGesture):
    """One of the plans pinned, or let go."""

    verb: ClassVar[str] = "pin"
    number: PlanNumber
    pinned: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class ComparePlansGesture(_ToolGesture):
    """One of the plans picked for a comparison; picked again, it is let go."""

    verb: ClassVar[str] = "compare_plans"
    number: PlanNumber


@dataclass(frozen=True, slots=True)
class SwapPlansGesture(_ToolGesture):
    """The two compared plans change sides."""

    verb: ClassVar[str] = "swap_plans"


@dataclass(frozen=True, slots=True)
class StopComparingGesture(_ToolGesture):
    """No comparison any more."""

    verb: ClassVar[str] = "stop_comparing"
