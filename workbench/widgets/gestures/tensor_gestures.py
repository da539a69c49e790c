"""Gestures on a tensor, a value or a named dimension: its sharding and its annotations."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from workbench.errors import LayoutError
from workbench.widgets.gestures.gesture import (
    AxisNames,
    EditGesture,
    Flag,
    FlagUnlessFalse,
    Gesture,
    MaybeText,
    Needed,
    PathText,
    Place,
    Priority,
    Rank,
    Text,
    Text20,
    Text80,
    Text200,
    Text400,
    Text1200,
)

# Gestures on one tensor, value, result, source line or graph box: sharded by itself, or by the rules again.


@dataclass(frozen=True, slots=True)
class TensorGesture(Gesture):
    """The target of the gesture: `of` is its kind, `place` one of its dimensions, `source` the zone its chip was dragged from."""

    verb: ClassVar[str] = ""
    of: Text = ""
    path: Text = ""
    rank: Rank = None
    place: Place = None
    source: MaybeText = None


@dataclass(frozen=True, slots=True)
class OwnGesture(TensorGesture, EditGesture):
    """Drop one of its dimensions on an axis, for this tensor alone."""

    target: Text = ""
    add: Flag = False


@dataclass(frozen=True, slots=True)
class OwnWholeGesture(TensorGesture, EditGesture):
    """Replicate it on every device."""


@dataclass(frozen=True, slots=True)
class OpenDimGesture(TensorGesture, EditGesture):
    """Leave one of its dimensions to propagation."""


@dataclass(frozen=True, slots=True)
class ByRulesGesture(TensorGesture, EditGesture):
    """Remove what was requested for it alone."""


@dataclass(frozen=True, slots=True)
class TakeGesture(TensorGesture):
    """Pick up its chip, to learn where it may be dropped; with a `menu`, unless it is dragged."""

    key: Text1200 = ""
    menu: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class PreviewGesture(TensorGesture):
    """A chip is in hand: show what a drop on each of the `targets` would do, of the dimension `dim` or with `only` of its tensor alone."""

    key: Text1200 = ""
    dim: Text = ""
    targets: AxisNames = ()
    add: Flag = False
    only: Flag = False

    def drop_on(self, target: str) -> Gesture:
        """The gesture of a drop there."""
        if self.only:
            return OwnGesture(self.of, self.path, self.rank, self.place, self.source, target=target, add=self.add)
        return DropGesture(self.dim, source=self.source or "", target=target, add=self.add)


# Annotations by hand other than placements: open and closed dimensions, priorities, excluded axes, partial sums, groups, barriers.


@dataclass(frozen=True, slots=True)
class AnnotationGesture(TensorGesture, EditGesture):
    """An annotation of a tensor or value; `what` says which."""

    verb: ClassVar[str] = "annotate"
    apart_by: ClassVar[str] = "what"

    @classmethod
    def unknown(cls, name: Any) -> LayoutError:
        """There is no such annotation."""
        return LayoutError(f"`{str(name)[:40]}` is not an annotation.", ["reload the page"])


@dataclass(frozen=True, slots=True)
class OpenGesture(AnnotationGesture):
    """Open one of its dimensions to further axes, or close it on those it has."""

    apart: ClassVar[str] = "open"
    open: Flag = False


@dataclass(frozen=True, slots=True)
class RoundGesture(AnnotationGesture):
    """Set the round in which one of its dimensions propagates (Shardy's user priority)."""

    apart: ClassVar[str] = "priority"
    priority: Priority = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class KeepOutGesture(AnnotationGesture):
    """Exclude an axis from it, or allow it again."""

    apart: ClassVar[str] = "keep_out"
    axis: Text80 = ""
    out: Flag = False


@dataclass(frozen=True, slots=True)
class UnreducedGesture(AnnotationGesture):
    """Leave the sum over an axis undone, or do it again."""

    apart: ClassVar[str] = "unreduced"
    axis: Text80 = ""
    left: Flag = False


@dataclass(frozen=True, slots=True)
class GroupGesture(AnnotationGesture):
    """Group it with what `name` names, so that both are sharded alike."""

    apart: ClassVar[str] = "tie"
    name: Text400 = ""


@dataclass(frozen=True, slots=True)
class BarrierGesture(AnnotationGesture):
    """Set which directions of propagation pass it; empty for all."""

    apart: ClassVar[str] = "barrier"
    allows: Text20 = ""


@dataclass(frozen=True, slots=True)
class UngroupGesture(EditGesture):
    """Remove a group, named by its text."""

    verb: ClassVar[str] = "untie"
    group: Text = ""


@dataclass(frozen=True, slots=True)
class UnbarGesture(EditGesture):
    """Remove a barrier, named by its value."""

    at: PathText = ""


# Gestures on a named dimension: its rule, its order of axes, its name, its user priority.


@dataclass(frozen=True, slots=True)
class DropGesture(EditGesture):
    """A chip of zone `source` dropped on zone `target`; `""` is unsharded, and `add` keeps the axes it has."""

    refused_by: ClassVar[tuple[str, ...]] = ("target",)
    dim: Needed
    source: Needed
    target: Needed
    add: Flag = False


@dataclass(frozen=True, slots=True)
class MajorGesture(EditGesture):
    """Make one of the axes of a dimension the major one."""

    dim: Needed
    axis: Needed


@dataclass(frozen=True, slots=True)
class WholeGesture(EditGesture):
    """Leave a dimension whole."""

    dim: Needed


@dataclass(frozen=True, slots=True)
class RenameDimGesture(EditGesture):
    """Rename a dimension."""

    dim: Needed
    name: Needed


@dataclass(frozen=True, slots=True)
class PrioritizeGesture(EditGesture):
    """Set the user priority of a dimension's rule: the round in which it propagates; 0 is the first."""

    dim: Text200 = ""
    priority: Priority = field(kw_only=True)
