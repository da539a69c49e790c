"""Who trains a fleet for its board, and who times its units. The board knows this protocol only."""

from collections.abc import Callable
from typing import Any, Protocol

from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.widgets.run.runner import Event, RunHandle


class FleetHandle(RunHandle, Protocol):
    """A training under way."""

    def order(self, **order: Any) -> None:
        """Tell it something: `order="stop", model=name`, `order="leave", device=number`, `order="return"`, or what `adding` says."""
        ...


class FleetRunner(Protocol):
    """Starts work and returns at once. Events, those of `engine.start_fleet`, may come from another thread."""

    def train(self, fleet: Fleet, on_event: Callable[[Event], None]) -> FleetHandle:
        """Train the models; the last event holds a `FleetMeasurement`."""
        ...

    def adding(self, model: FleetModel) -> dict[str, Any]:
        """The order to take one more model in; raises `EngineError` if it cannot be sent."""
        ...

    def time(self, fleet: Fleet, on_event: Callable[[Event], None]) -> RunHandle:
        """Cut the models and time their units; the last event holds `FleetTimes`."""
        ...
