"""Gestures on a tensor, a value or a named dimension: its sharding and its annotations."""

from dataclasses import field
from typing import Any

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


class TensorGesture(Gesture, verb=""):
    """Target of a gesture: `of` is its kind, `place` a dimension, `source` the zone of the dragged chip."""

    of: Text = ""
    path: Text = ""
    rank: Rank = None
    place: Place = None
    source: MaybeText = None


class OwnGesture(TensorGesture, EditGesture):
    """Drop a dimension on an axis, for this tensor alone."""

    target: Text = ""
    add: Flag = False


class OwnWholeGesture(TensorGesture, EditGesture):
    """Replicate the tensor on every device."""


class OpenDimGesture(TensorGesture, EditGesture):
    """Leave a dimension to propagation."""


class ByRulesGesture(TensorGesture, EditGesture):
    """Remove the override or constraint of this tensor."""


class TakeGesture(TensorGesture):
    """Pick up a chip to learn its legal drops; with a `menu` unless it is dragged."""

    key: Text1200 = ""
    menu: FlagUnlessFalse = True


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


class AnnotationGesture(TensorGesture, EditGesture, verb="annotate", apart_by="what"):
    """An annotation of a tensor or value, of kind `what`."""

    @classmethod
    def unknown(cls, name: Any) -> LayoutError:
        return LayoutError(f"`{str(name)[:40]}` is not an annotation.", ["reload the page"])


class OpenGesture(AnnotationGesture, apart="open"):
    """Open a dimension to further axes, or close it on its present ones."""

    open: Flag = False


class RoundGesture(AnnotationGesture, apart="priority"):
    """Set the round in which a dimension propagates (Shardy's user priority)."""

    priority: Priority = field(kw_only=True)


class KeepOutGesture(AnnotationGesture, apart="keep_out"):
    """Exclude an axis from a tensor or value, or allow it again."""

    axis: Text80 = ""
    out: Flag = False


class UnreducedGesture(AnnotationGesture, apart="unreduced"):
    """Leave the sum over an axis unreduced, or complete it again."""

    axis: Text80 = ""
    left: Flag = False


class GroupGesture(AnnotationGesture, apart="tie"):
    """Group a tensor or value with `name`, so that both have the same sharding."""

    name: Text400 = ""


class BarrierGesture(AnnotationGesture, apart="barrier"):
    """Set the directions of propagation that pass; empty for both."""

    allows: Text20 = ""


class UngroupGesture(EditGesture, verb="untie"):
    """Remove a group, named by its text."""

    group: Text = ""


class UnbarGesture(EditGesture):
    """Remove a barrier, named by its value."""

    at: PathText = ""


# Gestures on a named dimension: its rule, axis order, name and user priority.


class DropGesture(EditGesture, refused_by=("target",)):
    """Drop a chip of zone `source` on zone `target`; `""` is unsharded, `add` keeps the present axes."""

    dim: Needed
    source: Needed
    target: Needed
    add: Flag = False


class MajorGesture(EditGesture):
    """Make an axis of a dimension the major one."""

    dim: Needed
    axis: Needed


class WholeGesture(EditGesture):
    """Leave a dimension unsharded."""

    dim: Needed


class RenameDimGesture(EditGesture):
    """Rename a dimension."""

    dim: Needed
    name: Needed


class PrioritizeGesture(EditGesture):
    """Set the user priority of a dimension's rule: the round in which it propagates; 0 is the first."""

    dim: Text200 = ""
    priority: Priority = field(kw_only=True)
