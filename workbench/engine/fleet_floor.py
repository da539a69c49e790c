"""Many models on the attached devices at once: each device has a thread that asks the policy for its next unit, brings its state in while
the unit before it runs, computes, and hands what changed to a second thread that takes it back to the host.

All decisions are made under one lock, by the code that the simulator runs. A model's units follow each other strictly: the next may begin
when the results of the one before are on the host, or at once on the device that has them.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax

from workbench.engine.fleet_devices import Arrays, CompiledUnit, FleetDevice
from workbench.engine.fleet_trainee import Trainee
from workbench.engine.fleet_units import LOSS
from workbench.errors import FleetError, unknown_name
from workbench.multimodel import Candidate, Placed, Policy, Schedule

Listener = Callable[[dict[str, Any]], None]


@dataclass
class _Turn:
    """One unit on one device, from the decision on."""

    trainee: int
    index: int
    unit: CompiledUnit
    arrays: Arrays
    since: float
    follows: bool  # on the unit before it, on the same device, which may still run
    overwrites: bool = False  # what that unit leaves behind, which must be on the host first
    began: float | None = None  # to compute
    following: "_Turn | None" = None


class Floor:
    """Runs all models to their ends. `run` returns when every model is done; `stop`, `leave` and `come_back` may be called meanwhile."""

    def __init__(
        self,
        trainees: Sequence[Trainee],
        devices: Sequence[FleetDevice],
        policy: Policy,
        *,
        double_buffer: bool,
        tell: Listener | None = None,
    ) -> None:
        self.trainees, self.devices = list(trainees), list(devices)
        self.policy, self.double_buffer = policy, double_buffer
        self.placed: list[Placed] = []
        self.decisions, self.deciding = 0, 0.0
        self._tell = tell or (lambda _: None)
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._threads: dict[int, threading.Thread] = {}
        self._began = 0.0

    def run(self) -> Schedule:
        """The measured schedule. Raises what made it fail: `FleetError`, or what a user's function raised."""
        self._began = time.perf_counter()
        for device in self.devices:
            if device.there:
                self._start(device)
        while True:
            with self._changed:
                threads = list(self._threads.values())
            if not any(each.is_alive() for each in threads):
                break
            for each in threads:
                each.join(timeout=0.1)
        if self._failure:
            raise self._failure
        if any(each.done < each.last for each in self.trainees):
            raise FleetError("No device is left, and models are not done.", ["resume from the checkpoint"])
        return Schedule(len(self.devices), tuple(sorted(self.placed, key=lambda each: each.start)), self.decisions)

    def stop(self, name: str) -> None:
        """The model ends with the mini-batch it is in, and the rest go on faster."""
        with self._changed:
            trainee = next((each for each in self.trainees if each.model.name == name), None)
            if trainee is None:
                raise FleetError(f"There is no model `{name}` to stop.", [each.model.name for each in self.trainees])
            self._end(trainee)

    def leave(self, number: int) -> None:
        """The device takes no further unit."""
        device = self._device(number)
        with self._changed:
            device.there = False
            self._changed.notify_all()

    def come_back(self, number: int) -> None:
        device = self._device(number)
        with self._changed:
            if not device.there:
                device.there = True
                self._start(device)

    def obey(self, order: Mapping[str, Any]) -> None:
        """`{"order": "stop", "model": name}`, `{"order": "leave", "device": number}` or `return`; raises `FleetError` for any other."""
        what = order.get("order")
        if what == "stop":
            self.stop(str(order.get("model")))
        elif what in ("leave", "return"):
            (self.leave if what == "leave" else self.come_back)(order.get("device", -1))
        else:
            raise FleetError(*unknown_name("order", str(what), ("stop", "leave", "return")))

    def _device(self, number: int) -> FleetDevice:
        if not 0 <= number < len(self.devices):
            raise FleetError(f"There is no device {number} in this run.", [f"they are 0 to {len(self.devices) - 1}"])
        return self.devices[number]

    def _end(self, trainee: Trainee) -> None:
        length = len(trainee.job.units)
        trainee.last = min(trainee.last, -(-trainee.begun // length) * length)
        self._changed.notify_all()

    def _start(self, device: FleetDevice) -> None:
        """A device that comes back before it was quite gone goes on in its old thread, and the new one only waits for that."""
        before = self._threads.get(device.number)
        thread = threading.Thread(target=self._work, args=(device, before), name=f"device {device.number}", daemon=True)
        self._threads[device.number] = thread
        thread.start()

    def _work(self, device: FleetDevice, before: threading.Thread | None = None) -> None:
        if before is not None:
            before.join()
        turn: _Turn | None = None
        with ThreadPoolExecutor(1, f"back from {device.number}") as back:
            try:
                while self._failure is None and (turn := turn or self._next(device)):
                    turn = self._run(device, turn, back)
            except jax.errors.JaxRuntimeError as error:
                back.shutdown(wait=True)
                self._lose(device, turn, error)
            except BaseException as error:  # noqa: BLE001 - told by `run`, in the thread that asked
                with self._changed:
                    self._failure = self._failure or error
                    self._changed.notify_all()

    def _run(self, device: FleetDevice, turn: _Turn, back: ThreadPoolExecutor) -> _Turn | None:
        """One unit; the next one, if it was chosen meanwhile."""
        start = time.perf_counter()
        jax.block_until_ready(list(turn.arrays.values()))
        device.waited += time.perf_counter() - start
        if turn.overwrites:
            self._wait_for(self.trainees[turn.trainee], turn.index)
        with self._changed:
            self._claim(device, turn.unit.needs - turn.unit.takes, turn.unit.takes, turn)
        turn.began = time.perf_counter()
        results = self._compute(turn)
        written = dict(zip(turn.unit.unit.writes, results, strict=True))
        turn.following = self._next(device, turn, written) if self.double_buffer else None
        jax.block_until_ready(results)
        placed = self._note(device, turn, turn.began, time.perf_counter())
        returned = back.submit(self._take_back, device, turn, written, placed)
        returned.add_done_callback(self._noticed)
        if not self.double_buffer:
            returned.result()
        return turn.following

    def _claim(self, device: FleetDevice, count: int, own: int, turn: _Turn) -> None:
        """Speak for memory, once what goes back to the host has left it; the device refuses what can never fit."""
        while not device.fits(count) and device.held > own and self._failure is None:
            self._changed.wait()
        device.claim(count, f"Unit {turn.index} of `{self.trainees[turn.trainee].model.name}`")

    def _compute(self, turn: _Turn) -> Sequence[Any]:
        results: Sequence[Any] = turn.unit.compiled(*(turn.arrays[key] for key in turn.unit.unit.reads))
        return results

    def _next(self, device: FleetDevice, turn: _Turn | None = None, written: Arrays | None = None) -> _Turn | None:
        """The device's next unit, its state on the way. While `turn` runs, `None` where nothing can be brought in beside it; otherwise
        this waits until a model is idle, and `None` says that nothing is left."""
        with self._changed:
            found = self._ahead(device, turn, written or {}) if turn else self._awaited(device)
        if found:
            self._bring(device, found)
        return found

    def _awaited(self, device: FleetDevice) -> _Turn | None:
        while self._failure is None and device.there:
            candidates = self._idle()
            if candidates:
                return self._taken(device, self._asked(candidates), {}, follows=False)
            if all(each.begun >= each.last for each in self.trainees):
                return None
            self._changed.wait()
        return None

    def _ahead(self, device: FleetDevice, turn: _Turn, written: Arrays) -> _Turn | None:
        """The successor of what runs here needs no transfer of what that leaves behind."""
        follows = turn.index + 1 < self.trainees[turn.trainee].last
        candidates = [*([self._candidate(turn.trainee, here=True)] if follows else []), *self._idle()]
        if not candidates or self._failure or not device.there:
            return None
        chosen = self._asked(candidates)
        if not device.fits(turn.unit.needs if chosen == turn.trainee else self._unit(chosen, device).takes):
            return None  # it is asked again when this one is done
        if chosen != turn.trainee:
            return self._taken(device, chosen, {}, follows=False)
        stays = {key: array for key, array in turn.arrays.items() if key not in written and key[0] != "batch"}
        return self._taken(device, chosen, stays | written, follows=True)

    def _idle(self) -> list[Candidate]:
        return [self._candidate(i) for i, each in enumerate(self.trainees) if each.idle]

    def _asked(self, candidates: list[Candidate]) -> int:
        start = time.perf_counter()
        chosen = self.policy.choose(candidates, self.decisions).model
        self.deciding += time.perf_counter() - start
        self.decisions += 1
        return chosen

    def _candidate(self, number: int, *, here: bool = False) -> Candidate:
        trainee = self.trainees[number]
        return Candidate(number, trainee.job.remaining(trainee.begun), trainee.job.unit(trainee.begun).seconds, trainee.started, here)

    def _unit(self, chosen: int, device: FleetDevice) -> CompiledUnit:
        trainee = self.trainees[chosen]
        return trainee.units[device.number][trainee.begun % len(trainee.job.units)]

    def _taken(self, device: FleetDevice, chosen: int, near: Arrays, *, follows: bool) -> _Turn:
        """The model's next unit is this device's, with what of its arrays is here already."""
        trainee, unit = self.trainees[chosen], self._unit(chosen, device)
        now = time.perf_counter()
        here = {key: near[key] for key in unit.unit.reads if key in near}
        overwrites = any(unit.unit.reads[place] in here for place in unit.unit.donated)
        found = _Turn(chosen, trainee.begun, unit, here, now, follows, overwrites)
        trainee.begun += 1
        trainee.started = now - self._began
        self._claim(device, unit.takes, 0, found)
        return found

    def _bring(self, device: FleetDevice, turn: _Turn) -> None:
        """What is not here yet comes from the host, once the units before have brought it there; of a successor all but the last one."""
        trainee = self.trainees[turn.trainee]
        self._wait_for(trainee, turn.index - turn.follows)
        step = turn.index // len(trainee.job.units)
        missing = [key for key in turn.unit.unit.reads if key not in turn.arrays]
        turn.arrays |= device.bring({key: trainee.leaf(step, key[1]) if key[0] == "batch" else trainee.store.get(key) for key in missing})

    def _wait_for(self, trainee: Trainee, done: int) -> None:
        with self._changed:
            while trainee.done < done and self._failure is None:
                self._changed.wait()

    def _note(self, device: FleetDevice, turn: _Turn, begin: float, end: float) -> Placed:
        """What was measured feeds the policy."""
        trainee = self.trainees[turn.trainee]
        placed = Placed(turn.trainee, turn.index, device.number, begin - self._began, end - self._began, turn.since - self._began)
        with self._changed:
            self.placed.append(placed)
            trainee.job = trainee.job.measured(turn.index % len(trainee.job.units), end - begin)
        return placed

    def _take_back(self, device: FleetDevice, turn: _Turn, written: Arrays, placed: Placed) -> None:
        """What the unit wrote goes to the host, and the model may go on."""
        trainee = self.trainees[turn.trainee]
        result = written.pop(LOSS, None)
        trainee.store.put(written)
        loss = None if result is None else float(result)
        trainee.store.drop(turn.unit.unit.frees)
        written.clear()
        turn.arrays.clear()
        if loss is not None:
            trainee.losses.append(loss)
        trainee.store.commit({"done": turn.index + 1, "losses": trainee.losses, **trainee.about})
        with self._changed:
            device.give_back(turn.unit.needs)
            trainee.done = turn.index + 1
            below = trainee.model.stop_below
            if loss is not None and below is not None and loss < below:
                self._end(trainee)
            self._changed.notify_all()
        where = [placed.model, placed.unit, placed.device, placed.start, placed.end]
        told = {"model": trainee.model.name, "done": trainee.done, "of": trainee.last, "loss": loss, "placed": where}
        self._tell({"event": "unit", **told})

    def _noticed(self, returned: "Future[None]") -> None:
        error = returned.exception()
        if error is not None:
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _lose(self, device: FleetDevice, turn: _Turn | None, error: Exception) -> None:
        """The device failed: what it was doing is given to the others."""
        with self._changed:
            device.there, device.held = False, 0  # what it held is lost
            if turn is not None and turn.began is not None:
                begin, end = turn.began - self._began, time.perf_counter() - self._began
                self.placed.append(Placed(turn.trainee, turn.index, device.number, begin, end, turn.since - self._began, lost=True))
            for each in (turn, turn and turn.following):
                if each is not None:
                    self.trainees[each.trainee].begun = self.trainees[each.trainee].done
            if not any(each.there for each in self.devices):
                failure = FleetError(f"The last device failed: {str(error)[:300]}", ["resume from the checkpoint"])
                self._failure = self._failure or failure
            self._changed.notify_all()
