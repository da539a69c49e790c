"""The events that the training of a fleet, or the timing of its units, emits: frozen values that a listener matches by class.

A training emits `Progress` for its stages, `SchedulePredicted` before it begins and whenever a model has joined, then each `UnitDone`; one
of `TrainingDone`, `TimingDone`, `Failed` and `Cancelled` comes last, once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.multimodel.unit_schedule import ScheduledUnit
from workbench.reports.run_events import Cancelled, Failed, Progress

# Commands to a fleet while it trains: frozen values, which `engine.start_fleet`'s handle sends and the training answers.
#
# Each is answered by `CommandDone` or `CommandRefused` (`training_events`).


@dataclass(frozen=True)
class AddModel:
    """Train one more model; `engine.add_model_command` makes the payload: the model's pickle, in base64."""

    model: str
    payload: str = field(default="", repr=False)


@dataclass(frozen=True)
class StopModel:
    """End a model after its current mini-batch; the others get its share of the devices."""

    model: str


@dataclass(frozen=True)
class RemoveDevice:
    """Give a device, by its number, no further unit."""

    device: int


@dataclass(frozen=True)
class ReturnDevice:
    """Give a device that was removed units again."""

    device: int


FleetCommand = AddModel | StopModel | RemoveDevice | ReturnDevice
CommandQueue = SimpleQueue[FleetCommand]

FLEET_COMMANDS = {"add": AddModel, "stop": StopModel, "leave": RemoveDevice, "return": ReturnDevice}
"""Each member of `FleetCommand`, by its kind on the wire between processes."""


@dataclass(frozen=True)
class SchedulePredicted:
    """The simulator's schedule of all models so far, from units that were timed; seconds from the start of the run.

    - `names`: of the models, whose indices in this tuple are their numbers in `predicted`; `bound`: the lower bound on the makespan;
    - `resumed_units`: for each model the units that its checkpoint has done; `unit_counts`: how many each will have at its end.
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
    """A unit's results are on the host: its model has `done` so many units of the `of` that it will have.

    - `loss`: of the mini-batch, if the unit computed it; `placed`: where and when it ran;
    - `ended`: in words, why the model ends before its last mini-batch, if it does so by itself.
    """

    model: str
    done: int
    of: int
    loss: float | None
    placed: ScheduledUnit
    ended: str = ""


@dataclass(frozen=True)
class ModelFailed:
    """A model's data raised, with `done` units of the `of` begun ones on the host; the other models go on."""

    model: str
    done: int
    of: int
    message: str


@dataclass(frozen=True)
class CheckpointNotice:
    """A part of a model's checkpoint was damaged; the text says from where it resumes."""

    model: str
    message: str


@dataclass(frozen=True)
class CommandDone:
    """A command was carried out; for a model that was added or stopped, it has `done` units of the `of` that it will have.

    An `AddModel` comes back without its payload.
    """

    command: FleetCommand
    done: int | None = None
    of: int | None = None


@dataclass(frozen=True)
class CommandRefused:
    """A command was not carried out, and why; `command` is `None` for one that could not be read."""

    command: FleetCommand | None
    message: str


@dataclass(frozen=True)
class TrainingDone:
    """The training has ended with what it measured."""

    measurement: FleetMeasurement


@dataclass(frozen=True)
class TimingDone:
    """The timing has ended with the seconds of all units."""

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

TRAINING_EVENTS = {
    "progress": Progress,
    "schedule": SchedulePredicted,
    "unit": UnitDone,
    "model failed": ModelFailed,
    "notice": CheckpointNotice,
    "command done": CommandDone,
    "command refused": CommandRefused,
    "training done": TrainingDone,
    "timing done": TimingDone,
    "failed": Failed,
    "cancelled": Cancelled,
}
"""Each member of `TrainingEvent`, by its kind on the wire between processes."""
