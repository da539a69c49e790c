"""The result of simulating a pipeline: task times, derived figures, and a text Gantt chart."""

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from workbench.core.schedules.schedule import Kind, Task, dispatch_order
from workbench.core.schedules.stage_cost import StageCost, receives
from workbench.units import format_seconds


class TaskSpan(NamedTuple):
    """A task on its device, in seconds from the start of the step, of which the first `recompute` are recomputation."""

    task: Task
    device: int
    start: float
    end: float
    recompute: float = 0.0

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Arrival(NamedTuple):
    """The transfer of a task's result to `stage`, from `start` to `end` in seconds."""

    task: Task
    stage: int
    start: float
    end: float
    bytes: int


class Held(NamedTuple):
    """Bytes of one micro-batch on a device of a virtual stage.

    - `what`: `batch` (batch data before its first task), `task` (all data of the running task), `kept` (between two
      tasks), `waiting` (between the halves of a backward task), or `arrived` (input of a task that has not begun);
    - `task`: the running, last, or awaited task.
    """

    what: str
    stage: int
    micro_batch: int
    bytes: int
    task: Task | None = None


class Moment(NamedTuple):
    """The bytes that a device holds from `start` (seconds) on."""

    start: float
    bytes: int


@dataclass(frozen=True)
class SimulatedPipeline:
    """A simulated pipeline step.

    - `devices`: the tasks of each device in order of time;
    - `causes`: what each task waited for last: the previous task on its device, or a task whose result it reads;
    - `arrivals`: the transfers that overlap with work;
    - `recomputed[device][micro_batch]`: whether that device recomputes the micro-batch's forward pass.
    """

    devices: tuple[tuple[TaskSpan, ...], ...]
    costs: tuple[StageCost, ...]
    recomputed: tuple[tuple[bool, ...], ...]
    causes: Mapping[Task, Task | None]
    arrivals: tuple[Arrival, ...] = ()

    @cached_property
    def spans(self) -> tuple[TaskSpan, ...]:
        return tuple(sorted((span for spans in self.devices for span in spans), key=lambda span: (span.start, span.device)))

    @cached_property
    def makespan(self) -> float:
        """Seconds until the last task is done."""
        return max((spans[-1].end for spans in self.devices if spans), default=0.0)

    def update_span(self, device: int) -> tuple[float, float]:
        """Return start and end of a device's update, which follows its last task without waiting for others."""
        start = self.devices[device][-1].end if self.devices[device] else 0.0
        return start, start + sum(self.costs[stage].update for stage in self.stages_of(device))

    @cached_property
    def seconds(self) -> float:
        return max((self.update_span(device)[1] for device in range(len(self.devices))), default=0.0)

    @cached_property
    def busy(self) -> tuple[float, ...]:
        return tuple(sum(span.seconds for span in spans) for spans in self.devices)

    @property
    def bubble(self) -> float:
        """The idle share of the devices' time until the last task is done."""
        total = self.makespan * len(self.devices)
        return 1.0 - sum(self.busy) / total if total else 0.0

    def idle(self, device: int) -> float:
        """Return the idle share of a device's time until the last task is done."""
        return 1.0 - self.busy[device] / self.makespan if self.makespan else 0.0

    @cached_property
    def critical_path(self) -> tuple[TaskSpan, ...]:
        """The chain of tasks, each waiting for the previous one, that ends last; shortening one shortens the step."""
        span_of = {span.task: span for span in self.spans}
        last = max(self.spans, key=lambda span: span.end, default=None)
        task: Task | None = last.task if last else None
        path = []
        while task is not None:
            path.append(span_of[task])
            task = self.causes[task]
        return tuple(reversed(path))

    @cached_property
    def _stages(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sorted({span.task.stage for span in spans})) for spans in self.devices)

    def stages_of(self, device: int) -> tuple[int, ...]:
        return self._stages[device]

    @cached_property
    def _arrivals(self) -> Mapping[int, tuple[Arrival, ...]]:
        device_of = {stage: device for device, stages in enumerate(self._stages) for stage in stages}
        by_device: dict[int, list[Arrival]] = {}
        for arrival in self.arrivals:
            by_device.setdefault(device_of[arrival.stage], []).append(arrival)
        return {device: tuple(arrivals) for device, arrivals in by_device.items()}

    def arrivals_of(self, device: int) -> tuple[Arrival, ...]:
        return self._arrivals.get(device, ())

    def in_flight(self, device: int) -> int:
        """Return the peak number of micro-batches on a device, from forward to the end of backward, over its stages."""
        steps = sorted(_in_flight_changes(self.devices[device]))
        most = count = 0
        for _, step in steps:
            count += step
            most = max(most, count)
        return most

    def memory(self, device: int) -> tuple[Moment, ...]:
        """Return the bytes on a device over the step.

        With recomputation a micro-batch keeps only input activations until its backward task; a split backward pass
        keeps the results for its second half.
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
        """Return what a device holds of each micro-batch at a time: all that `memory` counts except resident bytes."""
        holdings = {
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
                holdings[stage, i] = Held("task", stage, i, during, span.task)
            elif kind in (Kind.BACKWARD, Kind.BACKWARD_WEIGHT):
                del holdings[stage, i]
            else:
                holdings[stage, i] = Held("kept" if kind is Kind.FORWARD else "waiting", stage, i, after, span.task)
        starts = {span.task: span.start for span in self.devices[device]}
        arrived = (wait for wait in _list_waits(self, device, starts) if wait.begin <= time < wait.end)
        return (*holdings.values(), *(Held("arrived", wait.task.stage, wait.task.micro_batch, wait.bytes, wait.task) for wait in arrived))

    @cached_property
    def dispatch_positions(self) -> Mapping[Task, int]:
        return dispatch_order(tuple(tuple(span.task for span in spans) for spans in self.devices), receives(self.costs))

    @cached_property
    def peaks(self) -> tuple[int, ...]:
        """Peak bytes of each device, including the update."""
        return tuple(
            max(self.update_bytes(device), *(moment.bytes for moment in self.memory(device))) for device in range(len(self.devices))
        )

    def update_bytes(self, device: int) -> int:
        """Return the bytes on a device during its update: resident bytes, and gradients from other devices."""
        return sum(self.costs[stage].resident + self.costs[stage].borrowed_grads for stage in self.stages_of(device))


def _in_flight_changes(spans: Sequence[TaskSpan]) -> Iterator[tuple[float, int]]:
    splits = any(span.task.kind is Kind.BACKWARD_WEIGHT for span in spans)
    for span in spans:
        if span.task.kind is Kind.FORWARD:
            yield span.start, 1
        elif span.task.kind is (Kind.BACKWARD_WEIGHT if splits else Kind.BACKWARD):
            yield span.end, -1


def _memory_changes(simulated: SimulatedPipeline, device: int) -> Iterator[tuple[float, int]]:
    starts, recomputed = {}, simulated.recomputed[device]
    bytes_of: dict[tuple[Kind, int, bool], tuple[int, int, int]] = {}
    for span in simulated.devices[device]:
        kind, stage, i = span.task
        starts[span.task] = span.start
        key = kind, stage, recomputed[i]
        if key not in bytes_of:
            bytes_of[key] = _bytes_around_task(kind, simulated.costs[stage], recomputed=recomputed[i])
        before, during, after = bytes_of[key]
        yield span.start, during - before
        yield span.end, after - during
    yield from _arrival_changes(simulated, device, starts)


def _bytes_around_task(kind: Kind, cost: StageCost, *, recomputed: bool) -> tuple[int, int, int]:
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
    """Arrived data held from `begin` to `end`, the start of the `task` that reads it."""

    task: Task
    begin: float
    end: float
    bytes: int


def _arrival_changes(simulated: SimulatedPipeline, device: int, starts: Mapping[Task, float]) -> Iterator[tuple[float, int]]:
    for wait in _list_waits(simulated, device, starts):
        yield wait.begin, wait.bytes
        yield wait.end, -wait.bytes


def _list_waits(simulated: SimulatedPipeline, device: int, starts: Mapping[Task, float]) -> Iterator[_Wait]:
    """List arrivals that occupy memory before their reader starts, from the first task dispatched after the transfer."""
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


# Text Gantt chart of a simulated step.

TASK_NAMES: Mapping[str, str] = {
    "forward": "forward",
    "backward": "backward",
    "backward_input": "gradient of the input",
    "backward_weight": "gradient of the weights",
    "update": "update",
}
"""Names of task kinds, in the order of their colors."""
COLUMNS = 96  # width of the chart
_FILL = {Kind.FORWARD: "-", Kind.BACKWARD: "=", Kind.BACKWARD_INPUT: "=", Kind.BACKWARD_WEIGHT: "~"}
_RECOMPUTED, _UPDATE, _IDLE = "+", "u", "."


def gantt_title(step: SimulatedPipeline) -> str:
    return f"The step, {format_seconds(step.seconds)} from left to right"


def gantt_text(step: SimulatedPipeline, columns: int = COLUMNS) -> str:
    """Format a row per device: `F3---` forward, `B3===` backward, `+` recomputation, `u` update, `.` idle."""
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
    begin, end = round(span.start * scale), round(span.end * scale)
    recompute_end = min(round((span.start + span.recompute) * scale), end)
    room = end - begin
    text = _RECOMPUTED * (recompute_end - begin) + _FILL[span.task.kind] * (end - recompute_end)
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
    entries = [words[kind] for kind in (Kind.FORWARD, Kind.BACKWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT) if kind in kinds]
    if any(span.recompute for span in step.spans):
        entries.append("+ computed again")
    if step.seconds > step.makespan:
        entries.append("u update")
    return " · ".join((*entries, ". idle"))
