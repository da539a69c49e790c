"""Gestures of the stage board: one verb, and a class for each pipeline setting."""

from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.errors import PipelineError, unknown_name
from workbench.widgets.gestures.gesture import EditGesture, Value

CHANGES = ("stages", "micro_batches", "chunks", "schedule", "remat", "engine", "axis", "boundary", "time", "memory", "buckets")
"""The settings of a pipeline that can be changed."""


@dataclass(frozen=True, slots=True)
class StageGesture(EditGesture):
    """A change of the pipeline; `value` is the user's choice or text."""

    verb: ClassVar[str] = "pipeline"
    apart_by: ClassVar[str] = "change"
    value: Value = ""

    @classmethod
    def unknown(cls, name: Any) -> PipelineError:
        return PipelineError(*unknown_name("change of a pipeline", str("" if name is None else name)[:40], CHANGES))


@dataclass(frozen=True, slots=True)
class MakePipelineGesture(StageGesture):
    """Create a first pipeline that suits the plan."""

    apart: ClassVar[str] = "make"


@dataclass(frozen=True, slots=True)
class RemovePipelineGesture(StageGesture):
    """Remove the pipeline."""

    apart: ClassVar[str] = "remove"


@dataclass(frozen=True, slots=True)
class StagesGesture(StageGesture):
    """Set the number of stages."""

    apart: ClassVar[str] = "stages"


@dataclass(frozen=True, slots=True)
class MicroBatchesGesture(StageGesture):
    """Set the number of micro-batches."""

    apart: ClassVar[str] = "micro_batches"


@dataclass(frozen=True, slots=True)
class ChunksGesture(StageGesture):
    """Set the number of chunks per stage."""

    apart: ClassVar[str] = "chunks"


@dataclass(frozen=True, slots=True)
class ScheduleGesture(StageGesture):
    """Choose another schedule."""

    apart: ClassVar[str] = "schedule"


@dataclass(frozen=True, slots=True)
class StageRematGesture(StageGesture):
    """Set the recomputation policy of a stage's backward pass."""

    apart: ClassVar[str] = "remat"


@dataclass(frozen=True, slots=True)
class EngineGesture(StageGesture):
    """Choose another engine to run the pipeline."""

    apart: ClassVar[str] = "engine"


@dataclass(frozen=True, slots=True)
class StageAxisGesture(StageGesture):
    """Choose another mesh axis for the stages."""

    apart: ClassVar[str] = "axis"


@dataclass(frozen=True, slots=True)
class BoundaryGesture(StageGesture):
    """Drop a stage boundary: `PIECE PATH`."""

    apart: ClassVar[str] = "boundary"


@dataclass(frozen=True, slots=True)
class BalanceTimeGesture(StageGesture):
    """Balance the stage boundaries by time."""

    apart: ClassVar[str] = "time"


@dataclass(frozen=True, slots=True)
class BalanceMemoryGesture(StageGesture):
    """Balance the stage boundaries by memory."""

    apart: ClassVar[str] = "memory"


@dataclass(frozen=True, slots=True)
class BucketsGesture(StageGesture):
    """Set the stage boundaries by lingvo's bucket rule."""

    apart: ClassVar[str] = "buckets"
