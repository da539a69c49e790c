"""Train and time fleets in worker processes of the engine, which is imported on the first request."""

from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.training_commands import AddModel
from workbench.multimodel.training_events import TrainingListener
from workbench.widgets.fleet.fleet_runner import FleetHandle
from workbench.widgets.run.runner import RunHandle


class WorkerFleetRunner:
    """In worker processes, through the engine."""

    def train(self, fleet: Fleet, on_event: TrainingListener) -> FleetHandle:
        from workbench.engine import start_fleet

        handle: FleetHandle = start_fleet(fleet, on_event)
        return handle

    def time(self, fleet: Fleet, on_event: TrainingListener) -> RunHandle:
        from workbench.engine import start_timing

        handle: RunHandle = start_timing(fleet, on_event)
        return handle

    def add_model_command(self, model: FleetModel) -> AddModel:
        from workbench.engine import add_model_command

        return add_model_command(model)
