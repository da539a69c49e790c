"""Commands to a fleet while it trains: frozen values, which `engine.start_fleet`'s handle sends and the training answers.

Each is answered by `CommandDone` or `CommandRefused` (`training_events`).
"""

from dataclasses import dataclass, field
from queue import SimpleQueue


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
