"""A profile of the devices in one step of a live run, instruction by instruction. The engine's profiler fills it in."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TypeVar

from workbench.reports.kernel import COMPUTE

MOST_EVENTS = 4_000  # kept per step: what a page can draw, and a fifth of a second to send from the worker

Interval = tuple[float, float]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One execution of one instruction of the compiled program on one device.

    - `device`: its index in the mesh, row-major; `stream`: `compute`, or the mesh axes of a collective (`data+model`);
    - `name`: the instruction's; `kind`: its opcode; of a fusion what dominates it (`dot`), of a collective as in `collective.KINDS`;
    - `path` and `source` as the planner writes them, empty if unknown;
    - `start`: seconds since the first event of the step on any device; `seconds`: its duration, waiting for other devices included.
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
    - `seconds`: median of one execution; `total`: seconds per device and step, the mean over the devices;
    - `unwaited`: median over the executions of the shortest on any device: a collective's time once the last device has arrived.
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
        """Seconds per device and step if every execution took the median: without the interruptions by other processes."""
        return self.seconds * self.count


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Seconds of the step on one device: in kernels, in communication, and in communication while no kernel ran."""

    device: int
    compute: float
    communication: float
    exposed: float


@dataclass(frozen=True)
class Trace:
    """One step of a live run, on the devices of one process.

    - `seconds`: from the first start to the last end on any device; the profiler makes the step a little slower;
    - `operations`: over all devices, the heaviest first (`usual_seconds`); `devices`: one each;
    - `events`: by device and start, whole devices from the first as far as `MOST_EVENTS` allows; `events_left_out` more were counted and
      left out.
    """

    seconds: float
    operations: tuple[TracedOperation, ...]
    devices: tuple[DeviceTime, ...]
    events: tuple[TraceEvent, ...]
    events_left_out: int = 0

    @cached_property
    def kernels(self) -> tuple[TracedOperation, ...]:
        """The operations that compute, the heaviest first."""
        return tuple(each for each in self.operations if each.stream == COMPUTE)

    @cached_property
    def collectives(self) -> tuple[TracedOperation, ...]:
        """The operations that communicate, the heaviest first."""
        return tuple(each for each in self.operations if each.stream != COMPUTE)

    def of_device(self, device: int) -> tuple[TraceEvent, ...]:
        """The kept events of one device, in order of their start."""
        return tuple(each for each in self.events if each.device == device)


def summarize_trace(events: Iterable[TraceEvent], most: int = MOST_EVENTS) -> Trace:
    """A trace of a step's events: sums over all of them, and at most `most` of the events."""
    ordered = sorted(events, key=lambda each: (each.device, each.start))
    by_device = _group_events(ordered, lambda each: each.device)
    selected = _select_events(list(by_device.values()), most)
    return Trace(
        seconds=max((each.stop for each in ordered), default=0.0) - min((each.start for each in ordered), default=0.0),
        operations=tuple(sorted(_summarize_operations(ordered, len(by_device)), key=lambda each: -each.usual_seconds)),
        devices=tuple(_device_time(device, group) for device, group in by_device.items()),
        events=tuple(selected),
        events_left_out=len(ordered) - len(selected),
    )


def _select_events(by_device: Sequence[Sequence[TraceEvent]], most: int) -> list[TraceEvent]:
    """The events of as many whole devices as fit; if not even the first device fits, its longest events."""
    first = by_device[0] if by_device else ()
    if len(first) > most:
        shortest = sorted((each.seconds for each in first), reverse=True)[most - 1]
        return [each for each in first if each.seconds >= shortest][:most]
    selected: list[TraceEvent] = []
    for group in by_device:
        if len(selected) + len(group) > most:
            break
        selected += group
    return selected


def _summarize_operations(events: Sequence[TraceEvent], devices: int) -> Iterable[TracedOperation]:
    for name, group in _group_events(events, lambda each: each.name).items():
        first = group[0]
        runs = [[each.seconds for each in run] for run in _group_events(group, lambda each: each.device).values()]
        yield TracedOperation(
            name,
            first.stream,
            first.kind,
            first.path,
            first.source,
            count=max(map(len, runs)),
            seconds=median(each.seconds for each in group),
            total=sum(each.seconds for each in group) / devices,
            unwaited=median(map(min, zip(*runs, strict=False))),
        )


def _device_time(device: int, events: Sequence[TraceEvent]) -> DeviceTime:
    compute = [(each.start, each.stop) for each in events if not each.communicates]
    communication = [(each.start, each.stop) for each in events if each.communicates]
    busy, sent = union_length(compute), union_length(communication)
    return DeviceTime(device, busy, sent, min(union_length(compute + communication) - busy, sent))


def union_length(intervals: Iterable[Interval]) -> float:
    """Length of the union of intervals.

    >>> union_length([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    length, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        length += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return length


def _group_events(events: Iterable[TraceEvent], key: Callable[[TraceEvent], K]) -> dict[K, list[TraceEvent]]:
    """Events with equal keys together, in order of first appearance."""
    groups: dict[K, list[TraceEvent]] = {}
    for each in events:
        groups.setdefault(key(each), []).append(each)
    return groups
