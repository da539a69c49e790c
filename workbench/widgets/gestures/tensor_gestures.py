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

# Gestures on one tensor, value, result, source line or graph box: override its sharding, or return it to the rules.


@dataclass(frozen=True, slots=True)
class TensorGesture(Gesture):
    """Target of a gesture: `of` is its kind, `place` a dimension, `source` the zone of the dragged chip."""

    verb: ClassVar[str] = ""
    of: Text = ""
    path: Text = ""
    rank: Rank = None
    place: Place = None
    source: MaybeText = None


@dataclass(frozen=True, slots=True)
class OwnGesture(TensorGesture, EditGesture):
    """Drop a dimension on an axis, for this tensor alone."""

    target: Text = ""
    add: Flag = False


@dataclass(frozen=True, slots=True)
class OwnWholeGesture(TensorGesture, EditGesture):
    """Replicate the tensor on every device."""


@dataclass(frozen=True, slots=True)
class OpenDimGesture(TensorGesture, EditGesture):
    """Leave a dimension to propagation."""


@dataclass(frozen=True, slots=True)
class ByRulesGesture(TensorGesture, EditGesture):
    """Remove the override or constraint of this tensor."""


@dataclass(frozen=True, slots=True)
class TakeGesture(TensorGesture):
    """Pick up a chip to learn its legal drops; with a `menu` unless it is dragged."""

    key: Text1200 = ""
    menu: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class PreviewGesture(TensorGesture):
    """Preview a drop on each of the `targets`, of dimension `dim` or with `only` of its tensor alone; the pointer is on `target`."""

    key: Text1200 = ""
    dim: Text = ""
    targets: AxisNames = ()
    target: MaybeText = None
    add: Flag = False
    only: Flag = False

    def drop_on(self, target: str) -> Gesture:
        if self.only:
            return OwnGesture(self.of, self.path, self.rank, self.place, self.source, target=target, add=self.add)
        return DropGesture(self.dim, source=self.source or "", target=target, add=self.add)


# Annotations other than placements: open and closed dimensions, priorities, excluded axes, partial sums, groups, barriers.


@dataclass(frozen=True, slots=True)
class AnnotationGesture(TensorGesture, EditGesture):
    """An annotation of a tensor or value, of kind `what`."""

    verb: ClassVar[str] = "annotate"
    apart_by: ClassVar[str] = "what"

    @classmethod
    def unknown(cls, name: Any) -> LayoutError:
        return LayoutError(f"`{str(name)[:40]}` is not an annotation.", ["reload the page"])


@dataclass(frozen=True, slots=True)
class OpenGesture(AnnotationGesture):
    """Open a dimension to further axes, or close it on its present ones."""

    apart: ClassVar[str] = "open"
    open: Flag = False


@dataclass(frozen=True, slots=True)
class RoundGesture(AnnotationGesture):
    """Set the round in which a dimension propagates (Shardy's user priority)."""

    apart: ClassVar[str] = "priority"
    priority: Priority = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class KeepOutGesture(AnnotationGesture):
    """Exclude an axis from a tensor or value, or allow it again."""

    apart: ClassVar[str] = "keep_out"
    axis: Text80 = ""
    out: Flag = False


@dataclass(frozen=True, slots=True)
class UnreducedGesture(AnnotationGesture):
    """Leave the sum over an axis unreduced, or complete it again."""

    apart: ClassVar[str] = "unreduced"
    axis: Text80 = ""
    left: Flag = False


@dataclass(frozen=True, slots=True)
class GroupGesture(AnnotationGesture):
    """Group a tensor or value with `name`, so that both have the same sharding."""

    apart: ClassVar[str] = "tie"
    name: Text400 = ""


@dataclass(frozen=True, slots=True)
class BarrierGesture(AnnotationGesture):
    """Set the directions of propagation that pass; empty for both."""

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


# Gestures on a named dimension: its rule, axis order, name and user priority.


@dataclass(frozen=True, slots=True)
class DropGesture(EditGesture):
    """Drop a chip of zone `source` on zone `target`; `""` is unsharded, `add` keeps the present axes."""

    refused_by: ClassVar[tuple[str, ...]] = ("target",)
    dim: Needed
    source: Needed
    target: Needed
    add: Flag = False


@dataclass(frozen=True, slots=True)
class MajorGesture(EditGesture):
    """Make an axis of a dimension the major one."""

    dim: Needed
    axis: Needed


@dataclass(frozen=True, slots=True)
class WholeGesture(EditGesture):
    """Leave a dimension unsharded."""

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
