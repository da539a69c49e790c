"""Run many models on the attached devices at once. Each device has a thread that asks the policy for its next unit, copies its state in
while the unit before it runs, and computes; a second thread copies what changed back to the host.

A model's units run strictly in sequence: the next may begin when the results of the one before are on the host, or at once on the device
that has them. Models and devices that join or leave are in `join_and_leave`, failures in `device_failures`.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from workbench.engine.fleet.device_and_host_arrays import Arrays, FleetDevice
from workbench.engine.fleet.device_failures import Recovery
from workbench.engine.fleet.join_and_leave import Membership
from workbench.engine.fleet.model_run import ModelRun
from workbench.engine.fleet.shard_units import LOSS
from workbench.engine.fleet.unit_scheduler import UnitDispatch, UnitScheduler
from workbench.errors import FleetError, WorkbenchError
from workbench.multimodel import FleetSchedule, Policy, ScheduledUnit
from workbench.multimodel.training_events import TrainingEvent, TrainingListener, UnitDone

_SECURED = 2.0  # seconds between two syncs of the checkpoints to the disk


class FleetExecutor:
    """Runs all models to their ends. `run` returns when every model is done, or has failed because of its data while others have not; the
    methods of `join_and_leave` may be called meanwhile."""

    def __init__(
        self,
        devices: Sequence[FleetDevice],
        policy: Policy,
        *,
        double_buffer: bool,
        tell: TrainingListener | None = None,
    ) -> None:
        self.devices = list(devices)
        self.scheduler = UnitScheduler(policy)
        self.double_buffer = double_buffer
        self.membership = Membership(self.scheduler, self.devices, self._start)
        self._tell = tell or (lambda _: None)
        self._recovery = Recovery(self.scheduler, self.devices, self._say)
        self._transfers = Transfers(self.scheduler, self._say, self._recovery.give_up)
        self._threads: dict[int, threading.Thread] = {}

    @property
    def model_runs(self) -> list[ModelRun]:
        return self.scheduler.model_runs

    @property
    def placed(self) -> list[ScheduledUnit]:
        """The units that have run, in the order in which they ended."""
        return self.scheduler.placed

    def listen(self, tell: TrainingListener) -> None:
        """Call a listener with each unit that is done, from now on."""
        self._tell = tell

    def run(self) -> FleetSchedule:
        """The measured schedule, once all checkpoints are synced to the disk. Raises what made the run fail: `FleetError`, or what a user's
        function raised."""
        self.scheduler.began = time.perf_counter()
        for device in self.devices:
            if device.available:
                self._start(device)
        try:
            self._follow()
        except BaseException as error:  # an interrupt: the devices finish the units they are running, and write no more
            self.scheduler.fail(error)
            self._follow()
            raise
        self._recovery.verify_done()
        return FleetSchedule(len(self.devices), tuple(sorted(self.placed, key=lambda each: each.start)), self.scheduler.decisions)

    def _say(self, event: TrainingEvent) -> None:
        self._tell(event)

    def _follow(self) -> None:
        """Wait until no device works any more, and sync checkpoints to the disk from time to time."""
        secured = time.perf_counter()
        while True:
            with self.scheduler.changed:
                threads = list(self._threads.values())
                self.scheduler.ended = not any(each.is_alive() for each in threads)
            if self.scheduler.ended:
                break
            for each in threads:
                each.join(timeout=0.1)
            if time.perf_counter() - secured > _SECURED:
                self._secure()
                secured = time.perf_counter()
        self._secure()

    def _secure(self) -> None:
        for each in list(self.model_runs):
            try:
                each.store.secure()
            except FleetError as error:  # raised by `run`
                self.scheduler.fail(error)

    def _start(self, device: FleetDevice) -> None:
        """Start a device's threads. A device that returns before it has quite left goes on in its old thread, and the new one only waits
        for that."""
        before = self._threads.get(device.number)
        thread = threading.Thread(target=self._work, args=(device, before), name=f"device {device.number}", daemon=True)
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
                self._recovery.lose(device, turn, error)
            except BaseException as error:  # noqa: BLE001 - raised by `run`, in the thread that called it
                self.scheduler.fail(error)

    def _run(self, device: FleetDevice, turn: UnitDispatch, back: ThreadPoolExecutor) -> UnitDispatch | None:
        """Run one unit; the result is the next one, if it was chosen meanwhile."""
        self._await(device, turn)
        turn.began = time.perf_counter()
        results = self._compute(turn)
        written = dict(zip(turn.unit.unit.writes, results, strict=True))
        turn.following = self._ahead(device, turn, written) if self.double_buffer else None
        jax.block_until_ready(results)
        placed = self._note(device, turn, turn.began, time.perf_counter())
        returned = back.submit(self._transfers.take_back, device, turn, written, placed)
        returned.add_done_callback(self._fail_if_lost)
        if not self.double_buffer:
            returned.result()
        return turn.following

    def _await(self, device: FleetDevice, turn: UnitDispatch) -> None:
        """Wait until the unit's state is on the device, what it will overwrite has reached the host, and the memory it needs is free."""
        start = time.perf_counter()
        jax.block_until_ready(list(turn.arrays.values()))
        there = time.perf_counter()
        device.wait_seconds += there - start
        model_run = self.model_runs[turn.model_run]
        if turn.overwrites:
            self.scheduler.wait_for(device, model_run, turn.index)
            there = max(there, model_run.returned_at)
        with self.scheduler.changed:
            self.scheduler.claim(device, turn.unit.peak_bytes - turn.unit.input_bytes, turn.unit.input_bytes, turn)
        if device.timings and turn.after is not None:
            device.timings.pauses.append(time.perf_counter() - turn.after - (there - start))

    def _compute(self, turn: UnitDispatch) -> Sequence[Any]:
        results: Sequence[Any] = turn.unit.compiled(*(turn.arrays[key] for key in turn.unit.unit.reads))
        return results

    def _next(self, device: FleetDevice) -> UnitDispatch | None:
        """The next unit, its state being copied in. A model whose data raise is dropped, and another one is chosen."""
        while found := self.scheduler.next_unit(device):
            if self._transfers.bring(device, found):
                return found
        return None

    def _ahead(self, device: FleetDevice, turn: UnitDispatch, written: Arrays) -> UnitDispatch | None:
        found = self.scheduler.choose_ahead(device, turn, written)
        return found if found and self._transfers.bring(device, found) else None

    def _note(self, device: FleetDevice, turn: UnitDispatch, begin: float, end: float) -> ScheduledUnit:
        """Feed the measured time to the policy."""
        model_run, began = self.model_runs[turn.model_run], self.scheduler.began
        if turn.following:
            turn.following.after = end
        placed = ScheduledUnit(turn.model_run, turn.index, device.number, begin - began, end - began, turn.since - began)
        with self.scheduler.changed:
            self.scheduler.placed.append(placed)
            model_run.job = model_run.job.with_unit_seconds(turn.index % len(model_run.job.units), end - begin)
        return placed

    def _fail_if_lost(self, returned: "Future[None]") -> None:
        error = returned.exception()
        if error is not None:
            self.scheduler.fail(error)


# Transfers between host and device around each unit: its state in before it runs, what it changed back afterwards.

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
