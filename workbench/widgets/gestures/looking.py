"""What a hand looks at: these change no plan."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import PathText, Step, Text, Text200, Text2000, Value
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class TabGesture(Gesture):
    """A tab opened, or searched."""

    verb: ClassVar[str] = "open"
    tab: Text = "tensors"
    search: Text200 = ""


@dataclass(frozen=True, slots=True)
class SelectGesture(Gesture):
    """An argument, value or collective marked in every view; selected again, it is let go."""

    verb: ClassVar[str] = "select"
    path: PathText = ""


@dataclass(frozen=True, slots=True)
class FoldGesture(Gesture):
    """The rows of alike layers folded or unfolded."""

    verb: ClassVar[str] = "fold"
    key: PathText = ""


@dataclass(frozen=True, slots=True)
class WhyGesture(Gesture):
    """A question, or with an empty text none any more."""

    verb: ClassVar[str] = "why"
    of: PathText = ""


@dataclass(frozen=True, slots=True)
class StepGesture(Gesture):
    """A step of the propagation; without one, the last."""

    verb: ClassVar[str] = "step"
    step: Step = None


@dataclass(frozen=True, slots=True)
class WeighGesture(Gesture):
    """The edits of one conflict tried."""

    verb: ClassVar[str] = "weigh"
    conflict: Text2000 = ""


@dataclass(frozen=True, slots=True)
class FewestGesture(Gesture):
    """The fewest statements looked for."""

    verb: ClassVar[str] = "fewest"


@dataclass(frozen=True, slots=True)
class ExpandGesture(Gesture):
    """A scope of the graph opened or closed."""

    verb: ClassVar[str] = "expand"
    scope: PathText = ""


@dataclass(frozen=True, slots=True)
class MomentGesture(Gesture):
    """A place of the step, to see what is alive there; the same again for the peak."""

    verb: ClassVar[str] = "moment"
    place: Text


@dataclass(frozen=True, slots=True)
class TryBoundaryGesture(Gesture):
    """A boundary between stages where the hand holds it, `PIECE PATH`; empty once it holds none."""

    verb: ClassVar[str] = "try_boundary"
    value: Value = ""
