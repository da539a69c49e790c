"""The protocol of a runner, which trains a fleet for its board, and times its units. The board knows only this."""

from typing import Protocol

from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.training_commands import AddModel, FleetCommand
from workbench.multimodel.training_events import TrainingListener
from workbench.widgets.run.runner import RunHandle


class FleetHandle(RunHandle, Protocol):
    """A training under way."""

    def send(self, command: FleetCommand) -> None:
        """Send a command; an event answers it."""
        ...


class FleetRunner(Protocol):
    """Starts work and returns at once. Events, those of `engine.start_fleet`, may come from another thread."""

    def train(self, fleet: Fleet, on_event: TrainingListener) -> FleetHandle:
        """Train the models; the last event holds a `FleetMeasurement`."""
        ...

    def add_model_command(self, model: FleetModel) -> AddModel:
        """The command to add one more model; raises `EngineError` if it cannot be sent."""
        ...

    def time(self, fleet: Fleet, on_event: TrainingListener) -> RunHandle:
        """Partition the models and time their units; the last event holds `FleetTimes`."""
        ...
