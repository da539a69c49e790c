"""Many models on the attached devices at once: each device has a thread that asks the policy for its next unit, brings its state in while
the unit before it runs, computes, and hands what changed to a second thread that takes it back to the host.

A model's units follow each other strictly: the next may begin when the results of the one before are on the host, or at once on the device
that has them.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax

from workbench.engine.fleet.devices import Arrays, FleetDevice
from workbench.engine.fleet.model_run import ModelRun, run_named
from workbench.engine.fleet.unit_scheduler import UnitDispatch, UnitScheduler
from workbench.engine.fleet.units import LOSS
from workbench.errors import FleetError, WorkbenchError, unknown_name
from workbench.multimodel import FleetSchedule, Policy, ScheduledUnit

Listener = Callable[[dict[str, Any]], None]
_SECURED = 2.0  # seconds from one time that checkpoints are brought to the disk to the next


class FleetExecutor:
    """Runs all models to their ends. `run` returns when every model is done, or has failed for its data while others have not; `add`,
    `stop`, `leave` and `come_back` may be called meanwhile."""

    def __init__(
        self,
        devices: Sequence[FleetDevice],
        policy: Policy,
        *,
        double_buffer: bool,
        tell: Listener | None = None,
    ) -> None:
        self.devices = list(devices)
        self.scheduler = UnitScheduler(policy)
        self.double_buffer = double_buffer
        self.placed: list[ScheduledUnit] = []
        self._tell = tell or (lambda _: None)
        self._threads: dict[int, threading.Thread] = {}
        self._ended = False

    @property
    def model_runs(self) -> list[ModelRun]:
        return self.scheduler.model_runs

    def listen(self, tell: Listener) -> None:
        """Each unit that is done, from now on."""
        self._tell = tell

    def run(self) -> FleetSchedule:
        """The measured schedule, once all is on the disk that is to be there. Raises what made it fail: `FleetError`, or what a user's
        function raised."""
        self.scheduler.began = time.perf_counter()
        for device in self.devices:
            if device.there:
                self._start(device)
        try:
            self._follow()
        except BaseException as error:  # an interrupt: the devices end with what they are at, and write no more
            self.scheduler.fail(error)
            self._follow()
            raise
        if self.scheduler.failure:
            raise self.scheduler.failure
        if (failed := [each.failure for each in self.model_runs if each.failure]) and len(failed) == len(self.model_runs):
            raise failed[0]
        if any(each.done < each.last for each in self.model_runs):
            raise FleetError("No device is left, and models are not done.", ["resume from the checkpoint"])
        return FleetSchedule(len(self.devices), tuple(sorted(self.placed, key=lambda each: each.start)), self.scheduler.decisions)

    def _follow(self) -> None:
        """Until no device works any more; now and then, what ran is brought to the disk."""
        secured = time.perf_counter()
        while True:
            with self.scheduler.changed:
                threads = list(self._threads.values())
                self._ended = not any(each.is_alive() for each in threads)
            if self._ended:
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
            except FleetError as error:  # told by `run`
                self.scheduler.fail(error)

    def add(self, model_run: ModelRun) -> None:
        """One more model; raises `FleetError` once all others are done."""
        with self.scheduler.changed:
            self.verify_goes_on(model_run.model.name)
            self.model_runs.append(model_run)
            if self.scheduler.began:
                model_run.arrival_time = time.perf_counter() - self.scheduler.began
                for device in self.devices:
                    if device.there:  # it may just have found that nothing was left
                        self._start(device)
            self.scheduler.changed.notify_all()

    def verify_goes_on(self, newcomer: str) -> None:
        """Raises `FleetError` for a model that comes once all others are done."""
        if self._ended:
            raise FleetError(f"Model `{newcomer}` comes too late: the run has ended.", ["train it in a run of its own"])

    def stop(self, name: str) -> None:
        """The model ends with the mini-batch it is in, and the rest go on faster."""
        with self.scheduler.changed:
            self.scheduler.end(run_named(self.model_runs, name))

    def progress_of(self, name: str) -> Mapping[str, int]:
        """Units that a model has done, and how many it will have at its end."""
        return self.scheduler.progress_of(run_named(self.model_runs, name))

    @contextmanager
    def room(self, number: int, count: int) -> Iterator[None]:
        """So many bytes of a device for something else than its units, before its next unit: as soon as they are free."""
        device = self._device(number)
        with self.scheduler.changed:
            device.wanted += 1
            try:
                while not device.fits(count) and device.held and self.scheduler.failure is None:
                    self.scheduler.changed.wait()
            finally:
                device.wanted -= 1
                self.scheduler.changed.notify_all()
            device.claim(count, "What is timed")
        try:
            yield
        finally:
            with self.scheduler.changed:
                device.give_back(count)
                self.scheduler.changed.notify_all()

    def leave(self, number: Any) -> None:
        """The device takes no further unit."""
        device = self._device(number)
        with self.scheduler.changed:
            device.there = False
            self.scheduler.changed.notify_all()

    def come_back(self, number: Any) -> None:
        device = self._device(number)
        with self.scheduler.changed:
            if not device.there:
                device.there = True
                self._start(device)

    def handle_command(self, order: Mapping[str, Any]) -> None:
        """`{"order": "stop", "model": name}`, `{"order": "leave", "device": number}` or `return`; raises `FleetError` for any other."""
        what = order.get("order")
        if what == "stop":
            self.stop(str(order.get("model")))
        elif what in ("leave", "return"):
            (self.leave if what == "leave" else self.come_back)(order.get("device"))
        else:
            raise FleetError(*unknown_name("order", str(what), ("add", "stop", "leave", "return")))

    def _device(self, number: Any) -> FleetDevice:
        """By what a person or another program calls it."""
        if type(number) is not int or not 0 <= number < len(self.devices):
            raise FleetError(f"There is no device {number!r} in this run.", [f"they are the numbers 0 to {len(self.devices) - 1}"])
        return self.devices[number]

    def _start(self, device: FleetDevice) -> None:
        """A device that comes back before it was quite gone goes on in its old thread, and the new one only waits for that."""
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
                self._lose(device, turn, error)
            except BaseException as error:  # noqa: BLE001 - told by `run`, in the thread that asked
                self.scheduler.fail(error)

    def _run(self, device: FleetDevice, turn: UnitDispatch, back: ThreadPoolExecutor) -> UnitDispatch | None:
        """One unit; the next one, if it was chosen meanwhile."""
        self._await(device, turn)
        turn.began = time.perf_counter()
        results = self._compute(turn)
        written = dict(zip(turn.unit.unit.writes, results, strict=True))
        turn.following = self._ahead(device, turn, written) if self.double_buffer else None
        jax.block_until_ready(results)
        placed = self._note(device, turn, turn.began, time.perf_counter())
        returned = back.submit(self._take_back, device, turn, written, placed)
        returned.add_done_callback(self._noticed)
        if not self.double_buffer:
            returned.result()
        return turn.following

    def _await(self, device: FleetDevice, turn: UnitDispatch) -> None:
        """Its state is there, what it changes is on the host, and the memory it needs is free."""
        start = time.perf_counter()
        jax.block_until_ready(list(turn.arrays.values()))
        there = time.perf_counter()
        device.waited += there - start
        model_run = self.model_runs[turn.model_run]
        if turn.overwrites:
            self.scheduler.wait_for(device, model_run, turn.index)
            there = max(there, model_run.back)
        with self.scheduler.changed:
            self.scheduler.claim(device, turn.unit.needs - turn.unit.takes, turn.unit.takes, turn)
        if device.handling and turn.after is not None:
            device.handling.pauses.append(time.perf_counter() - turn.after - (there - start))

    def _compute(self, turn: UnitDispatch) -> Sequence[Any]:
        results: Sequence[Any] = turn.unit.compiled(*(turn.arrays[key] for key in turn.unit.unit.reads))
        return results

    def _next(self, device: FleetDevice) -> UnitDispatch | None:
        """Its state is on the way. A model whose data fail is left, and another one asked for."""
        while found := self.scheduler.next(device):
            if self._bring(device, found):
                return found
        return None

    def _ahead(self, device: FleetDevice, turn: UnitDispatch, written: Arrays) -> UnitDispatch | None:
        found = self.scheduler.ahead(device, turn, written)
        return found if found and self._bring(device, found) else None

    def _bring(self, device: FleetDevice, turn: UnitDispatch) -> bool:
        """What is not here yet comes from the host, once the units before have brought it there; of a successor all but the last one.

        `False` where the user's data fail: that ends their model.
        """
        model_run = self.model_runs[turn.model_run]
        on_the_host = turn.index - 1 if turn.follows else turn.index
        self.scheduler.wait_for(device, model_run, on_the_host)
        start = time.perf_counter()
        step = turn.index // len(model_run.job.units)
        missing = [key for key in turn.unit.unit.reads if key not in turn.arrays]
        try:
            batch = {key: model_run.leaf(step, key[1]) for key in missing if key[0] == "batch"}
        except WorkbenchError as error:
            self._give_up(device, turn, error)
            return False
        found = batch | {key: model_run.store.get(key) for key in missing if key[0] != "batch"}
        turn.arrays |= device.bring(found, start)
        return True

    def _give_up(self, device: FleetDevice, turn: UnitDispatch, error: WorkbenchError) -> None:
        """The model ends before this unit, its checkpoint as the units before left it; the others go on."""
        model_run = self.model_runs[turn.model_run]
        with self.scheduler.changed:
            model_run.begun = model_run.last = turn.index
            model_run.failure, model_run.ended = error, f"failed: {error.message}"
            self.scheduler.put_away(device, turn)
        self._tell({"event": "failed", "model": model_run.model.name, "done": model_run.done, "of": turn.index, "message": str(error)})

    def _note(self, device: FleetDevice, turn: UnitDispatch, begin: float, end: float) -> ScheduledUnit:
        """What was measured feeds the policy."""
        model_run, began = self.model_runs[turn.model_run], self.scheduler.began
        if turn.following:
            turn.following.after = end
        placed = ScheduledUnit(turn.model_run, turn.index, device.number, begin - began, end - began, turn.since - began)
        with self.scheduler.changed:
            self.placed.append(placed)
            model_run.job = model_run.job.measured(turn.index % len(model_run.job.units), end - begin)
        return placed

    def _take_back(self, device: FleetDevice, turn: UnitDispatch, written: Arrays, placed: ScheduledUnit) -> None:
        """What the unit wrote goes to the host, and the model may go on; where the device fails meanwhile, its thread is told."""
        if device.failure is not None:  # the unit before this one is lost, and so is this
            return
        model_run = self.model_runs[turn.model_run]
        size = sum(each.nbytes for each in written.values())
        try:
            result = written.pop(LOSS, None)
            loss = None if result is None else float(result)
            model_run.store.put(written)  # all or nothing, and last: the unit is done again from what is there now
        except jax.errors.JaxRuntimeError as error:
            with self.scheduler.changed:
                device.failure = error
                self.scheduler.changed.notify_all()
            return
        model_run.store.drop(turn.unit.unit.frees)
        written.clear()
        turn.arrays.clear()
        if loss is not None:
            model_run.losses.append(loss)
        model_run.store.commit(model_run.position(turn.index + 1))
        with self.scheduler.changed:
            model_run.done, model_run.back = turn.index + 1, time.perf_counter()
            if loss is not None and model_run.reaches(loss) and not model_run.failure:
                self.scheduler.end(model_run)
                model_run.ended = model_run.ended or model_run.stopped_by(loss)
            self.scheduler.put_away(device, turn)
        if device.handling:
            device.handling.returned.append((size, model_run.back - self.scheduler.began - placed.end))
        where = [placed.model, placed.unit, placed.device, placed.start, placed.end]
        progress = {"model": model_run.model.name, "done": model_run.done, "of": model_run.last, "loss": loss, "placed": where}
        self._tell({"event": "unit", **progress, "ended": model_run.ended})

    def _noticed(self, returned: "Future[None]") -> None:
        error = returned.exception()
        if error is not None:
            self.scheduler.fail(error)

    def _lose(self, device: FleetDevice, turn: UnitDispatch | None, error: Exception) -> None:
        """The device failed: what it was doing, and what it was bringing in, is given to the others."""
        began = self.scheduler.began
        with self.scheduler.changed:
            device.there, device.failure = False, None
            self._not_back(device)
            if turn is not None and turn.began is not None:
                begin, end = turn.began - began, time.perf_counter() - began
                self.placed.append(ScheduledUnit(turn.model_run, turn.index, device.number, begin, end, turn.since - began, lost=True))
            self.scheduler.take_up_again(device)
            if not any(each.there for each in self.devices):
                self.scheduler.fail(FleetError(f"The last device failed: {str(error)[:300]}", ["resume from the checkpoint"]))
            self.scheduler.changed.notify_all()

    def _not_back(self, device: FleetDevice) -> None:
        """What has run there, and whose results did not come back, is lost."""
        begun = {(each.device, each.model_run, each.index) for each in self.scheduler.turns if each.device == device.number}
        self.placed = [replace(each, lost=True) if (each.device, each.model, each.unit) in begun else each for each in self.placed]
