"""Annotations by hand other than placements: open and closed dimensions, priorities, excluded axes, partial sums, groups, barriers."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from workbench.errors import LayoutError
from workbench.widgets.gestures.fields import Flag, PathText, Priority, Text, Text20, Text80, Text400
from workbench.widgets.gestures.gesture import EditGesture
from workbench.widgets.gestures.one_tensor import TensorGesture


@dataclass(frozen=True, slots=True)
class AnnotationGesture(TensorGesture, EditGesture):
    """An annotation of a tensor or value; `what` says which."""

    verb: ClassVar[str] = "annotate"
    apart_by: ClassVar[str] = "what"

    @classmethod
    def unknown(cls, name: Any) -> LayoutError:
        """There is no such annotation."""
        return LayoutError(f"`{str(name)[:40]}` is no annotation.", ["reload the page"])


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

    verb: ClassVar[str] = "unbar"
    at: PathText = ""
