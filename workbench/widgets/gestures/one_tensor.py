"""Gestures on one tensor, value, result, source line or graph box: sharded by itself, or by the rules again."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Flag, FlagUnlessFalse, MaybeText, Place, Rank, Text, Text1200
from workbench.widgets.gestures.gesture import EditGesture, Gesture


@dataclass(frozen=True, slots=True)
class TensorGesture(Gesture):
    """The target of the gesture: `of` is its kind, `place` one of its dimensions, `source` the zone its chip was dragged from."""

    of: Text = ""
    path: Text = ""
    rank: Rank = None
    place: Place = None
    source: MaybeText = None


@dataclass(frozen=True, slots=True)
class OwnGesture(TensorGesture, EditGesture):
    """Drop one of its dimensions on an axis, for this tensor alone."""

    verb: ClassVar[str] = "own"
    target: Text = ""
    add: Flag = False


@dataclass(frozen=True, slots=True)
class OwnWholeGesture(TensorGesture, EditGesture):
    """Replicate it on every device."""

    verb: ClassVar[str] = "own_whole"


@dataclass(frozen=True, slots=True)
class OpenDimGesture(TensorGesture, EditGesture):
    """Leave one of its dimensions to propagation."""

    verb: ClassVar[str] = "open_dim"


@dataclass(frozen=True, slots=True)
class ByRulesGesture(TensorGesture, EditGesture):
    """Remove what was requested for it alone."""

    verb: ClassVar[str] = "by_rules"


@dataclass(frozen=True, slots=True)
class TakeGesture(TensorGesture):
    """Pick up its chip, to learn where it may be dropped; with a `menu`, unless it is dragged."""

    verb: ClassVar[str] = "take"
    key: Text1200 = ""
    menu: FlagUnlessFalse = True
