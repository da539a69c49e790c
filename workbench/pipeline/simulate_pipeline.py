"""Simulate a pipelined step task by task: start times, causes of waiting, and memory of every device.

Each device runs its tasks in schedule order, each as soon as the device is free and the task's inputs have arrived:

    forward           results of the forward passes of the stages that send to this one
    backward          its own forward pass, gradients from the stages it sends to
    backward_input    the same
    backward_weight   its own backward_input

A schedule therefore defines an order, not times. Recomputation is the first part of a backward task.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules import Schedule, schedule_named
from workbench.core.schedules.schedule import Kind, Orders, Task
from workbench.core.schedules.stage_cost import StageCost, receives
from workbench.errors import PipelineError
from workbench.pipeline.stage_transfer import FREE_TRANSFER, Transfer
from workbench.reports.simulated_pipeline import Arrival, SimulatedPipeline, TaskSpan


def simulate(spec: PipelineSpec, costs: Sequence[StageCost], transfer: Transfer = FREE_TRANSFER) -> SimulatedPipeline:
    """Simulate a step of `spec`; raises `PipelineError` unless there is one cost per virtual stage."""
    if len(costs) != spec.virtual_stages:
        raise PipelineError(
            f"The pipeline has {spec.stages} stages x {spec.chunks} chunks = {spec.virtual_stages} virtual stages, "
            f"and {len(costs)} have a cost.",
            ["partition the network again"],
        )
    orders = schedule_named(spec.schedule).tasks(spec.stages, spec.micro_batches, spec.chunks)
    return simulate_orders(orders, costs, transfer, spec.recomputes)


def simulate_orders(
    orders: Orders,
    costs: Sequence[StageCost],
    transfer: Transfer = FREE_TRANSFER,
    recomputes: Callable[[int, int], bool] = lambda _micro_batch, _device: False,
) -> SimulatedPipeline:
    """Simulate tasks in any order; `recomputes(micro_batch, device)`. Raises `PipelineError` for a deadlock."""
    count = 1 + max((task.micro_batch for order in orders for task in order), default=-1)
    recomputed = tuple(tuple(recomputes(i, device) for i in range(count)) for device in range(len(orders)))
    walk = _DeviceWalk(orders, costs, transfer, recomputed)
    walk.run()
    spans = tuple(tuple(walk.spans[task] for task in order) for order in orders)
    return SimulatedPipeline(spans, tuple(costs), recomputed, walk.causes, tuple(walk.arrivals))


@dataclass
class _DeviceWalk:
    """The simulation: each device advances until it waits for another."""

    orders: Orders
    costs: Sequence[StageCost]
    transfer: Transfer
    recomputed: tuple[tuple[bool, ...], ...]
    spans: dict[Task, TaskSpan] = field(default_factory=dict)
    causes: dict[Task, Task | None] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)

    def __post_init__(self) -> None:
        devices = len(self.orders)
        self.next = [0] * devices
        self.free = [0.0] * devices
        self.device_of = {task.stage: device for device, order in enumerate(self.orders) for task in order}
        self.receives = receives(self.costs)
        self.sends = _invert_receives(self.receives)
        self.readers, self.makers = _nearest_first(self.sends), _nearest_first(self.receives)
        self.gradient = {(task.stage, task.micro_batch): task for order in self.orders for task in order if task.kind in _GRADIENTS}
        self.arrived: dict[tuple[Task, int], float] = {}  # arrival time of a task's result at each reading stage
        self.links: dict[tuple[int, int], float] = {}  # when each link, or a device's port (to -1), becomes free
        self.waiting: dict[tuple[Task, int], int] = {}  # device that continues after this arrival

    def run(self) -> None:
        ready = list(range(len(self.orders)))
        while ready:
            device = ready.pop()
            order = self.orders[device]
            while self.next[device] < len(order):
                task = order[self.next[device]]
                needs = tuple(self._list_needs(task))
                if missing := next((need for need in needs if need not in self.arrived), None):
                    self.waiting[missing] = device
                    break
                self._run_task(task, device, needs)
                self.next[device] += 1
                ready += [self.waiting.pop(arrival) for arrival in self._list_arrivals(task) if arrival in self.waiting]
        self._verify_done()

    def _list_needs(self, task: Task) -> Iterator[tuple[Task, int]]:
        """Yield the results that must have arrived at the task's stage, as (task that made it, stage)."""
        kind, stage, i = task
        if kind is Kind.FORWARD:
            for source, _ in self.receives[stage]:
                yield Task(Kind.FORWARD, source, i), stage
        elif kind is Kind.BACKWARD_WEIGHT:
            yield Task(Kind.BACKWARD_INPUT, stage, i), stage
        else:
            yield Task(Kind.FORWARD, stage, i), stage
            for target, _ in self.sends[stage]:
                yield self.gradient[target, i], stage

    def _list_arrivals(self, task: Task) -> Iterator[tuple[Task, int]]:
        yield task, task.stage
        for stage, _ in self._list_receivers(task):
            yield task, stage

    def _list_receivers(self, task: Task) -> Sequence[tuple[int, int]]:
        """Return (stage, bytes) of the result's readers, nearest first; a gradient has the size of its value."""
        if task.kind is Kind.FORWARD:
            return self.readers[task.stage]
        return () if task.kind is Kind.BACKWARD_WEIGHT else self.makers[task.stage]

    def _run_task(self, task: Task, device: int, needs: tuple[tuple[Task, int], ...]) -> None:
        seconds, recompute = self._task_seconds(task, device)
        start, cause = self.free[device], self.orders[device][self.next[device] - 1] if self.next[device] else None
        for need in needs:
            if (arrived := self.arrived[need]) > start:
                start, cause = arrived, need[0]
        self.spans[task] = TaskSpan(task, device, start, start + seconds, recompute)
        self.causes[task] = cause
        self.free[device] = start + seconds
        self.arrived[task, task.stage] = start + seconds
        for stage, count in self._list_receivers(task):
            self._send(task, device, stage, count)

    def _send(self, task: Task, device: int, stage: int, count: int) -> None:
        """Send a task's result once it is complete and the link or port is free; within a device this is free."""
        target, end = self.device_of[stage], self.spans[task].end
        if target == device:
            self.arrived[task, stage] = end
            return
        seconds = self.transfer.seconds(count)
        link = device, -1 if self.transfer.shared_port else target
        start = max(end, self.links.get(link, 0.0)) if self.transfer.overlapped else self.free[device]
        self.links[link] = self.arrived[task, stage] = start + seconds
        if self.transfer.overlapped:
            self.arrivals.append(Arrival(task, stage, start, start + seconds, count))
        else:
            self.free[device] = start + seconds

    def _task_seconds(self, task: Task, device: int) -> tuple[float, float]:
        cost = self.costs[task.stage]
        if task.kind is Kind.FORWARD:
            return cost.forward, 0.0
        if task.kind is Kind.BACKWARD_WEIGHT:
            return cost.backward_weight, 0.0
        recompute = cost.forward if self.recomputed[device][task.micro_batch] else 0.0
        return recompute + (cost.backward if task.kind is Kind.BACKWARD else cost.backward_input), recompute

    def _verify_done(self) -> None:
        stuck = [order[done].label(len(self.orders)) for order, done in zip(self.orders, self.next, strict=True) if done < len(order)]
        if stuck:
            raise PipelineError(f"This order deadlocks, at {', '.join(stuck)}.", ["use a schedule of the workbench"])


_GRADIENTS = (Kind.BACKWARD, Kind.BACKWARD_INPUT)


def _nearest_first(exchanged: Sequence[Sequence[tuple[int, int]]]) -> tuple[tuple[tuple[int, int], ...], ...]:
    return tuple(tuple(sorted(others, key=partial(_distance, stage))) for stage, others in enumerate(exchanged))


def _distance(stage: int, other: tuple[int, int]) -> int:
    return abs(other[0] - stage)


def _invert_receives(received: Sequence[Sequence[tuple[int, int]]]) -> tuple[tuple[tuple[int, int], ...], ...]:
    sends: list[list[tuple[int, int]]] = [[] for _ in received]
    for stage, sources in enumerate(received):
        for source, count in sources:
            sends[source].append((stage, count))
    return tuple(tuple(receivers) for receivers in sends)


def diagram(schedule: Schedule, devices: int, micro_batches: int, chunks: int = 1) -> str:
    """One row per device, one column per time unit; `F1'` is micro-batch 1 on the device's second chunk.

    >>> from workbench.core.schedules import schedule_named
    >>> print(diagram(schedule_named("gpipe"), devices=2, micro_batches=2))
    device 0   F0 F1 .  .  B1 B0
    device 1   .  F0 F1 B1 B0 .
    """
    half = 1.0 if schedule.splits_backward else 0.5
    costs = (StageCost(1.0, half, half),) * (devices * chunks)
    simulated = simulate_orders(schedule.tasks(devices, micro_batches, chunks), costs)
    cells = [{int(span.start): span.task.label(devices) for span in spans} for spans in simulated.devices]
    width = max(len(label) for row in cells for label in row.values())
    columns = range(int(simulated.makespan))
    rows = (" ".join(row.get(column, ".").ljust(width) for column in columns).rstrip() for row in cells)
    return "\n".join(f"device {number}   {row}" for number, row in enumerate(rows))
