"""The result of simulating a pipeline: the tasks with their times, the figures that follow from them, and a Gantt chart in text."""

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from workbench.core.schedules.schedule import Kind, Task, dispatch_order
from workbench.core.schedules.stage_cost import StageCost, receives
from workbench.units import format_seconds


class TaskSpan(NamedTuple):
    """A task on its device, in seconds from the start of the step; its first `recompute` seconds compute the forward pass again."""

    task: Task
    device: int
    start: float
    end: float
    recompute: float = 0.0

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Arrival(NamedTuple):
    """The transfer of a task's result to `stage`, from `start` to `end`, in seconds."""

    task: Task
    stage: int
    start: float
    end: float
    bytes: int


class Held(NamedTuple):
    """Bytes of one micro-batch on a device of a virtual stage: its batch data before its first task (`batch`), all that its running task
    has (`task`), what stays between two tasks (`kept`, or `waiting` between the halves of a backward task), what came for a task that has
    not begun (`arrived`). `task` is the one that runs, ran last, or is waited for."""

    what: str
    stage: int
    micro_batch: int
    bytes: int
    task: Task | None = None


class Moment(NamedTuple):
    """From `start` on, in seconds, a device holds so many bytes."""

    start: float
    bytes: int


@dataclass(frozen=True)
class SimulatedPipeline:
    """A simulated step. `devices` are the tasks of each device in order of time; `causes` what each task waited for last: the task before
    it on its device, or one whose result it reads. `arrivals` are the transfers that overlap with work. `recomputed[device][micro_batch]`:
    whether that device computes the forward pass of that micro-batch again."""

    devices: tuple[tuple[TaskSpan, ...], ...]
    costs: tuple[StageCost, ...]
    recomputed: tuple[tuple[bool, ...], ...]
    causes: Mapping[Task, Task | None]
    arrivals: tuple[Arrival, ...] = ()

    @cached_property
    def spans(self) -> tuple[TaskSpan, ...]:
        """All tasks, by start and device."""
        return tuple(sorted((span for spans in self.devices for span in spans), key=lambda span: (span.start, span.device)))

    @cached_property
    def makespan(self) -> float:
        """Seconds until the last task is done."""
        return max((spans[-1].end for spans in self.devices if spans), default=0.0)

    def update_span(self, device: int) -> tuple[float, float]:
        """Start and end of a device's update of its parameters: after its last task, without waiting for the other devices."""
        done = self.devices[device][-1].end if self.devices[device] else 0.0
        return done, done + sum(self.costs[stage].update for stage in self.stages_of(device))

    @cached_property
    def seconds(self) -> float:
        """Seconds of the step, with the update."""
        return max((self.update_span(device)[1] for device in range(len(self.devices))), default=0.0)

    @cached_property
    def busy(self) -> tuple[float, ...]:
        """Seconds that each device works on tasks."""
        return tuple(sum(span.seconds for span in spans) for spans in self.devices)

    @property
    def bubble(self) -> float:
        """The share of the devices' time until the last task is done in which they do nothing."""
        total = self.makespan * len(self.devices)
        return 1.0 - sum(self.busy) / total if total else 0.0

    def idle(self, device: int) -> float:
        """The share of a device's time until the last task is done in which it does nothing."""
        return 1.0 - self.busy[device] / self.makespan if self.makespan else 0.0

    @cached_property
    def critical_path(self) -> tuple[TaskSpan, ...]:
        """The critical path: from the first task to the last to end, each the one that the next waited for. Shorten one to shorten the
        step."""
        found = {span.task: span for span in self.spans}
        last = max(self.spans, key=lambda span: span.end, default=None)
        task: Task | None = last.task if last else None
        path = []
        while task is not None:
            path.append(found[task])
            task = self.causes[task]
        return tuple(reversed(path))

    @cached_property
    def _stages(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sorted({span.task.stage for span in spans})) for spans in self.devices)

    def stages_of(self, device: int) -> tuple[int, ...]:
        """The virtual stages of a device: those whose tasks it does."""
        return self._stages[device]

    @cached_property
    def _arrivals(self) -> Mapping[int, tuple[Arrival, ...]]:
        device_of = {stage: device for device, stages in enumerate(self._stages) for stage in stages}
        found: dict[int, list[Arrival]] = {}
        for each in self.arrivals:
            found.setdefault(device_of[each.stage], []).append(each)
        return {device: tuple(each) for device, each in found.items()}

    def arrivals_of(self, device: int) -> tuple[Arrival, ...]:
        """What arrives at a device, in the order of `arrivals`."""
        return self._arrivals.get(device, ())

    def in_flight(self, device: int) -> int:
        """The most micro-batches, over its stages, that a device holds anything of at a time: from forward to the end of backward."""
        steps = sorted(_in_flight_changes(self.devices[device]))
        most = count = 0
        for _, step in steps:
            count += step
            most = max(most, count)
        return most

    def memory(self, device: int) -> tuple[Moment, ...]:
        """Bytes that a device holds over the step: resident bytes, the batch, residuals of each micro-batch, what a task needs while it
        runs, and what waits for a task.

        With recomputation a micro-batch keeps the input activations of the stage until its backward task, and all residuals while that
        runs. Where backward is two tasks, what the first made for the second waits for it.
        """
        changes: dict[float, int] = {}
        for time, count in _memory_changes(self, device):
            changes[time] = changes.get(time, 0) + count
        stage_costs = [self.costs[stage] for stage in self.stages_of(device)]
        bytes_now = sum(cost.resident + cost.batch_inputs * len(self.recomputed[device]) for cost in stage_costs)
        moments = [Moment(0.0, bytes_now)]
        for time in sorted(changes):
            bytes_now += changes[time]
            if time == moments[-1].start:
                moments[-1] = Moment(time, bytes_now)
            elif changes[time]:
                moments.append(Moment(time, bytes_now))
        return tuple(moments)

    def held(self, device: int, time: float) -> tuple[Held, ...]:
        """What a device holds of each micro-batch at a time; beside its resident bytes all that `memory` counts there."""
        found = {
            (stage, i): Held("batch", stage, i, self.costs[stage].batch_inputs)
            for stage in self.stages_of(device)
            for i in range(len(self.recomputed[device]))
        }
        for span in self.devices[device]:
            if span.start > time:
                break
            kind, stage, i = span.task
            _, during, after = _bytes_around_task(kind, self.costs[stage], recomputed=self.recomputed[device][i])
            if span.end > time:
                found[stage, i] = Held("task", stage, i, during, span.task)
            elif kind in (Kind.BACKWARD, Kind.BACKWARD_WEIGHT):
                del found[stage, i]
            else:
                found[stage, i] = Held("kept" if kind is Kind.FORWARD else "waiting", stage, i, after, span.task)
        starts = {span.task: span.start for span in self.devices[device]}
        arrived = (each for each in _list_waits(self, device, starts) if each.begin <= time < each.end)
        return (*found.values(), *(Held("arrived", each.task.stage, each.task.micro_batch, each.bytes, each.task) for each in arrived))

    @cached_property
    def dispatch_positions(self) -> Mapping[Task, int]:
        """The index of each task in the order of dispatch."""
        return dispatch_order(tuple(tuple(span.task for span in spans) for spans in self.devices), receives(self.costs))

    @cached_property
    def peaks(self) -> tuple[int, ...]:
        """Peak bytes of each device, the update included."""
        return tuple(max(self.update_bytes(device), *(each.bytes for each in self.memory(device))) for device in range(len(self.devices)))

    def update_bytes(self, device: int) -> int:
        """Bytes that a device holds during its update: what is resident, and gradients that other devices made."""
        return sum(self.costs[stage].resident + self.costs[stage].borrowed_grads for stage in self.stages_of(device))


def _in_flight_changes(spans: Sequence[TaskSpan]) -> Iterator[tuple[float, int]]:
    splits = any(span.task.kind is Kind.BACKWARD_WEIGHT for span in spans)
    for span in spans:
        if span.task.kind is Kind.FORWARD:
            yield span.start, 1
        elif span.task.kind is (Kind.BACKWARD_WEIGHT if splits else Kind.BACKWARD):
            yield span.end, -1


def _memory_changes(simulated: SimulatedPipeline, device: int) -> Iterator[tuple[float, int]]:
    """(time, change in bytes); changes at one time count together."""
    starts, recomputed = {}, simulated.recomputed[device]
    known: dict[tuple[Kind, int, bool], tuple[int, int, int]] = {}
    for span in simulated.devices[device]:
        kind, stage, i = span.task
        starts[span.task] = span.start
        key = kind, stage, recomputed[i]
        if key not in known:
            known[key] = _bytes_around_task(kind, simulated.costs[stage], recomputed=recomputed[i])
        before, during, after = known[key]
        yield span.start, during - before
        yield span.end, after - during
    yield from _arrival_changes(simulated, device, starts)


def _bytes_around_task(kind: Kind, cost: StageCost, *, recomputed: bool) -> tuple[int, int, int]:
    """Bytes that a device holds of a micro-batch before a task, while it runs and after it."""
    residuals, at_work = cost.residuals_of(recomputed=recomputed), cost.at_work_of(recomputed=recomputed)
    match kind:
        case Kind.FORWARD:
            return cost.batch_inputs, at_work.forward, residuals
        case Kind.BACKWARD:
            return residuals, at_work.backward, 0
    halves = cost.halves_of(recomputed=recomputed)
    if kind is Kind.BACKWARD_INPUT:
        return residuals, halves.input, halves.waiting
    return halves.waiting, halves.weight, 0


class _Wait(NamedTuple):
    """From `begin` to `end`, when `task` starts, a device holds what arrived for it."""

    task: Task
    begin: float
    end: float
    bytes: int


def _arrival_changes(simulated: SimulatedPipeline, device: int, starts: Mapping[Task, float]) -> Iterator[tuple[float, int]]:
    """Changes by what arrived before the task that reads it began."""
    for each in _list_waits(simulated, device, starts):
        yield each.begin, each.bytes
        yield each.end, -each.bytes


def _list_waits(simulated: SimulatedPipeline, device: int, starts: Mapping[Task, float]) -> Iterator[_Wait]:
    """What arrives takes memory from the first task that is dispatched after the transfer, to the start of the task that reads it."""
    positions = simulated.dispatch_positions
    in_order = [(positions[span.task], span.start) for span in simulated.devices[device]]
    for arrival in simulated.arrivals_of(device):
        reader = next(
            task
            for kind in ((Kind.FORWARD,) if arrival.task.kind is Kind.FORWARD else (Kind.BACKWARD, Kind.BACKWARD_INPUT))
            if (task := Task(kind, arrival.stage, arrival.task.micro_batch)) in starts
        )
        after = bisect(in_order, positions[arrival.task], key=lambda each: each[0])
        begin = in_order[after][1]
        if starts[reader] > begin:
            yield _Wait(reader, begin, starts[reader], arrival.bytes)


# A simulated pipeline step as a Gantt chart in text.

TASK_NAMES: Mapping[str, str] = {
    "forward": "forward",
    "backward": "backward",
    "backward_input": "gradient of the input",
    "backward_weight": "gradient of the weights",
    "update": "update",
}
"""Kinds of tasks, in the order of their colours, in words."""
COLUMNS = 96  # of the chart
_FILL = {Kind.FORWARD: "-", Kind.BACKWARD: "=", Kind.BACKWARD_INPUT: "=", Kind.BACKWARD_WEIGHT: "~"}
_RECOMPUTED, _UPDATE, _IDLE = "+", "u", "."


def gantt_title(step: SimulatedPipeline) -> str:
    return f"The step, {format_seconds(step.seconds)} from left to right"


def gantt_text(step: SimulatedPipeline, columns: int = COLUMNS) -> str:
    """A row per device, time to the right: `F3---` forward, `B3===` backward, `+` recomputation, `u` the update, `.` idle."""
    scale = columns / step.seconds if step.seconds else 0.0
    rows = []
    for device, spans in enumerate(step.devices):
        cells = [_IDLE] * columns
        for span in spans:
            _draw_task(cells, span, scale, len(step.devices))
        begin, end = (round(moment * scale) for moment in step.update_span(device))
        cells[begin:end] = _UPDATE * (end - begin)
        rows.append(f"  {device:>3}  {''.join(cells)[:columns]}")
    legend = _legend_text(step)
    return "\n".join((f"{gantt_title(step)}\n", *rows, f"\n  {legend}"))


def _draw_task(cells: list[str], span: TaskSpan, scale: float, devices: int) -> None:
    """Label and fill, as much as fits; for the shortest tasks a letter, or nothing."""
    begin, end = round(span.start * scale), round(span.end * scale)
    again = min(round((span.start + span.recompute) * scale), end)
    room = end - begin
    text = _RECOMPUTED * (again - begin) + _FILL[span.task.kind] * (end - again)
    label = span.task.label(devices)
    label = label if len(label) < room else label[:1]
    cells[begin:end] = (label + text[len(label) :])[:room]


def _legend_text(step: SimulatedPipeline) -> str:
    kinds: Sequence[Kind] = sorted({span.task.kind for span in step.spans})
    words = {
        Kind.FORWARD: "F- forward",
        Kind.BACKWARD: "B= backward",
        Kind.BACKWARD_INPUT: "I= gradient of the input",
        Kind.BACKWARD_WEIGHT: "W~ gradient of the weights",
    }
    shown = [words[kind] for kind in (Kind.FORWARD, Kind.BACKWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT) if kind in kinds]
    if any(span.recompute for span in step.spans):
        shown.append("+ computed again")
    if step.seconds > step.makespan:
        shown.append("u update")
    return " · ".join((*shown, ". idle"))
