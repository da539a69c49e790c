"""Transfers between host and device around each unit: its state in before it runs, what it changed back afterwards."""

import time
from collections.abc import Callable

import jax

from workbench.engine.fleet.devices import Arrays, FleetDevice
from workbench.engine.fleet.model_run import ModelRun
from workbench.engine.fleet.shard_units import LOSS
from workbench.engine.fleet.unit_scheduler import UnitDispatch, UnitScheduler
from workbench.errors import WorkbenchError
from workbench.multimodel import ScheduledUnit
from workbench.multimodel.training_events import TrainingListener, UnitDone

GiveUp = Callable[[FleetDevice, UnitDispatch, WorkbenchError], None]


class Transfers:
    """Copies units' state to devices and their results back; `give_up` ends the model of a unit whose data raise."""

    def __init__(self, scheduler: UnitScheduler, tell: TrainingListener, give_up: GiveUp) -> None:
        self._scheduler, self._tell, self._give_up = scheduler, tell, give_up

    def bring(self, device: FleetDevice, turn: UnitDispatch) -> bool:
        """Copy in what is not on the device yet, once the units before have stored their results on the host (for a successor all of these
        but the last).

        `False` where the user's data raise: that ends their model.
        """
        model_run = self._scheduler.model_runs[turn.model_run]
        on_the_host = turn.index - 1 if turn.follows else turn.index
        self._scheduler.wait_for(device, model_run, on_the_host)
        start = time.perf_counter()
        step = turn.index // len(model_run.job.units)
        missing = [key for key in turn.unit.unit.reads if key not in turn.arrays]
        try:
            batch = {key: model_run.read_leaf(step, key[1]) for key in missing if key[0] == "batch"}
        except WorkbenchError as error:
            self._give_up(device, turn, error)
            return False
        found = batch | {key: model_run.store.get(key) for key in missing if key[0] != "batch"}
        turn.arrays |= device.copy_in(found, start)
        return True

    def take_back(self, device: FleetDevice, turn: UnitDispatch, written: Arrays, placed: ScheduledUnit) -> None:
        """Copy what the unit wrote to the host, after which the model may go on; if the device fails, its thread gets the error."""
        if device.failure is not None:  # the unit before this one is lost, and so is this
            return
        model_run = self._scheduler.model_runs[turn.model_run]
        size = sum(each.nbytes for each in written.values())
        try:
            result = written.pop(LOSS, None)
            loss = None if result is None else float(result)
            model_run.store.put(written)  # atomically, and last: the unit is repeated from the state that is there now
        except jax.errors.JaxRuntimeError as error:
            with self._scheduler.changed:
                device.failure = error
                self._scheduler.changed.notify_all()
            return
        model_run.store.drop(turn.unit.unit.frees)
        written.clear()
        turn.arrays.clear()
        if loss is not None:
            model_run.losses.append(loss)
        model_run.store.commit(model_run.position(turn.index + 1))
        self._advance(device, turn, model_run, loss)
        if device.timings:
            device.timings.copied_out.append((size, model_run.returned_at - self._scheduler.began - placed.end))
        self._tell(UnitDone(model_run.model.name, model_run.done, model_run.last, loss, placed, model_run.ended))

    def _advance(self, device: FleetDevice, turn: UnitDispatch, model_run: ModelRun, loss: float | None) -> None:
        """Advance the model by one unit; it ends where its loss says so."""
        with self._scheduler.changed:
            model_run.done, model_run.returned_at = turn.index + 1, time.perf_counter()
            if loss is not None and model_run.is_below_stop(loss) and not model_run.failure:
                self._scheduler.end(model_run)
                model_run.ended = model_run.ended or model_run.stopped_text(loss)
            self._scheduler.release_unit(device, turn)
