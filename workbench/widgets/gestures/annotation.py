"""Annotations by hand, beside the placements: open and closed dimensions, rounds, axes kept out, partial sums, groups, barriers."""

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
    """One of its dimensions opened to further axes, or closed on those it has."""

    apart: ClassVar[str] = "open"
    open: Flag = False


@dataclass(frozen=True, slots=True)
class RoundGesture(AnnotationGesture):
    """The round in which one of its dimensions spreads."""

    apart: ClassVar[str] = "priority"
    priority: Priority = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class KeepOutGesture(AnnotationGesture):
    """An axis kept out of it, or let in again."""

    apart: ClassVar[str] = "keep_out"
    axis: Text80 = ""
    out: Flag = False


@dataclass(frozen=True, slots=True)
class UnreducedGesture(AnnotationGesture):
    """The sum over an axis left to do, or done again."""

    apart: ClassVar[str] = "unreduced"
    axis: Text80 = ""
    left: Flag = False


@dataclass(frozen=True, slots=True)
class GroupGesture(AnnotationGesture):
    """Grouped with what `name` names, so that both lie alike."""

    apart: ClassVar[str] = "tie"
    name: Text400 = ""


@dataclass(frozen=True, slots=True)
class BarrierGesture(AnnotationGesture):
    """What of shardings it lets pass; empty for all."""

    apart: ClassVar[str] = "barrier"
    allows: Text20 = ""


@dataclass(frozen=True, slots=True)
class UngroupGesture(EditGesture):
    """A group taken back, named by its text."""

    verb: ClassVar[str] = "untie"
    group: Text = ""


@dataclass(frozen=True, slots=True)
class UnbarGesture(EditGesture):
    """A barrier taken back, named by its place."""

    verb: ClassVar[str] = "unbar"
    at: PathText = ""
