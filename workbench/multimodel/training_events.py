"""Events of a fleet's training or timing: frozen values that a listener matches by class.

Training emits `Progress` for its stages, `SchedulePredicted` before it begins and whenever a model has joined, and
`UnitDone` for each unit. The last event is exactly one of `TrainingDone`, `TimingDone`, `Failed` and `Cancelled`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.multimodel.unit_schedule import ScheduledUnit
from workbench.reports.run_events import Cancelled, Failed, Progress

# Commands to a training fleet, sent by the handle of `engine.start_fleet`.
#
# Each is answered by `CommandDone` or `CommandRefused`.


@dataclass(frozen=True)
class AddModel:
    """Train one more model; `payload` is the pickled model (`engine.add_model_command`)."""

    model: str
    payload: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class StopModel:
    """End a model after its current mini-batch; the others take over its share of the devices."""

    model: str


@dataclass(frozen=True)
class RemoveDevice:
    """Give the device with this number no further units."""

    device: int


@dataclass(frozen=True)
class ReturnDevice:
    """Give units to a removed device again."""

    device: int


FleetCommand = AddModel | StopModel | RemoveDevice | ReturnDevice
CommandQueue = SimpleQueue[FleetCommand]


@dataclass(frozen=True)
class SchedulePredicted:
    """The simulator's schedule of all current models, from timed units; seconds from the start of the run.

    - `names`: of the models; `predicted` refers to them by index; `bound`: lower bound on the makespan;
    - `resumed_units`: units done in each model's checkpoint; `unit_counts`: units of each model at its end.
    """

    names: tuple[str, ...]
    devices: int
    bound: float
    predicted: tuple[ScheduledUnit, ...]
    times: FleetTimes
    resumed_units: tuple[int, ...] = ()
    unit_counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class UnitDone:
    """The results of a unit are on the host: its model has `done` units of `of`.

    - `loss`: of the mini-batch, if the unit computed it; `placed`: where and when the unit ran;
    - `ended`: the reason if the model ends by itself before its last mini-batch.
    """

    model: str
    done: int
    of: int
    loss: float | None
    placed: ScheduledUnit
    ended: str = ""


@dataclass(frozen=True)
class ModelFailed:
    """The data of a model raised an error, with `done` of `of` started units on the host; the other models continue."""

    model: str
    done: int
    of: int
    message: str


@dataclass(frozen=True)
class CheckpointNotice:
    """Part of a model's checkpoint was damaged; `message` tells where the model resumes."""

    model: str
    message: str


@dataclass(frozen=True)
class CommandDone:
    """A command was carried out; a model added or stopped has `done` units of `of`. `AddModel` lacks its payload."""

    command: FleetCommand
    done: int | None = None
    of: int | None = None


@dataclass(frozen=True)
class CommandRefused:
    """A command was refused, with the reason."""

    command: FleetCommand
    message: str


@dataclass(frozen=True)
class TrainingDone:
    measurement: FleetMeasurement


@dataclass(frozen=True)
class TimingDone:
    times: FleetTimes


TrainingEvent = (
    Progress
    | SchedulePredicted
    | UnitDone
    | ModelFailed
    | CheckpointNotice
    | CommandDone
    | CommandRefused
    | TrainingDone
    | TimingDone
    | Failed
    | Cancelled
)
TrainingListener = Callable[[TrainingEvent], None]
