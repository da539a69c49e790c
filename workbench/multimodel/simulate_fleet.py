"""Simulate shard units on devices as the executor runs them: same policy, transfers, double buffering and events
(models that stop or join, devices that leave or return).
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from workbench.errors import FleetError
from workbench.multimodel.policies import Candidate, Policy
from workbench.multimodel.unit_chains import Job, Pass, Unit, verify_devices, verify_names
from workbench.multimodel.unit_schedule import FleetSchedule, ScheduledUnit

# State of models and devices in the simulation.


@dataclass(slots=True)
class ModelState:
    """State of one job. Its units end before `last`, which is smaller for a model that stops early."""

    job: Job
    available: bool
    done: int
    last: int
    reserved: bool = False  # one of its units runs or is loaded
    back: float = 0.0  # when the changes of its last unit are on the host
    started: float = float("-inf")

    def is_idle(self, now: float) -> bool:
        return self.available and not self.reserved and self.done < self.last and self.back <= now


@dataclass(slots=True)
class DeviceState:
    """State of one device. `shard` is the (model, shard) whose state is on it."""

    available: bool = True
    running: ScheduledUnit | None = None
    next: int | None = None  # the model whose unit is loaded
    load_start: float = 0.0  # when its transfer began
    ready: float = 0.0  # when that state is on the device
    free: float = 0.0  # when it may compute the next unit
    link: float = 0.0  # when the host-to-device copy engine is free
    out: float = 0.0  # when the device-to-host copy engine is free
    shard: tuple[int, int] | None = None
    place: int = 0  # index of the running unit in the list of placed units
    left: float = 1.0  # fraction of the unit left at `pace_since`, when its pace last changed
    pace: float = 0.0  # seconds of the whole unit at the current number of computing devices
    pace_since: float = 0.0


# Progress of a running fleet, from which the simulation continues.


@dataclass(frozen=True, slots=True)
class FleetProgress:
    """Progress of models and devices; times in seconds from the start of the run.

    - for each model: units `done`, the unit before which it ends (`last`), and when its state was `back` on the host;
    - for each device: when it became `free`; devices that are `away` get no units.
    """

    done: tuple[int, ...]
    last: tuple[int, ...]
    back: tuple[float, ...]
    free: tuple[float, ...]
    away: frozenset[int] = frozenset()

    @classmethod
    def at_start(cls, jobs: Sequence[Job], devices: int, done: Sequence[int] | None = None) -> "FleetProgress":
        """Return the progress at the start of a run, after `done` units of each model in an earlier run."""
        models = len(jobs)
        return cls(tuple(done or (0,) * models), tuple(job.length for job in jobs), (0.0,) * models, (0.0,) * devices)


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """An event at `time` seconds: a model (`number` is its index) joins or stops, or a device leaves or returns.

    A model that stops finishes its running unit (in the executor: its mini-batch); a device that leaves loses its
    running unit, which another device repeats.
    """

    time: float
    what: str  # "model comes", "model stops", "device leaves", "device returns"
    number: int


EVENT_KINDS = ("model comes", "model stops", "device leaves", "device returns")


def simulate(
    jobs: Sequence[Job],
    devices: int,
    policy: Policy,
    *,
    double_buffer: bool = True,
    events: Sequence[FleetEvent] = (),
    progress: FleetProgress | None = None,
) -> FleetSchedule:
    """Simulate these jobs on a number of equal devices, from `progress` if given.

    Without `double_buffer` a device copies a unit's state in, computes, and copies it back, in sequence. With it, the
    next unit is chosen while one runs and its state is copied in meanwhile (Hydra's double buffering); the successor of
    the running unit on the same device keeps its boundary activations there, and its shard too if it is the same one.
    The changes of a unit are copied to the host after it, and only then may another device take the model, or the same
    one change it again. A model that joins by an event is not available before it.

    Raises `FleetError` without models or devices, for duplicate names, and for an unknown event.
    """
    verify_names([job.name for job in jobs])
    verify_devices(devices)
    for event in events:
        if event.what not in EVENT_KINDS or not 0 <= event.number < (len(jobs) if event.what.startswith("model") else devices):
            raise FleetError(f"`{event.what} {event.number}` is not a valid event.", EVENT_KINDS)
    return _Simulator(tuple(jobs), devices, policy, double_buffer, events, progress or FleetProgress.at_start(jobs, devices)).run()


@dataclass
class _Simulator:
    jobs: tuple[Job, ...]
    count: int
    policy: Policy
    double_buffer: bool
    events: Sequence[FleetEvent]
    progress: FleetProgress
    placed: list[ScheduledUnit] = field(default_factory=list)
    decisions: int = 0
    now: float = 0.0

    def run(self) -> FleetSchedule:
        self._init_states()
        self.times = [*{device.free for device in self.devices}, *(event.time for event in self.events)]
        heapq.heapify(self.times)
        pending = sorted(self.events, key=lambda event: event.time)
        while self.times:
            self.now = heapq.heappop(self.times)
            for device in self.devices:
                if device.running and device.running.end <= self.now:
                    self._complete_unit(device)
            while pending and pending[0].time <= self.now:
                self._handle_event(pending.pop(0))
            for number, device in enumerate(self.devices):
                self._feed_device(number, device)
            for device in self.devices:  # no device prefetches while another is idle
                if device.running and device.next is None and self.double_buffer:
                    self._choose_next(device)
            if self.has_contention:
                self._update_paces()
        return FleetSchedule(self.count, tuple(self.placed), self.decisions)

    def _init_states(self) -> None:
        joining = {event.number for event in self.events if event.what == "model comes"}
        progress = self.progress
        states = zip(self.jobs, progress.done, progress.last, progress.back, strict=True)
        self.models = [ModelState(job, i not in joining, done, last, back=back) for i, (job, done, last, back) in enumerate(states)]
        self.devices = [
            DeviceState(number not in progress.away, free=free, link=free, out=free) for number, free in enumerate(progress.free)
        ]
        self.has_contention = any(unit.slowed for job in self.jobs for unit in job.units)

    def _complete_unit(self, device: DeviceState) -> None:
        running = device.running
        assert running is not None
        model, unit = self.models[running.model], self.jobs[running.model].unit(running.unit)
        model.done += 1
        device.running = None
        device.free = self.now + unit.pause
        device.out = model.back = max(device.out, self.now) + unit.store
        model.reserved = device.next == running.model
        if model.reserved:
            after = self._next_unit(running.model)
            if after.shard == unit.shard and after.kind is not Pass.FORWARD and unit.kind is not Pass.FORWARD:
                device.ready = max(device.ready, device.out)  # it changes state that is still being copied to the host
        if not self.double_buffer:
            device.link = device.out  # no other copy starts before the state is back
        for time in {device.out, device.free, device.ready}:
            if time > self.now:
                self._wake_at(time)

    def _handle_event(self, event: FleetEvent) -> None:
        if event.what == "model comes":
            self.models[event.number].available = True
        elif event.what == "model stops":
            model = self.models[event.number]
            model.last = model.done + any(device.running and device.running.model == event.number for device in self.devices)
            for device in self.devices:
                if device.next == event.number:
                    device.next, model.reserved = None, device.running is not None and device.running.model == event.number
        elif event.what == "device returns":
            self.devices[event.number].available = True
        else:
            self._remove_device(self.devices[event.number])

    def _remove_device(self, device: DeviceState) -> None:
        if device.running:
            lost = device.running
            self.placed[device.place] = ScheduledUnit(lost.model, lost.unit, lost.device, lost.start, self.now, lost.load, lost=True)
            self.models[lost.model].reserved = False
        if device.next is not None:
            self.models[device.next].reserved = False
        device.available, device.running, device.next, device.shard = False, None, None, None

    def _feed_device(self, number: int, device: DeviceState) -> None:
        if not device.available or device.running:
            return
        if device.next is None and (self.double_buffer or device.link <= self.now):
            self._choose_next(device)
        if device.next is not None and device.ready <= self.now and device.free <= self.now:
            self._start_unit(number, device)

    def _choose_next(self, device: DeviceState) -> None:
        running = device.running
        candidates = [self._make_candidate(i, device) for i, model in enumerate(self.models) if model.is_idle(self.now)]
        if running and running.unit + 1 < self.models[running.model].last:
            candidates.append(self._make_candidate(running.model, device, ahead=1))
        if not candidates:
            return
        candidates.sort(key=lambda candidate: (not candidate.here, candidate.model))
        chosen = self.policy.choose(candidates, self.decisions).model
        self.decisions += 1
        model, successor = self.models[chosen], running is not None and running.model == chosen
        unit = self.jobs[chosen].unit(model.done + successor)
        moved = (0.0 if device.shard == (chosen, unit.shard) else unit.load) + (0.0 if successor else unit.carry)
        device.next, device.load_start = chosen, max(device.link, self.now, model.back)
        device.ready = device.link = device.load_start + moved
        model.reserved = True
        self._wake_at(device.ready)

    def _make_candidate(self, number: int, device: DeviceState, ahead: int = 0) -> Candidate:
        model = self.models[number]
        is_local = ahead > 0 or (device.shard is not None and device.shard[0] == number)
        done = model.done + ahead
        return Candidate(number, model.job.remaining(done), model.job.unit(done).seconds, model.started, is_local, done)

    def _start_unit(self, number: int, device: DeviceState) -> None:
        chosen = device.next
        assert chosen is not None
        model, unit = self.models[chosen], self._next_unit(chosen)
        device.running = ScheduledUnit(chosen, model.done, number, self.now, self.now + unit.seconds, device.load_start)
        device.shard, device.next, model.started = (chosen, unit.shard), None, self.now
        device.place, device.left, device.pace = len(self.placed), 1.0, unit.seconds
        self.placed.append(device.running)
        self._wake_at(device.running.end)

    def _update_paces(self) -> None:
        """Adjust the speed of running units to the number of computing devices, for devices that share cores."""
        busy = [device for device in self.devices if device.running]
        for device in busy:
            assert device.running is not None
            pace = self.jobs[device.running.model].unit(device.running.unit).seconds_among(len(busy))
            if pace == device.pace:
                continue
            since = max(device.running.start, device.pace_since)
            device.left -= (self.now - since) / device.pace if device.pace else device.left
            device.pace_since, device.pace = self.now, pace
            device.running = self.placed[device.place] = replace(device.running, end=self.now + max(device.left, 0.0) * pace)
            self._wake_at(device.running.end)

    def _next_unit(self, model: int) -> Unit:
        return self.jobs[model].unit(self.models[model].done)

    def _wake_at(self, time: float) -> None:
        heapq.heappush(self.times, max(time, self.now))
