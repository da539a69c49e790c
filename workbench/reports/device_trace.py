"""A device profile of one step of a live run, per instruction. The engine's profiler fills it in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from workbench.core.text_tables import group_items
from workbench.reports.kernel import COMPUTE

MOST_EVENTS = 4_000  # per step: a page can draw them, and the worker sends them in 0.2 s

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One execution of one compiled instruction on one device.

    - `device`: its index in the mesh, row-major; `stream`: `compute`, or the mesh axes of a collective (`data+model`);
    - `name`: the instruction's name; `kind`: its opcode; for a fusion the dominant opcode (`dot`), for a collective as
      in `collective.KINDS`;
    - `path` and `source` as in the planner, empty if unknown;
    - `start`: seconds since the first event of the step on any device; `seconds`: duration, including waits for other
      devices.
    """

    device: int
    stream: str
    name: str
    kind: str
    path: str
    source: str
    start: float
    seconds: float

    @property
    def stop(self) -> float:
        return self.start + self.seconds

    @property
    def communicates(self) -> bool:
        return self.stream != COMPUTE


@dataclass(frozen=True, slots=True)
class TracedOperation:
    """All executions of one instruction.

    - `count`: executions per device and step;
    - `seconds`: median of one execution; `total`: seconds per device and step, averaged over the devices;
    - `unwaited`: median over executions of the shortest on any device: a collective's time after the last device has
      arrived.
    """

    name: str
    stream: str
    kind: str
    path: str
    source: str
    count: int
    seconds: float
    total: float
    unwaited: float

    @property
    def usual_seconds(self) -> float:
        """Seconds per device and step with median execution times, which excludes interruptions by other processes."""
        return self.seconds * self.count


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Seconds of the step on one device: in kernels, in communication, and in exposed communication."""

    device: int
    compute: float
    communication: float
    exposed: float


@dataclass(frozen=True)
class Trace:
    """One step of a live run, on the devices of one process.

    - `seconds`: from the first start to the last end on any device; the profiler slows the step slightly;
    - `operations`: over all devices, longest first (`usual_seconds`); `devices`: one entry each;
    - `events`: by device and start, for the first devices whose events fit in `MOST_EVENTS`; `events_left_out`: number
      of events dropped.
    """

    seconds: float
    operations: tuple[TracedOperation, ...]
    devices: tuple[DeviceTime, ...]
    events: tuple[TraceEvent, ...]
    events_left_out: int = 0

    @cached_property
    def kernels(self) -> tuple[TracedOperation, ...]:
        return tuple(operation for operation in self.operations if operation.stream == COMPUTE)

    @cached_property
    def collectives(self) -> tuple[TracedOperation, ...]:
        return tuple(operation for operation in self.operations if operation.stream != COMPUTE)

    def of_device(self, device: int) -> tuple[TraceEvent, ...]:
        return tuple(event for event in self.events if event.device == device)


def summarize_trace(events: Iterable[TraceEvent], most: int = MOST_EVENTS) -> Trace:
    """Summarize a step's events, keeping at most `most` of them."""
    ordered = sorted(events, key=lambda each: (each.device, each.start))
    by_device = group_items(ordered, lambda each: each.device)
    selected = _select_events(by_device, most)
    return Trace(
        seconds=max((each.stop for each in ordered), default=0.0) - min((each.start for each in ordered), default=0.0),
        operations=tuple(sorted(_summarize_operations(ordered, len(by_device)), key=lambda each: -each.usual_seconds)),
        devices=tuple(map(_device_time, by_device)),
        events=tuple(selected),
        events_left_out=len(ordered) - len(selected),
    )


def _select_events(by_device: Sequence[Sequence[TraceEvent]], most: int) -> list[TraceEvent]:
    """Select the events of as many whole devices as fit, or the longest events of the first device."""
    first = by_device[0] if by_device else ()
    if len(first) > most:
        shortest = sorted((event.seconds for event in first), reverse=True)[most - 1]
        return [event for event in first if event.seconds >= shortest][:most]
    selected: list[TraceEvent] = []
    for group in by_device:
        if len(selected) + len(group) > most:
            break
        selected += group
    return selected


def _summarize_operations(events: Sequence[TraceEvent], devices: int) -> Iterable[TracedOperation]:
    for group in group_items(events, lambda each: each.name):
        first = group[0]
        runs = [[each.seconds for each in run] for run in group_items(group, lambda each: each.device)]
        yield TracedOperation(
            first.name,
            first.stream,
            first.kind,
            first.path,
            first.source,
            count=max(map(len, runs)),
            seconds=median(each.seconds for each in group),
            total=sum(each.seconds for each in group) / devices,
            unwaited=median(map(min, zip(*runs, strict=False))),
        )


def _device_time(events: Sequence[TraceEvent]) -> DeviceTime:
    compute = [(each.start, each.stop) for each in events if not each.communicates]
    communication = [(each.start, each.stop) for each in events if each.communicates]
    busy, sent = union_length(compute), union_length(communication)
    return DeviceTime(events[0].device, busy, sent, min(union_length(compute + communication) - busy, sent))


def union_length(intervals: Iterable[Interval]) -> float:
    """Return the length of the union of intervals.

    >>> union_length([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    length, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        length += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return length
