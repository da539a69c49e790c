"""Chooses which unit a device runs next, under one lock, with the same policy code as the simulator."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.engine.fleet.device_and_host_arrays import Arrays, FleetDevice
from workbench.engine.fleet.model_run import ModelRun
from workbench.engine.fleet.partitioned_model import CompiledUnit
from workbench.multimodel import Candidate, Policy, ScheduledUnit


@dataclass(eq=False)
class UnitDispatch:
    """One unit on one device, from the decision on."""

    device: int
    model_run: int
    index: int
    unit: CompiledUnit
    arrays: Arrays
    since: float
    follows: bool  # for the unit before it, on the same device, which may still run
    overwrites: bool = False  # what that unit leaves behind, which must be on the host first
    after: float | None = None  # when the unit before it on the device ended, if it was chosen by then
    began: float | None = None  # of computation
    claimed: int = 0  # claimed on the device
    following: "UnitDispatch | None" = None


class UnitScheduler:
    """The models, and the units under way. `changed` is the lock, notified when a model, device or memory is free; a `failure` ends all."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.model_runs: list[ModelRun] = []
        self.dispatches: list[UnitDispatch] = []  # dispatched, and not yet back on the host
        self.placed: list[ScheduledUnit] = []  # the units that have run
        self.ended = False  # no device works any more
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
        """The device's next unit, as soon as a model is idle; `None` once all are done: until then another device may fail, and its units
        are to be repeated. Raises the error the device failed with."""
        with self.changed:
            while self._is_running(device) and device.available:
                candidates = [] if device.reserved else self._list_idle()
                if candidates:
                    return self._dispatch_unit(device, self._choose_model(candidates), {}, follows=False)
                if all(each.done >= each.last for each in self.model_runs):
                    return None
                self.changed.wait()
            return None

    def choose_ahead(self, device: FleetDevice, dispatch: UnitDispatch, written: Arrays) -> UnitDispatch | None:
        """The unit that follows `dispatch`, chosen while that runs; `None` where nothing can be loaded beside it.

        The successor of the running unit on the same device needs no transfer of what that leaves behind.
        """
        with self.changed:
            follows = dispatch.index + 1 < self.model_runs[dispatch.model_run].last
            candidates = [*([self._candidate(dispatch.model_run, here=True)] if follows else []), *self._list_idle()]
            if not candidates or self.failure or not device.available or device.reserved:
                return None
            chosen = self._choose_model(candidates)
            if not device.fits(self._unit(chosen, device).input_bytes):
                return None  # asked again when this one is done: waiting here for memory that this one holds would deadlock
            if chosen != dispatch.model_run:
                return self._dispatch_unit(device, chosen, {}, follows=False)
            retained = {key: array for key, array in dispatch.arrays.items() if key not in written and key[0] != "batch"}
            return self._dispatch_unit(device, chosen, retained | written, follows=True)

    def wait_for(self, device: FleetDevice, model_run: ModelRun, done: int) -> None:
        """Wait until so many units of a model are on the host. Raises the error the device failed with."""
        with self.changed:
            while model_run.done < done and self._is_running(device):
                self.changed.wait()

    def claim(self, device: FleetDevice, count: int, own_bytes: int, dispatch: UnitDispatch) -> None:
        """Claim memory, once results under way to the host have left it; the device refuses what can never fit. Raises the error it failed
        with."""
        while self._is_running(device) and not device.fits(count) and device.used_bytes > own_bytes:
            self.changed.wait()
        device.claim(count, f"Unit {dispatch.index} of `{self.model_runs[dispatch.model_run].model.name}`")
        dispatch.claimed += count

    def release_unit(self, device: FleetDevice, dispatch: UnitDispatch) -> None:
        """Free the memory of a unit that is done, or will not be."""
        self.dispatches.remove(dispatch)
        device.release(dispatch.claimed)
        self.changed.notify_all()

    def end(self, model_run: ModelRun) -> None:
        """End the model after its current mini-batch."""
        length = len(model_run.job.units)
        model_run.last = min(model_run.last, -(-model_run.begun // length) * length)
        self.changed.notify_all()

    def requeue_units(self, device: FleetDevice) -> None:
        """Return the units that were begun there and are not done to the scheduler: all at once, and only when the device can complete none
        of them any more, else two devices would run the same unit."""
        for each in [each for each in self.dispatches if each.device == device.number]:
            self.release_unit(device, each)
            self.model_runs[each.model_run].begun = self.model_runs[each.model_run].done

    def progress_of(self, model_run: ModelRun) -> Mapping[str, int]:
        with self.changed:
            return {"done": model_run.done, "of": model_run.last}

    def _is_running(self, device: FleetDevice) -> bool:
        """`False` once the run has failed; raises the error the device failed with."""
        device.verify_sound()
        return self.failure is None

    def _list_idle(self) -> list[Candidate]:
        return [self._candidate(i) for i, each in enumerate(self.model_runs) if each.is_idle]

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
        """Dispatch the model's next unit to this device, with those of its arrays that are already there."""
        model_run, unit = self.model_runs[chosen], self._unit(chosen, device)
        now = time.perf_counter()
        here = {key: arrays_near[key] for key in unit.unit.reads if key in arrays_near}
        overwrites = any(unit.unit.reads[index_in_reads] in here for index_in_reads in unit.unit.donated)
        found = UnitDispatch(device.number, chosen, model_run.begun, unit, here, now, follows, overwrites)
        self.dispatches.append(found)
        model_run.begun += 1
        model_run.started = now - self.began
        self.claim(device, unit.input_bytes, 0, found)
        return found
