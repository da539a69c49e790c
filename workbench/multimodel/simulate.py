"""Shard units on devices as the executor will run them, in simulated time: the same policy, transfers, double buffering, and what happens
on the way (models that stop or come, devices that leave or return)."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench.errors import FleetError
from workbench.multimodel.jobs import Job, Unit, verify_jobs
from workbench.multimodel.policies import Candidate, Policy
from workbench.multimodel.schedule import Placed, Schedule


@dataclass(frozen=True, slots=True)
class Happening:
    """Something on the way, at `time` seconds: a model (by its place in the list) comes or stops, or a device leaves or returns.

    A model that stops finishes the unit that runs; a device that leaves loses the unit that runs on it, and another repeats it.
    """

    time: float
    what: str  # "model comes", "model stops", "device leaves", "device returns"
    number: int


WHATS = ("model comes", "model stops", "device leaves", "device returns")


def simulate(
    jobs: Sequence[Job], devices: int, policy: Policy, *, double_buffer: bool = True, happenings: Sequence[Happening] = ()
) -> Schedule:
    """The schedule of these jobs on so many equal devices.

    Without `double_buffer` a device brings a unit's state in, computes, and takes it back, one after the other. With it, the next unit is
    chosen while one runs and its state comes in meanwhile (H12); the successor of the running unit on the same device keeps its boundary
    activations there, and its shard too if it is the same one. A model that `comes` is not there before.

    Raises `FleetError` for no model, two of one name, no device, or a happening that is none.
    """
    verify_jobs(tuple(jobs))
    if devices < 1:
        raise FleetError(f"There are {devices} devices to train on.", ["one is needed at least"])
    for each in happenings:
        if each.what not in WHATS or not 0 <= each.number < (len(jobs) if each.what.startswith("model") else devices):
            raise FleetError(f"`{each.what} {each.number}` is nothing that can happen here.", WHATS)
    return _Floor(tuple(jobs), devices, policy, double_buffer, happenings).run()


@dataclass(slots=True)
class _Model:
    """Where one job stands."""

    job: Job
    there: bool = True
    done: int = 0
    last: int = 0  # its units end before this one; a model that stops has fewer
    taken: bool = False  # a unit of it runs, or is brought in
    started: float = float("-inf")

    @property
    def idle(self) -> bool:
        return self.there and not self.taken and self.done < self.last


@dataclass(slots=True)
class _Device:
    """What lies on one device, and what runs there. `shard` is the (model, shard) whose state it holds."""

    there: bool = True
    running: Placed | None = None
    next: int | None = None  # the model whose unit is brought in
    since: float = 0.0  # when its transfer began
    ready: float = 0.0  # when its state is there
    link: float = 0.0  # when the link to the host is free
    shard: tuple[int, int] | None = None


@dataclass
class _Floor:
    jobs: tuple[Job, ...]
    count: int
    policy: Policy
    double_buffer: bool
    happenings: Sequence[Happening]
    placed: list[Placed] = field(default_factory=list)
    decisions: int = 0
    now: float = 0.0

    def run(self) -> Schedule:
        coming = {each.number for each in self.happenings if each.what == "model comes"}
        self.models = [_Model(job, there=i not in coming, last=job.length) for i, job in enumerate(self.jobs)]
        self.devices = [_Device() for _ in range(self.count)]
        self.times = [0.0, *(each.time for each in self.happenings)]
        heapq.heapify(self.times)
        waiting = sorted(self.happenings, key=lambda each: each.time)
        while self.times:
            self.now = heapq.heappop(self.times)
            for device in self.devices:
                if device.running and device.running.end <= self.now:
                    self._complete(device)
            while waiting and waiting[0].time <= self.now:
                self._happen(waiting.pop(0))
            for number, device in enumerate(self.devices):
                self._fill(number, device)
            for device in self.devices:  # no device looks ahead while another has nothing to do
                if device.running and device.next is None and self.double_buffer:
                    self._choose(device)
        return Schedule(self.count, tuple(self.placed), self.decisions)

    def _complete(self, device: _Device) -> None:
        """A unit is done: what it changed goes back to the host, unless the device goes on with the same shard."""
        running = device.running
        assert running is not None
        model, unit = self.models[running.model], self.jobs[running.model].unit(running.unit)
        model.done += 1
        device.running = None
        stays = device.next == running.model
        model.taken = stays
        if not (stays and self._unit(running.model).shard == unit.shard):
            device.link = max(device.link, self.now) + unit.store
        if not self.double_buffer:
            self._later(device.link)  # nothing else moves before the state is back

    def _happen(self, event: Happening) -> None:
        if event.what == "model comes":
            self.models[event.number].there = True
        elif event.what == "model stops":
            model = self.models[event.number]
            model.last = model.done + any(each.running and each.running.model == event.number for each in self.devices)
            for each in self.devices:
                if each.next == event.number:
                    each.next, model.taken = None, each.running is not None and each.running.model == event.number
        elif event.what == "device returns":
            self.devices[event.number].there = True
        else:
            self._leave(self.devices[event.number])

    def _leave(self, device: _Device) -> None:
        if device.running:
            lost = device.running
            self.placed[self.placed.index(lost)] = Placed(lost.model, lost.unit, lost.device, lost.start, self.now, lost.load, lost=True)
            self.models[lost.model].taken = False
        if device.next is not None:
            self.models[device.next].taken = False
        device.there, device.running, device.next, device.shard = False, None, None, None

    def _fill(self, number: int, device: _Device) -> None:
        """Give a device that computes nothing a unit, and start it if its state is there."""
        if not device.there or device.running:
            return
        if device.next is None and (self.double_buffer or device.link <= self.now):
            self._choose(device)
        if device.next is not None and device.ready <= self.now:
            self._start(number, device)

    def _choose(self, device: _Device) -> None:
        """Ask the policy for the device's next unit, and bring its state in."""
        running = device.running
        candidates = [self._candidate(i, device) for i, model in enumerate(self.models) if model.idle]
        if running and running.unit + 1 < self.models[running.model].last:
            candidates.append(self._candidate(running.model, device, ahead=1))
        if not candidates:
            return
        candidates.sort(key=lambda each: (not each.here, each.model))
        chosen = self.policy.choose(candidates, self.decisions).model
        self.decisions += 1
        successor = running is not None and running.model == chosen
        unit = self.jobs[chosen].unit(self.models[chosen].done + successor)
        moved = (0.0 if device.shard == (chosen, unit.shard) else unit.load) + (0.0 if successor else unit.carry)
        device.next, device.since = chosen, max(device.link, self.now)
        device.ready = device.link = device.since + moved
        self.models[chosen].taken = True
        self._later(device.ready)

    def _candidate(self, number: int, device: _Device, ahead: int = 0) -> Candidate:
        model = self.models[number]
        here = ahead > 0 or (device.shard is not None and device.shard[0] == number)
        done = model.done + ahead
        return Candidate(number, model.job.remaining(done), model.job.unit(done).seconds, model.started, here)

    def _start(self, number: int, device: _Device) -> None:
        chosen = device.next
        assert chosen is not None
        model, unit = self.models[chosen], self._unit(chosen)
        device.running = Placed(chosen, model.done, number, self.now, self.now + unit.seconds, device.since)
        device.shard, device.next, model.started = (chosen, unit.shard), None, self.now
        self.placed.append(device.running)
        self._later(device.running.end)

    def _unit(self, model: int) -> Unit:
        return self.jobs[model].unit(self.models[model].done)

    def _later(self, time: float) -> None:
        heapq.heappush(self.times, max(time, self.now))
