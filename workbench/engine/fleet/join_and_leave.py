"""Models and devices that join or leave a run in progress or fail, and device memory reserved for timing a new model.

A model whose data raises an error ends; other devices repeat the units of a failed one; a run that cannot continue
reports why.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from workbench.engine.fleet.device_and_host_arrays import FleetDevice
from workbench.engine.fleet.model_run import ModelRun, find_run
from workbench.engine.fleet.unit_scheduler import UnitDispatch, UnitScheduler
from workbench.errors import FleetError, WorkbenchError
from workbench.multimodel import ScheduledUnit
from workbench.multimodel.training_events import ModelFailed, TrainingListener


class Membership:
    """Adds and removes models and devices of one run; thread-safe. `start` starts a device in a new thread."""

    def __init__(
        self, scheduler: UnitScheduler, devices: Sequence[FleetDevice], start: Callable[[FleetDevice], None], tell: TrainingListener
    ) -> None:
        self._scheduler, self._devices, self._start, self._tell = scheduler, devices, start, tell

    def add(self, model_run: ModelRun) -> None:
        """Add one more model; raises `FleetError` once all others are done."""
        scheduler = self._scheduler
        with scheduler.changed:
            self.verify_running(model_run.model.name)
            scheduler.model_runs.append(model_run)
            if scheduler.began:
                model_run.arrival_time = time.perf_counter() - scheduler.began
                for device in self._devices:
                    if device.available:  # its thread may have ended for lack of work
                        self._start(device)
            scheduler.changed.notify_all()

    def verify_running(self, newcomer: str) -> None:
        if self._scheduler.ended:
            raise FleetError(f"Model `{newcomer}` was added too late: the run has ended.", ["train it in a separate run"])

    def stop(self, name: str) -> None:
        """End the model after its current mini-batch, which frees devices for the others."""
        with self._scheduler.changed:
            self._scheduler.end(find_run(self._scheduler.model_runs, name))

    def progress_of(self, name: str) -> Mapping[str, int]:
        return self._scheduler.progress_of(find_run(self._scheduler.model_runs, name))

    @contextmanager
    def room(self, number: int, count: int) -> Iterator[None]:
        """Reserve `count` bytes of a device for other work than units, before its next unit, once they are free."""
        device, scheduler = self._device(number), self._scheduler
        with scheduler.changed:
            device.reserved += 1
            try:
                while not device.fits(count) and device.used_bytes and scheduler.failure is None:
                    scheduler.changed.wait()
            finally:
                device.reserved -= 1
                scheduler.changed.notify_all()
            device.claim(count, "What is timed")
        try:
            yield
        finally:
            with scheduler.changed:
                device.release(count)
                scheduler.changed.notify_all()

    def leave(self, number: int) -> None:
        device = self._device(number)
        with self._scheduler.changed:
            device.available = False
            self._scheduler.changed.notify_all()

    def return_device(self, number: int) -> None:
        device = self._device(number)
        with self._scheduler.changed:
            if not device.available:
                device.available = True
                self._start(device)

    def give_up(self, device: FleetDevice, turn: UnitDispatch, error: WorkbenchError) -> None:
        """End the model before this unit, with the checkpoint of its earlier units; the other models continue."""
        model_run = self._scheduler.model_runs[turn.model_run]
        with self._scheduler.changed:
            model_run.begun = model_run.last = turn.index
            model_run.failure, model_run.ended = error, f"failed: {error.message}"
            self._scheduler.release_unit(device, turn)
        self._tell(ModelFailed(model_run.model.name, model_run.done, turn.index, str(error)))

    def lose(self, device: FleetDevice, turn: UnitDispatch | None, error: Exception) -> None:
        """Handle the failure of a device: other devices take over its running and loading units."""
        start = self._scheduler.began
        with self._scheduler.changed:
            device.available, device.failure = False, None
            self._mark_lost_units(device)
            if turn is not None and turn.began is not None:
                begin, end = turn.began - start, time.perf_counter() - start
                lost = ScheduledUnit(turn.model_run, turn.index, device.number, begin, end, turn.since - start, lost=True)
                self._scheduler.placed.append(lost)
            self._scheduler.requeue_units(device)
            if not any(other.available for other in self._devices):
                self._scheduler.fail(FleetError(f"The last device failed: {str(error)[:300]}", ["resume from the checkpoint"]))
            self._scheduler.changed.notify_all()

    def verify_done(self) -> None:
        """Raise the error of the run, if any; called once all devices have stopped."""
        model_runs = self._scheduler.model_runs
        if self._scheduler.failure:
            raise self._scheduler.failure
        if (failed := [run.failure for run in model_runs if run.failure]) and len(failed) == len(model_runs):
            raise failed[0]
        if any(run.done < run.last for run in model_runs):
            raise FleetError("No device is left, and models are unfinished.", ["resume from the checkpoint"])

    def _mark_lost_units(self, device: FleetDevice) -> None:
        scheduler = self._scheduler
        lost_units = {(turn.device, turn.model_run, turn.index) for turn in scheduler.dispatches if turn.device == device.number}
        placed = [replace(unit, lost=True) if (unit.device, unit.model, unit.unit) in lost_units else unit for unit in scheduler.placed]
        scheduler.placed = placed

    def _device(self, number: object) -> FleetDevice:
        if type(number) is not int or not 0 <= number < len(self._devices):
            raise FleetError(f"There is no device {number!r} in this run.", [f"they are the numbers 0 to {len(self._devices) - 1}"])
        return self._devices[number]
