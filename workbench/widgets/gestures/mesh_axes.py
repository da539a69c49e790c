"""Gestures on the axes of the mesh. Sizes are texts that the user typed."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import AxisOrder, Needed, Shift
from workbench.widgets.gestures.gesture import EditGesture


@dataclass(frozen=True, slots=True)
class ResizeGesture(EditGesture):
    """Resize an axis."""

    verb: ClassVar[str] = "resize"
    axis: Needed
    size: Needed


@dataclass(frozen=True, slots=True)
class AddAxisGesture(EditGesture):
    """Add an axis, after the others."""

    verb: ClassVar[str] = "add_axis"
    refused_at: ClassVar[str] = "+"
    axis: Needed
    size: Needed


@dataclass(frozen=True, slots=True)
class RemoveAxisGesture(EditGesture):
    """Remove an axis."""

    verb: ClassVar[str] = "remove_axis"
    axis: Needed


@dataclass(frozen=True, slots=True)
class RenameAxisGesture(EditGesture):
    """Rename an axis."""

    verb: ClassVar[str] = "rename_axis"
    axis: Needed
    name: Needed


@dataclass(frozen=True, slots=True)
class ShiftAxisGesture(EditGesture):
    """Move an axis by one position among the others, -1 towards the major ones."""

    verb: ClassVar[str] = "shift_axis"
    axis: Needed
    by: Shift


@dataclass(frozen=True, slots=True)
class OrderAxesGesture(EditGesture):
    """Reorder all axes, after one of them was dragged."""

    verb: ClassVar[str] = "order_axes"
    names: AxisOrder
