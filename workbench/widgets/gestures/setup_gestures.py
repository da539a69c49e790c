"""Gestures on the mesh, the hardware and how the program is traced, and those that accept a suggested edit or a recipe."""

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

# Gestures on the axes of the mesh. Sizes are texts that the user typed.


@dataclass(frozen=True, slots=True)
class ResizeGesture(EditGesture):
    """Resize an axis."""

    axis: Needed
    size: Needed


@dataclass(frozen=True, slots=True)
class AddAxisGesture(EditGesture):
    """Add an axis, after the others."""

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
    """Move an axis by one position among the others, -1 towards the major ones."""

    axis: Needed
    by: Shift


@dataclass(frozen=True, slots=True)
class OrderAxesGesture(EditGesture):
    """Reorder all axes, after one of them was dragged."""

    names: AxisOrder


# Gestures on the hardware that the plan is for.

HARDWARE_ZONE = "hardware"
"""Where the hardware is chosen: a refusal there is shown under its field."""


@dataclass(frozen=True, slots=True)
class HardwareGesture(EditGesture):
    """Choose a chip of the catalogue and a shape; either may be empty, and without both there is no hardware."""

    refused_at: ClassVar[str] = HARDWARE_ZONE
    chip: Needed
    shape: Needed200


@dataclass(frozen=True, slots=True)
class AxisAssignmentGesture(EditGesture):
    """Set which mesh axis runs over which links; empty for the default."""

    verb: ClassVar[str] = "wiring"
    refused_at: ClassVar[str] = HARDWARE_ZONE
    name: Needed400


# Gestures on how the program is traced.

PROGRAM_ZONE = "program"
"""Where it is chosen how the program is traced: a refusal there is shown under it."""


@dataclass(frozen=True, slots=True)
class TracedAsGesture(EditGesture):
    """Choose `remat`, `precision` or `offload`, as `name`, a text of the command line; an empty one is the default."""

    refused_at: ClassVar[str] = PROGRAM_ZONE
    option: Needed
    name: Needed400


# Gestures that accept what the workbench offers: suggested edits and recipes.


@dataclass(frozen=True, slots=True)
class MendGesture(EditGesture):
    """Make an edit that a diagnostic or a tried remedy of the present report suggests, named by its text."""

    edit: Needed


@dataclass(frozen=True, slots=True)
class DecideGesture(Gesture):
    """Make an edit that was found for a conflict or the fewest statements, named by its text."""

    edit: Text = ""


@dataclass(frozen=True, slots=True)
class TryEditsGesture(Gesture):
    """Search remedies for one resharding."""

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
    """Apply all the edits of a recipe as one."""

    refused_at: ClassVar[str] = "tools"
    name: Text80 = ""
    axes: RecipeAxes = ()
