"""What a hand does on the stage board: one verb, and a member for each thing that changes."""

from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.errors import PipelineError, unknown_name
from workbench.widgets.gestures.fields import Value
from workbench.widgets.gestures.gesture import EditGesture

CHANGES = ("stages", "micro_batches", "chunks", "schedule", "remat", "engine", "axis", "boundary", "time", "memory", "buckets")
"""What of a pipeline that is there can be another."""


@dataclass(frozen=True, slots=True)
class StageGesture(EditGesture):
    """Something else of the pipeline; `value` is what a person chose or typed."""

    verb: ClassVar[str] = "pipeline"
    apart_by: ClassVar[str] = "change"
    value: Value = ""

    @classmethod
    def unknown(cls, name: Any) -> PipelineError:
        """Nothing of a pipeline is called so."""
        return PipelineError(*unknown_name("change of a pipeline", str("" if name is None else name)[:40], CHANGES))


@dataclass(frozen=True, slots=True)
class MakePipelineGesture(StageGesture):
    """A first pipeline, such as fits the plan."""

    apart: ClassVar[str] = "make"


@dataclass(frozen=True, slots=True)
class RemovePipelineGesture(StageGesture):
    """No pipeline any more."""

    apart: ClassVar[str] = "remove"


@dataclass(frozen=True, slots=True)
class StagesGesture(StageGesture):
    """Another number of stages."""

    apart: ClassVar[str] = "stages"


@dataclass(frozen=True, slots=True)
class MicroBatchesGesture(StageGesture):
    """Another number of micro-batches."""

    apart: ClassVar[str] = "micro_batches"


@dataclass(frozen=True, slots=True)
class ChunksGesture(StageGesture):
    """Another number of chunks a stage."""

    apart: ClassVar[str] = "chunks"


@dataclass(frozen=True, slots=True)
class ScheduleGesture(StageGesture):
    """Another schedule."""

    apart: ClassVar[str] = "schedule"


@dataclass(frozen=True, slots=True)
class StageRematGesture(StageGesture):
    """What a stage computes again for its backward pass."""

    apart: ClassVar[str] = "remat"


@dataclass(frozen=True, slots=True)
class EngineGesture(StageGesture):
    """Another engine to run it."""

    apart: ClassVar[str] = "engine"


@dataclass(frozen=True, slots=True)
class StageAxisGesture(StageGesture):
    """Another mesh axis for the stages."""

    apart: ClassVar[str] = "axis"


@dataclass(frozen=True, slots=True)
class BoundaryGesture(StageGesture):
    """A boundary between stages dropped: `PIECE PATH`."""

    apart: ClassVar[str] = "boundary"


@dataclass(frozen=True, slots=True)
class BalanceTimeGesture(StageGesture):
    """Boundaries balanced by time."""

    apart: ClassVar[str] = "time"


@dataclass(frozen=True, slots=True)
class BalanceMemoryGesture(StageGesture):
    """Boundaries balanced by memory."""

    apart: ClassVar[str] = "memory"


@dataclass(frozen=True, slots=True)
class BucketsGesture(StageGesture):
    """Boundaries by lingvo's bucket rule."""

    apart: ClassVar[str] = "buckets"
