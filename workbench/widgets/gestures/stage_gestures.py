"""Gestures of the stage board: one verb, and a class for each pipeline setting."""

from typing import Any

from workbench.errors import PipelineError, unknown_name
from workbench.widgets.gestures.gesture import EditGesture, Value

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
