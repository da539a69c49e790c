"""Fleets trained and timed in worker processes of the engine, which is imported when a person asks for the first."""

from collections.abc import Callable
from typing import Any

from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.widgets.fleet.runner import FleetHandle
from workbench.widgets.run.runner import Event, RunHandle


class WorkerFleetRunner:
    """In worker processes, through the engine."""

    def train(self, fleet: Fleet, on_event: Callable[[Event], None]) -> FleetHandle:
        from workbench.engine import start_fleet

        handle: FleetHandle = start_fleet(fleet, on_event)
        return handle

    def time(self, fleet: Fleet, on_event: Callable[[Event], None]) -> RunHandle:
        from workbench.engine import start_timing

        handle: RunHandle = start_timing(fleet, on_event)
        return handle

    def adding(self, model: FleetModel) -> dict[str, Any]:
        from workbench.engine.worker.job_payload import adding

        return adding(model)
