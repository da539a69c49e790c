"""Choose the next unit of each device, under one lock, with the policy code of the simulator."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from workbench.engine.fleet.device_and_host_arrays import Arrays, FleetDevice
from workbench.engine.fleet.model_run import ModelRun, find_run
from workbench.engine.fleet.partitioned_model import CompiledUnit
from workbench.errors import FleetError, WorkbenchError
from workbench.multimodel import Candidate, Policy, ScheduledUnit
from workbench.multimodel.training_events import ModelFailed, TrainingListener


@dataclass(eq=False)
class UnitDispatch:
    """One unit dispatched to one device."""

    device: int
    model_run: int
    index: int
    unit: CompiledUnit
    arrays: Arrays
    since: float
    follows: bool  # whether it is the successor of the preceding unit on the device, which may still run
    overwrites: bool = False  # whether it overwrites results of that unit, which must be on the host first
    after: float | None = None  # end of the preceding unit on the device, if this one was chosen by then
    began: float | None = None  # start of computation
    claimed: int = 0  # bytes claimed on the device
    following: "UnitDispatch | None" = None


class UnitScheduler:
    """Models and dispatched units. `changed` is the lock, notified when anything becomes free; `failure` ends the run."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.model_runs: list[ModelRun] = []
        self.dispatches: list[UnitDispatch] = []  # without results on the host so far
        self.placed: list[ScheduledUnit] = []  # finished units
        self.ended = False  # all devices have stopped
        self.changed = threading.Condition()
        self.failure: BaseException | None = None
        self.decisions, self.decision_seconds = 0, 0.0
        self.began = 0.0

    def fail(self, error: BaseException) -> None:
        """Record a failure; only the first is reported."""
        with self.changed:
            self.failure = self.failure or error
            self.changed.notify_all()

    def next_unit(self, device: FleetDevice) -> UnitDispatch | None:
        """Return the device's next unit once a model is idle; `None` once all are done. Raises the device's error."""
        with self.changed:
            while self._is_running(device) and device.available:
                candidates = [] if device.reserved else self._list_idle()
                if candidates:
                    return self._dispatch_unit(device, self._choose_model(candidates), {}, follows=False)
                if all(model_run.done >= model_run.last for model_run in self.model_runs):
                    return None
                self.changed.wait()
            return None

    def choose_ahead(self, device: FleetDevice, dispatch: UnitDispatch, written: Arrays) -> UnitDispatch | None:
        """Return the unit to load while `dispatch` runs, whose successor needs no transfer; `None` if none fits."""
        with self.changed:
            follows = dispatch.index + 1 < self.model_runs[dispatch.model_run].last
            candidates = [*([self._candidate(dispatch.model_run, here=True)] if follows else []), *self._list_idle()]
            if not candidates or self.failure or not device.available or device.reserved:
                return None
            chosen = self._choose_model(candidates)
            if not device.fits(self._unit(chosen, device).input_bytes):
                return None  # retried after the running unit: waiting for memory that it holds would deadlock
            if chosen != dispatch.model_run:
                return self._dispatch_unit(device, chosen, {}, follows=False)
            retained = {key: array for key, array in dispatch.arrays.items() if key not in written and key[0] != "batch"}
            return self._dispatch_unit(device, chosen, retained | written, follows=True)

    def wait_for(self, device: FleetDevice, model_run: ModelRun, done: int) -> None:
        """Wait until `done` units of a model are on the host. Raises the device's error if it has failed."""
        with self.changed:
            while model_run.done < done and self._is_running(device):
                self.changed.wait()

    def claim(self, device: FleetDevice, count: int, own_bytes: int, dispatch: UnitDispatch) -> None:
        """Claim memory once results have left it, unless the size can never fit. Raises the device's error."""
        while self._is_running(device) and not device.fits(count) and device.used_bytes > own_bytes:
            self.changed.wait()
        device.claim(count, f"Unit {dispatch.index} of `{self.model_runs[dispatch.model_run].model.name}`")
        dispatch.claimed += count

    def release_unit(self, device: FleetDevice, dispatch: UnitDispatch) -> None:
        self.dispatches.remove(dispatch)
        device.release(dispatch.claimed)
        self.changed.notify_all()

    def end(self, model_run: ModelRun) -> None:
        """End the model after its current mini-batch."""
        length = len(model_run.job.units)
        model_run.last = min(model_run.last, -(-model_run.begun // length) * length)
        self.changed.notify_all()

    def requeue_units(self, device: FleetDevice) -> None:
        """Return the device's unfinished units to the scheduler.

        All at once, and only when the device can no longer complete any of them; otherwise two devices would run the
        same unit.
        """
        for dispatch in [dispatch for dispatch in self.dispatches if dispatch.device == device.number]:
            self.release_unit(device, dispatch)
            self.model_runs[dispatch.model_run].begun = self.model_runs[dispatch.model_run].done

    def progress_of(self, model_run: ModelRun) -> Mapping[str, int]:
        with self.changed:
            return {"done": model_run.done, "of": model_run.last}

    def _is_running(self, device: FleetDevice) -> bool:
        """Return `False` once the run has failed; raises the device's error if it has failed."""
        device.verify_sound()
        return self.failure is None

    def _list_idle(self) -> list[Candidate]:
        return [self._candidate(i) for i, model_run in enumerate(self.model_runs) if model_run.is_idle]

    def _choose_model(self, candidates: list[Candidate]) -> int:
        start = time.perf_counter()
        chosen = self.policy.choose(candidates, self.decisions).model
        self.decision_seconds += time.perf_counter() - start
        self.decisions += 1
        return chosen

    def _candidate(self, number: int, *, here: bool = False) -> Candidate:
        model_run = self.model_runs[number]
        begun, job = model_run.begun, model_run.job
        return Candidate(number, job.remaining(begun), job.unit(begun).seconds, model_run.started, here, begun)

    def _unit(self, chosen: int, device: FleetDevice) -> CompiledUnit:
        model_run = self.model_runs[chosen]
        return model_run.units[device.number][model_run.begun % len(model_run.job.units)]

    def _dispatch_unit(self, device: FleetDevice, chosen: int, arrays_near: Arrays, *, follows: bool) -> UnitDispatch:
        model_run, unit = self.model_runs[chosen], self._unit(chosen, device)
        now = time.perf_counter()
        local_arrays = {key: arrays_near[key] for key in unit.unit.reads if key in arrays_near}
        overwrites = any(unit.unit.reads[index_in_reads] in local_arrays for index_in_reads in unit.unit.donated)
        dispatch = UnitDispatch(device.number, chosen, model_run.begun, unit, local_arrays, now, follows, overwrites)
        self.dispatches.append(dispatch)
        model_run.begun += 1
        model_run.started = now - self.began
        self.claim(device, unit.input_bytes, 0, dispatch)
        return dispatch


# Models and devices that join or leave a run in progress or fail, and device memory reserved for timing a new model.
#
# A model whose data raises an error ends; other devices repeat the units of a failed one; a run that cannot continue
# reports why.


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
