"""Run many models on the attached devices at once.

Each device has a thread that gets the next unit from the policy, copies its state in while the previous unit runs, and
computes; a second thread copies the changes back to the host. A model's units run strictly in sequence: the next begins
once the results of the previous one are on the host, or at once on the device that has them. Models and devices that
join, leave or fail are handled in `join_and_leave`.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from workbench.engine.fleet.device_and_host_arrays import Arrays, FleetDevice
from workbench.engine.fleet.model_run import ModelRun
from workbench.engine.fleet.shard_units import LOSS
from workbench.engine.fleet.unit_scheduler import Membership, UnitDispatch, UnitScheduler
from workbench.errors import FleetError, WorkbenchError
from workbench.multimodel import FleetSchedule, Policy, ScheduledUnit
from workbench.multimodel.training_events import TrainingEvent, TrainingListener, UnitDone

_SECURED = 2.0  # seconds between syncs of the checkpoints


class FleetExecutor:
    """Runs all models to their ends, also while models and devices join or leave (`join_and_leave`)."""

    def __init__(
        self, devices: Sequence[FleetDevice], policy: Policy, *, double_buffer: bool, tell: TrainingListener | None = None
    ) -> None:
        self.devices = list(devices)
        self.scheduler = UnitScheduler(policy)
        self.double_buffer = double_buffer
        self.membership = Membership(self.scheduler, self.devices, self._start, self._say)
        self._tell = tell or (lambda _: None)
        self._transfers = Transfers(self.scheduler, self._say, self.membership.give_up)
        self._threads: dict[int, threading.Thread] = {}

    @property
    def model_runs(self) -> list[ModelRun]:
        return self.scheduler.model_runs

    @property
    def placed(self) -> list[ScheduledUnit]:
        """Finished units in order of completion."""
        return self.scheduler.placed

    def listen(self, tell: TrainingListener) -> None:
        self._tell = tell

    def run(self) -> FleetSchedule:
        """Run all models, sync their checkpoints, and return the measured schedule; raises the error of a failed run."""
        self.scheduler.began = time.perf_counter()
        for device in self.devices:
            if device.available:
                self._start(device)
        try:
            self._follow()
        except BaseException as error:  # an interrupt: devices finish their running units, and write nothing more
            self.scheduler.fail(error)
            self._follow()
            raise
        self.membership.verify_done()
        return FleetSchedule(len(self.devices), tuple(sorted(self.placed, key=lambda unit: unit.start)), self.scheduler.decisions)

    def _say(self, event: TrainingEvent) -> None:
        self._tell(event)

    def _follow(self) -> None:
        last_sync = time.perf_counter()
        while True:
            with self.scheduler.changed:
                threads = list(self._threads.values())
                self.scheduler.ended = not any(thread.is_alive() for thread in threads)
            if self.scheduler.ended:
                break
            for thread in threads:
                thread.join(timeout=0.1)
            if time.perf_counter() - last_sync > _SECURED:
                self._secure()
                last_sync = time.perf_counter()
        self._secure()

    def _secure(self) -> None:
        for model_run in list(self.model_runs):
            try:
                model_run.store.secure()
            except FleetError as error:  # raised by `run`
                self.scheduler.fail(error)

    def _start(self, device: FleetDevice) -> None:
        """Start a device's threads; if the device returns before it has left, the new thread waits for the old one."""
        previous = self._threads.get(device.number)
        thread = threading.Thread(target=self._work, args=(device, previous), name=f"device {device.number}", daemon=True)
        self._threads[device.number] = thread
        thread.start()

    def _work(self, device: FleetDevice, before: threading.Thread | None = None) -> None:
        if before is not None:
            before.join()
        turn: UnitDispatch | None = None
        with ThreadPoolExecutor(1, f"back from {device.number}") as back:
            try:
                while self.scheduler.failure is None and (turn := turn or self._next(device)):
                    turn = self._run(device, turn, back)
                back.shutdown(wait=True)
                device.verify_sound()
            except jax.errors.JaxRuntimeError as error:
                back.shutdown(wait=True)
                self.membership.lose(device, turn, error)
            except BaseException as error:  # noqa: BLE001 - raised by `run` in its caller's thread
                self.scheduler.fail(error)

    def _run(self, device: FleetDevice, turn: UnitDispatch, back: ThreadPoolExecutor) -> UnitDispatch | None:
        self._await(device, turn)
        turn.began = time.perf_counter()
        results = self._compute(turn)
        written = dict(zip(turn.unit.unit.writes, results, strict=True))
        turn.following = self._ahead(device, turn, written) if self.double_buffer else None
        jax.block_until_ready(results)
        placed = self._note(device, turn, turn.began, time.perf_counter())
        returned = back.submit(self._transfers.copy_results_out, device, turn, written, placed)
        returned.add_done_callback(self._fail_if_lost)
        if not self.double_buffer:
            returned.result()
        return turn.following

    def _await(self, device: FleetDevice, turn: UnitDispatch) -> None:
        start = time.perf_counter()
        jax.block_until_ready(list(turn.arrays.values()))
        loaded_at = time.perf_counter()
        device.wait_seconds += loaded_at - start
        model_run = self.model_runs[turn.model_run]
        if turn.overwrites:
            self.scheduler.wait_for(device, model_run, turn.index)
            loaded_at = max(loaded_at, model_run.returned_at)
        with self.scheduler.changed:
            self.scheduler.claim(device, turn.unit.peak_bytes - turn.unit.input_bytes, turn.unit.input_bytes, turn)
        if device.timings and turn.after is not None:
            device.timings.pauses.append(time.perf_counter() - turn.after - (loaded_at - start))

    def _compute(self, turn: UnitDispatch) -> Sequence[Any]:
        results: Sequence[Any] = turn.unit.compiled(*(turn.arrays[key] for key in turn.unit.unit.reads))
        return results

    def _next(self, device: FleetDevice) -> UnitDispatch | None:
        """Return the next unit, which is being copied in; a model whose data raises an error is dropped."""
        while turn := self.scheduler.next_unit(device):
            if self._transfers.bring(device, turn):
                return turn
        return None

    def _ahead(self, device: FleetDevice, turn: UnitDispatch, written: Arrays) -> UnitDispatch | None:
        following = self.scheduler.choose_ahead(device, turn, written)
        return following if following and self._transfers.bring(device, following) else None

    def _note(self, device: FleetDevice, turn: UnitDispatch, begin: float, end: float) -> ScheduledUnit:
        model_run, run_start = self.model_runs[turn.model_run], self.scheduler.began
        if turn.following:
            turn.following.after = end
        placed = ScheduledUnit(turn.model_run, turn.index, device.number, begin - run_start, end - run_start, turn.since - run_start)
        with self.scheduler.changed:
            self.scheduler.placed.append(placed)
            model_run.job = model_run.job.with_unit_seconds(turn.index % len(model_run.job.units), end - begin)
        return placed

    def _fail_if_lost(self, returned: "Future[None]") -> None:
        error = returned.exception()
        if error is not None:
            self.scheduler.fail(error)


# Transfers around each unit: its state to the device before it runs, its changes to the host afterwards.

GiveUp = Callable[[FleetDevice, UnitDispatch, WorkbenchError], None]


class Transfers:
    """Copies units' state to devices and their results back; `give_up` ends a model whose data raises an error."""

    def __init__(self, scheduler: UnitScheduler, tell: TrainingListener, give_up: GiveUp) -> None:
        self._scheduler, self._tell, self._give_up = scheduler, tell, give_up

    def bring(self, device: FleetDevice, turn: UnitDispatch) -> bool:
        """Copy in missing state after earlier units have stored their results; `False` if the user's data fails."""
        model_run = self._scheduler.model_runs[turn.model_run]
        required_units = turn.index - 1 if turn.follows else turn.index
        self._scheduler.wait_for(device, model_run, required_units)
        start = time.perf_counter()
        step = turn.index // len(model_run.job.units)
        missing = [key for key in turn.unit.unit.reads if key not in turn.arrays]
        try:
            batch = {key: model_run.read_leaf(step, key[1]) for key in missing if key[0] == "batch"}
        except WorkbenchError as error:
            self._give_up(device, turn, error)
            return False
        state = batch | {key: model_run.store.get(key) for key in missing if key[0] != "batch"}
        turn.arrays |= device.copy_in(state, start)
        return True

    def copy_results_out(self, device: FleetDevice, turn: UnitDispatch, written: Arrays, placed: ScheduledUnit) -> None:
        """Copy the unit's results to the host, so that the model may continue; errors go to the device's thread."""
        if device.failure is not None:  # the previous unit is lost, and therefore this one
            return
        model_run = self._scheduler.model_runs[turn.model_run]
        size = sum(array.nbytes for array in written.values())
        try:
            result = written.pop(LOSS, None)
            loss = None if result is None else float(result)
            model_run.store.put(written)  # atomic, after all that may fail: a lost unit is repeated from the previous state
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
        with self._scheduler.changed:
            model_run.done, model_run.returned_at = turn.index + 1, time.perf_counter()
            if loss is not None and model_run.is_below_stop(loss) and not model_run.failure:
                self._scheduler.end(model_run)
                model_run.ended = model_run.ended or model_run.stopped_text(loss)
            self._scheduler.release_unit(device, turn)
