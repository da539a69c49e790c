"""What a fleet does when a device or a model fails: a model whose data raise ends, the units of a device that fails are repeated by the
others, and a run that cannot go on says why."""

import time
from collections.abc import Sequence
from dataclasses import replace

from workbench.engine.fleet.device_and_host_arrays import FleetDevice
from workbench.engine.fleet.unit_scheduler import UnitDispatch, UnitScheduler
from workbench.errors import FleetError, WorkbenchError
from workbench.multimodel import ScheduledUnit
from workbench.multimodel.training_events import ModelFailed, TrainingListener


class Recovery:
    """Handles the failures of one run on its devices."""

    def __init__(self, scheduler: UnitScheduler, devices: Sequence[FleetDevice], tell: TrainingListener) -> None:
        self._scheduler, self._devices, self._tell = scheduler, devices, tell

    def give_up(self, device: FleetDevice, turn: UnitDispatch, error: WorkbenchError) -> None:
        """End the model before this unit, with the checkpoint that the units before it left; the others go on."""
        model_run = self._scheduler.model_runs[turn.model_run]
        with self._scheduler.changed:
            model_run.begun = model_run.last = turn.index
            model_run.failure, model_run.ended = error, f"failed: {error.message}"
            self._scheduler.release_unit(device, turn)
        self._tell(ModelFailed(model_run.model.name, model_run.done, turn.index, str(error)))

    def lose(self, device: FleetDevice, turn: UnitDispatch | None, error: Exception) -> None:
        """Handle the failure of a device: the units it was running or loading are given to the others."""
        began = self._scheduler.began
        with self._scheduler.changed:
            device.available, device.failure = False, None
            self._not_back(device)
            if turn is not None and turn.began is not None:
                begin, end = turn.began - began, time.perf_counter() - began
                lost = ScheduledUnit(turn.model_run, turn.index, device.number, begin, end, turn.since - began, lost=True)
                self._scheduler.placed.append(lost)
            self._scheduler.requeue_units(device)
            if not any(each.available for each in self._devices):
                self._scheduler.fail(FleetError(f"The last device failed: {str(error)[:300]}", ["resume from the checkpoint"]))
            self._scheduler.changed.notify_all()

    def verify_done(self) -> None:
        """Raise what made the run fail, if it did; called once no device works any more."""
        model_runs = self._scheduler.model_runs
        if self._scheduler.failure:
            raise self._scheduler.failure
        if (failed := [each.failure for each in model_runs if each.failure]) and len(failed) == len(model_runs):
            raise failed[0]
        if any(each.done < each.last for each in model_runs):
            raise FleetError("No device is left, but models are unfinished.", ["resume from the checkpoint"])

    def _not_back(self, device: FleetDevice) -> None:
        """Units that ran there and whose results did not come back are lost."""
        scheduler = self._scheduler
        begun = {(each.device, each.model_run, each.index) for each in scheduler.dispatches if each.device == device.number}
        placed = [replace(each, lost=True) if (each.device, each.model, each.unit) in begun else each for each in scheduler.placed]
        scheduler.placed = placed
