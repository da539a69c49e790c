"""Gestures on the mesh, the hardware and the tracing options, and gestures that accept a suggested edit or recipe."""

from typing import Any

from workbench.errors import PipelineError, unknown_name
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
    Value,
)

# Gestures on the mesh axes. Sizes are text as the user typed it.


class ResizeGesture(EditGesture):
    """Resize an axis."""

    axis: Needed
    size: Needed


class AddAxisGesture(EditGesture, refused_at="+"):
    """Append an axis."""

    axis: Needed
    size: Needed


class RemoveAxisGesture(EditGesture):
    """Remove an axis."""

    axis: Needed


class RenameAxisGesture(EditGesture):
    """Rename an axis."""

    axis: Needed
    name: Needed


class ShiftAxisGesture(EditGesture):
    """Move an axis by one position, -1 towards the major axes."""

    axis: Needed
    by: Shift


class OrderAxesGesture(EditGesture):
    """Reorder all axes after a drag."""

    names: AxisOrder


# Gestures on the hardware that the plan is for.

HARDWARE_ZONE = "hardware"
"""Zone of the hardware picker, which shows its refusals."""


class HardwareGesture(EditGesture, refused_at=HARDWARE_ZONE):
    """Choose a chip of the catalogue and a shape; either may be empty, both for no hardware."""

    chip: Needed
    shape: Needed200


class AxisAssignmentGesture(EditGesture, verb="wiring", refused_at=HARDWARE_ZONE):
    """Assign mesh axes to links; empty for the default."""

    name: Needed400


# Gestures on the tracing options.

PROGRAM_ZONE = "program"
"""Zone of the tracing options, which shows their refusals."""


class TracedAsGesture(EditGesture, refused_at=PROGRAM_ZONE):
    """Set `remat`, `precision` or `offload` to `name`, as on the command line; empty for the default."""

    option: Needed
    name: Needed400


# Gestures that accept suggested edits and recipes.


class MendGesture(EditGesture):
    """Apply an edit that a diagnostic or a tried remedy of the present report suggests, named by its text."""

    edit: Needed


class DecideGesture(Gesture):
    """Apply an edit found for a conflict or the minimal layout, named by its text."""

    edit: Text = ""


class TryEditsGesture(Gesture, refused_at="tools"):
    """Search for remedies of one resharding."""

    key: Text = ""


class RecipesGesture(Gesture, refused_at="tools"):
    """Open or close the list of recipes."""

    open: FlagUnlessFalse = True


class RecipeAxisGesture(Gesture, refused_at="tools"):
    """Choose a mesh axis for one purpose of a recipe."""

    name: Text80 = ""
    place: Purpose = -1
    axis: Text80 = ""


class RecipeGesture(EditGesture, refused_at="tools"):
    """Apply all edits of a recipe as one."""

    name: Text80 = ""
    axes: RecipeAxes = ()


# Gestures of the stage board: one verb, and a class for each pipeline setting.


CHANGES = ("stages", "micro_batches", "chunks", "schedule", "remat", "engine", "axis", "boundary", "time", "memory", "buckets")
"""The settings of a pipeline that can be changed."""


class StageGesture(EditGesture, verb="pipeline", apart_by="change"):
    """A change of the pipeline; `value` is the user's choice or text."""

    value: Value = ""

    @classmethod
    def unknown(cls, name: Any) -> PipelineError:
        return PipelineError(*unknown_name("change of a pipeline", str("" if name is None else name)[:40], CHANGES))


class MakePipelineGesture(StageGesture, apart="make"):
    """Create a first pipeline that suits the plan."""


class RemovePipelineGesture(StageGesture, apart="remove"):
    """Remove the pipeline."""


class StagesGesture(StageGesture, apart="stages"):
    """Set the number of stages."""


class MicroBatchesGesture(StageGesture, apart="micro_batches"):
    """Set the number of micro-batches."""


class ChunksGesture(StageGesture, apart="chunks"):
    """Set the number of chunks per stage."""


class ScheduleGesture(StageGesture, apart="schedule"):
    """Choose another schedule."""


class StageRematGesture(StageGesture, apart="remat"):
    """Set the recomputation policy of a stage's backward pass."""


class EngineGesture(StageGesture, apart="engine"):
    """Choose another engine to run the pipeline."""


class StageAxisGesture(StageGesture, apart="axis"):
    """Choose another mesh axis for the stages."""


class BoundaryGesture(StageGesture, apart="boundary"):
    """Drop a stage boundary: `PIECE PATH`."""


class BalanceTimeGesture(StageGesture, apart="time"):
    """Balance the stage boundaries by time."""


class BalanceMemoryGesture(StageGesture, apart="memory"):
    """Balance the stage boundaries by memory."""


class BucketsGesture(StageGesture, apart="buckets"):
    """Set the stage boundaries by lingvo's bucket rule."""
