"""What a hand does with one tensor, value, result, line or box: placed by itself, or by the rules again."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Flag, FlagUnlessFalse, MaybeText, Place, Rank, Text, Text1200
from workbench.widgets.gestures.gesture import EditGesture, Gesture


@dataclass(frozen=True, slots=True)
class TensorGesture(Gesture):
    """What the gesture is about: `of` is its kind, `place` one of its dimensions, `source` the zone its chip was taken from."""

    of: Text = ""
    path: Text = ""
    rank: Rank = None
    place: Place = None
    source: MaybeText = None


@dataclass(frozen=True, slots=True)
class OwnGesture(TensorGesture, EditGesture):
    """One of its dimensions dropped on an axis, for this tensor alone."""

    verb: ClassVar[str] = "own"
    target: Text = ""
    add: Flag = False


@dataclass(frozen=True, slots=True)
class OwnWholeGesture(TensorGesture, EditGesture):
    """All of it whole on every device."""

    verb: ClassVar[str] = "own_whole"


@dataclass(frozen=True, slots=True)
class OpenDimGesture(TensorGesture, EditGesture):
    """One of its dimensions left to propagation."""

    verb: ClassVar[str] = "open_dim"


@dataclass(frozen=True, slots=True)
class ByRulesGesture(TensorGesture, EditGesture):
    """What was said of it alone taken back."""

    verb: ClassVar[str] = "by_rules"


@dataclass(frozen=True, slots=True)
class TakeGesture(TensorGesture):
    """Its chip taken into the hand, to be told where it may go; with a `menu`, unless it is dragged."""

    verb: ClassVar[str] = "take"
    key: Text1200 = ""
    menu: FlagUnlessFalse = True
