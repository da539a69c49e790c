"""Gestures on the mesh, the hardware and the tracing options, and gestures that accept a suggested edit or recipe."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.gesture import (
    AxisOrder,
    EditGesture,
    FlagUnlessFalse,
    Gesture,
    Needed,
    Needed200,
    Needed400,
    Purpose,
    RecipeAxes,
    Shift,
    Text,
    Text80,
)

# Gestures on the mesh axes. Sizes are text as the user typed it.


@dataclass(frozen=True, slots=True)
class ResizeGesture(EditGesture):
    """Resize an axis."""

    axis: Needed
    size: Needed


@dataclass(frozen=True, slots=True)
class AddAxisGesture(EditGesture):
    """Append an axis."""

    refused_at: ClassVar[str] = "+"
    axis: Needed
    size: Needed


@dataclass(frozen=True, slots=True)
class RemoveAxisGesture(EditGesture):
    """Remove an axis."""

    axis: Needed


@dataclass(frozen=True, slots=True)
class RenameAxisGesture(EditGesture):
    """Rename an axis."""

    axis: Needed
    name: Needed


@dataclass(frozen=True, slots=True)
class ShiftAxisGesture(EditGesture):
    """Move an axis by one position, -1 towards the major axes."""

    axis: Needed
    by: Shift


@dataclass(frozen=True, slots=True)
class OrderAxesGesture(EditGesture):
    """Reorder all axes after a drag."""

    names: AxisOrder


# Gestures on the hardware that the plan is for.

HARDWARE_ZONE = "hardware"
"""Zone of the hardware picker, which shows its refusals."""


@dataclass(frozen=True, slots=True)
class HardwareGesture(EditGesture):
    """Choose a chip of the catalogue and a shape; either may be empty, both for no hardware."""

    refused_at: ClassVar[str] = HARDWARE_ZONE
    chip: Needed
    shape: Needed200


@dataclass(frozen=True, slots=True)
class AxisAssignmentGesture(EditGesture):
    """Assign mesh axes to links; empty for the default."""

    verb: ClassVar[str] = "wiring"
    refused_at: ClassVar[str] = HARDWARE_ZONE
    name: Needed400


# Gestures on the tracing options.

PROGRAM_ZONE = "program"
"""Zone of the tracing options, which shows their refusals."""


@dataclass(frozen=True, slots=True)
class TracedAsGesture(EditGesture):
    """Set `remat`, `precision` or `offload` to `name`, as on the command line; empty for the default."""

    refused_at: ClassVar[str] = PROGRAM_ZONE
    option: Needed
    name: Needed400


# Gestures that accept suggested edits and recipes.


@dataclass(frozen=True, slots=True)
class MendGesture(EditGesture):
    """Apply an edit that a diagnostic or a tried remedy of the present report suggests, named by its text."""

    edit: Needed


@dataclass(frozen=True, slots=True)
class DecideGesture(Gesture):
    """Apply an edit found for a conflict or the minimal layout, named by its text."""

    edit: Text = ""


@dataclass(frozen=True, slots=True)
class TryEditsGesture(Gesture):
    """Search for remedies of one resharding."""

    refused_at: ClassVar[str] = "tools"
    key: Text = ""


@dataclass(frozen=True, slots=True)
class RecipesGesture(Gesture):
    """Open or close the list of recipes."""

    refused_at: ClassVar[str] = "tools"
    open: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class RecipeAxisGesture(Gesture):
    """Choose a mesh axis for one purpose of a recipe."""

    refused_at: ClassVar[str] = "tools"
    name: Text80 = ""
    place: Purpose = -1
    axis: Text80 = ""


@dataclass(frozen=True, slots=True)
class RecipeGesture(EditGesture):
    """Apply all edits of a recipe as one."""

    refused_at: ClassVar[str] = "tools"
    name: Text80 = ""
    axes: RecipeAxes = ()
