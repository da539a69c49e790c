"""A fleet's schedule over time, to explore: a lane a device in the colours of the models, thin lanes of state brought in, and below them
what was measured, then as now expected.

Until a run begins the chart has one section. `run_section` is what a run adds: it is sent again and again, the rest once.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from workbench.multimodel import FleetSchedule, Job, Pass, ScheduledUnit, Unit
from workbench.units import format_seconds
from workbench.visualize.charts.chart import Chart, KeyEntry, columns_of, seconds_unit
from workbench.visualize.charts.packed_spans import (
    EDGES,
    NUMBER,
    Lane,
    Span,
    SpanStyle,
    idle_columns,
    lane_properties,
    pack_spans,
)
from workbench.visualize.draw.palette import NEUTRAL, WARNING, model_colour

# Many units over time, drawn as few: time slices of each device, in which each model has the share that it computed.


MOST_SLICES, MOST_MARKS = 600, 12_000  # slices of the whole time; for all devices and models, approximately
UnitSpan = tuple[int, int, float, float]
"""Model, device, start, end."""


class Slice(NamedTuple):
    """From `start` to `end`, in seconds, a model has the device from the share `low` to the share `high` of that time, with so many `units`
    that begin in it."""

    device: int
    start: float
    end: float
    model: int
    low: float
    high: float
    units: int


def time_slices(spans: Iterable[UnitSpan], whole: float, devices: int, models: int) -> list[Slice]:
    """
    >>> for each in time_slices([(0, 0, 0.0, 1.0), (1, 0, 1.0, 1.5)], whole=10.0, devices=1, models=1200):
    ...     print(tuple(each))
    (0, 0.0, 1.0, 0, 0.0, 1.0, 1)
    (0, 1.0, 2.0, 1, 0.0, 0.5, 1)
    """
    count = max(10, min(MOST_SLICES, MOST_MARKS // (devices * models)))
    width = whole / count or 1.0
    seconds: dict[tuple[int, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    units: dict[tuple[int, int, int], int] = defaultdict(int)
    for model, device, start, end in spans:
        units[device, min(count - 1, int(start / width)), model] += 1
        for place in range(min(count - 1, int(start / width)), min(count - 1, int(end / width)) + 1):
            within = min(end, (place + 1) * width) - max(start, place * width)
            if within > 0:
                seconds[device, place][model] += within
    found = []
    for (device, place), shared in sorted(seconds.items()):
        low = 0.0
        for model, took in sorted(shared.items()):
            high = min(1.0, low + took / width)
            begin, end = round(place * width, 9), round((place + 1) * width, 9)
            found.append(Slice(device, begin, end, model, round(low, 4), round(high, 4), units.get((device, place, model), 0)))
            low = high
    return found


MOST_UNITS = 20_000  # drawn one by one; more are drawn as shares of time slices
MOST_EXPECTED = 2_000  # of the rest of a run, which is sent repeatedly
_CAPTION, _MOVING, _GAP = 20, 3, 4  # pixels
_AXIS = 48
_MANY = 16  # devices, from which on they have less room
_FORWARD, _MOVED, _EXPECTED, _SLICED = 0.6, 0.55, 0.4, 0.9  # opacities
_PASSES = {Pass.FORWARD: "forward", Pass.FORWARD_LOSS: "forward and backward", Pass.BACKWARD: "backward"}
_LOST = "lost with its device and repeated"
_SLICE_COLUMNS = (*EDGES, "color", "alpha", "title")


@dataclass(frozen=True, slots=True)
class _FleetRows:
    """Where the rows of a section are, in pixels from the top."""

    devices: int
    section: int = 0

    @property
    def _bar(self) -> int:
        return 18 if self.devices <= _MANY else 11

    @property
    def _pitch(self) -> int:
        return self._bar + 1 + _MOVING + _GAP

    @property
    def top(self) -> int:
        """Of its caption."""
        return self.section * (_CAPTION + self.devices * self._pitch + _GAP)

    def units(self, device: int) -> tuple[int, int]:
        """The bottom and the top of a device's lane."""
        top = self.top + _CAPTION + device * self._pitch
        return top + self._bar, top

    def moving(self, device: int) -> tuple[int, int]:
        """Of what says when state was brought in."""
        bottom, _ = self.units(device)
        return bottom + 1 + _MOVING, bottom + 1

    @property
    def bottom(self) -> int:
        return _FleetRows(self.devices, self.section + 1).top


@dataclass(frozen=True, slots=True)
class RunSoFar:
    """What ran so far, in seconds from its beginning, and the rest as it is now expected."""

    measured: Sequence[ScheduledUnit]
    expected: FleetSchedule | None = None

    @property
    def lasted(self) -> float:
        return max((each.end for each in self.measured), default=0.0)

    @property
    def seconds(self) -> float:
        return max(self.lasted, self.expected.makespan if self.expected else 0.0)

    @property
    def coming(self) -> tuple[ScheduledUnit, ...]:
        """What is expected and has not run: the expectation is a little older than what was measured."""
        done = {(each.model, each.unit) for each in self.measured if not each.lost}
        ends: dict[int, float] = {}
        for each in self.measured:
            ends[each.device] = max(each.end, ends.get(each.device, 0.0))
        rest = [each for each in (self.expected.placed if self.expected else ()) if (each.model, each.unit) not in done]
        return tuple(_after(each, ends.get(each.device, 0.0)) for each in rest if each.end > ends.get(each.device, 0.0))


def _after(placed: ScheduledUnit, end: float) -> ScheduledUnit:
    """What of a unit and of its loading is behind a moment."""
    start = max(placed.start, end)
    return replace(placed, start=start, load=min(max(placed.load, end), start))


def fleet_chart(jobs: Sequence[Job], schedule: FleetSchedule, bound: float) -> Chart | None:
    """A predicted schedule of these jobs, with the lower bound on its makespan; `None` where it takes no time.

    Forward units are light; a thin lane below says when a unit's state was copied in; what was lost with its device is hatched.
    """
    if not schedule.makespan:
        return None
    axis, rows = seconds_unit(schedule.makespan), _FleetRows(schedule.devices)
    unit = axis.size
    drawn = len(schedule.placed) <= MOST_UNITS
    lanes, spans = _lanes(jobs, schedule.placed if drawn else (), rows, "predicted", "measured")
    packed = pack_spans(spans, lanes, tuple(_styles(jobs)), unit, _LOST)
    slices = [] if drawn else _sliced(schedule.placed, schedule.makespan, rows, len(jobs))
    return Chart(
        empty_fleet,
        (),
        {
            "idle": _idle(rows, schedule.makespan / unit),
            "bound": _bound(bound / unit, rows),
            "slices": _slice_columns([(each, _SLICED) for each in slices], jobs, rows, unit),
            "ran slices": _slice_columns((), jobs, rows, unit),
        },
        {"x": (0.0, max(schedule.makespan, bound) / unit), "y": (float(rows.bottom), 0.0)},
        _properties([(rows, "predicted")], axis.name),
        key=tuple(_key(bound)),
        across=f"fleet {axis.name}",
        spans=(packed,),
    )


def run_section(jobs: Sequence[Job], schedule: FleetSchedule, bound: float, run: RunSoFar) -> Chart:
    """What of the chart is another with a run of the schedule; its spans come behind those of the chart, in the same styles."""
    axis = seconds_unit(schedule.makespan)
    unit, first, rows = axis.size, _FleetRows(schedule.devices), _FleetRows(schedule.devices, 1)
    rest = run.coming
    drawn, few = len(run.measured) <= MOST_UNITS, len(rest) <= MOST_EXPECTED
    own = unit * run.seconds / schedule.makespan if drawn and few else 0.0  # slices have one scale
    expected = _lanes(jobs, rest if few else (), rows, "current forecast", "predicted", own, _EXPECTED)
    measured = _lanes(jobs, run.measured if drawn else (), rows, "measured", "predicted", own)
    spans = pack_spans([*expected[1], *measured[1]], (*expected[0], *measured[0]), (), unit, _LOST)
    ran = [] if drawn else _sliced(run.measured, run.seconds, rows, len(jobs))
    coming = [] if few else _sliced(rest, run.seconds, rows, len(jobs))
    above, below = ("initial prediction", "measured, then current forecast") if run.expected else ("predicted", "measured")
    longest = max(schedule.makespan, bound, run.seconds)
    idle = [_idle(first, schedule.makespan / unit), _idle(rows, run.seconds / unit, own / unit)]
    return Chart(
        empty_fleet,
        (),
        {
            "idle": {name: [*idle[0][name], *idle[1][name]] for name in idle[0]},
            "bound": _bound(bound / unit, rows),
            "ran slices": _slice_columns([*((each, _EXPECTED) for each in coming), *((each, _SLICED) for each in ran)], jobs, rows, unit),
        },
        {"x": (0.0, longest / unit), "y": (float(rows.bottom), 0.0)},
        _properties([(first, above), (rows, below)], axis.name),
        key=tuple(_key(bound, expects=run.expected is not None)),
        spans=(spans,),
    )


def empty_fleet() -> Any:
    """The figure: idle time, shares of time slices, units, and the lower bound."""
    from workbench.visualize.charts.empty_figure import AT_EDGES, add_idle, add_source, add_tasks, empty_lanes

    plot = empty_lanes()
    add_idle(plot)
    sliced = [
        plot.quad(source=add_source(name, _SLICE_COLUMNS), fill_color="color", fill_alpha="alpha", line_color=None, **AT_EDGES)
        for name in ("slices", "ran slices")
    ]
    plot.multi_line("xs", "ys", source=add_source("bound", ("xs", "ys")), line_color=WARNING, line_dash=[4, 3], line_width=1.25)
    for each in sliced:
        each.nonselection_glyph = each.glyph
    add_tasks(plot, *sliced)
    return plot


def _lanes(
    jobs: Sequence[Job], units: Sequence[ScheduledUnit], rows: _FleetRows, tier: str, other: str, own: float = 0.0, weight: float = 1.0
) -> tuple[tuple[Lane, ...], list[list[Span]]]:
    """Two lanes of each device: its units, and when their state was brought in."""
    firsts = [*itertools.accumulate((len(job.units) for job in jobs), initial=0)]
    by_device: list[list[ScheduledUnit]] = [[] for _ in range(rows.devices)]
    for each in units:
        if each.device < rows.devices and each.model < len(jobs):
            by_device[each.device].append(each)
    lanes, spans = [], []
    for device, placed in enumerate(by_device):
        lanes.append(Lane(f"device {device}", NEUTRAL, *rows.units(device), tier, other, own, weight))
        lanes.append(Lane(f"device {device}", NEUTRAL, *rows.moving(device), tier, "", own, weight))
        spans.append([_unit_span(each, jobs[each.model], firsts[each.model]) for each in placed])
        spans.append([Span(each.load, each.start - each.load, firsts[-1] + each.model) for each in placed if each.load < each.start])
    return tuple(lanes), spans


def _unit_span(placed: ScheduledUnit, job: Job, first: int) -> Span:
    batch, unit = divmod(placed.unit, len(job.units))
    return Span(placed.start, placed.end - placed.start, first + unit, batch + 1, float(placed.lost))


def _styles(jobs: Sequence[Job]) -> Iterator[SpanStyle]:
    """Of each unit of a mini-batch of every model, then of each model's state."""
    for number, job in enumerate(jobs):
        for unit in job.units:
            weight = _FORWARD if unit.kind is Pass.FORWARD else 1.0
            yield SpanStyle(str(number + 1), _unit_title(job, unit), "", weight, model_colour(number), str(number))
    for number, job in enumerate(jobs):
        yield SpanStyle("", f"state of {job.name} brought in", "", _MOVED, model_colour(number), str(number))


def _unit_title(job: Job, unit: Unit) -> str:
    return f"{job.name}, {_PASSES[unit.kind]} of shard {unit.shard}, mini-batch {NUMBER}"


def _bound(x: float, rows: _FleetRows) -> dict[str, list[list[float]]]:
    """A line over all rows to the end of these."""
    return {"xs": [[x, x]], "ys": [[0.0, float(rows.bottom)]]}


def _idle(rows: _FleetRows, end: float, ratio: float = 0.0) -> dict[str, list[float]]:
    """The whole time of each device; on a scale of its own it ends a `ratio` earlier."""
    return idle_columns([rows.units(device) for device in range(rows.devices)], end, end / (ratio or 1.0))


def _properties(sections: Sequence[tuple[_FleetRows, str]], unit: str) -> dict[str, Mapping[str, Any]]:
    ticks: dict[float, str] = {}
    for rows, name in sections:
        ticks[rows.top + _CAPTION / 2] = name
        ticks |= {sum(rows.units(device)) / 2: f"device {device}" for device in range(rows.devices)}
    return lane_properties(sections[-1][0].bottom + _AXIS, f"{unit} of the training", ticks)


def _key(bound: float, *, expects: bool = False) -> Iterator[KeyEntry]:
    yield KeyEntry("", "light: forward")
    yield KeyEntry("", "thin: state brought in")
    yield KeyEntry(NEUTRAL, "idle", hatched=True)
    yield KeyEntry(WARNING, f"lower bound {format_seconds(bound)}")
    if expects:
        yield KeyEntry("", "faint: current forecast")


def _sliced(units: Sequence[ScheduledUnit], seconds: float, rows: _FleetRows, models: int) -> list[Slice]:
    spans = ((each.model, each.device, each.start, each.end) for each in units if each.device < rows.devices and each.model < models)
    return time_slices(spans, seconds, rows.devices, models)


def _slice_columns(slices: Sequence[tuple[Slice, float]], jobs: Sequence[Job], rows: _FleetRows, unit: float) -> dict[str, list[Any]]:
    """A model's share of a device's lane in a slice of time, from below, with its opacity."""
    rows_of_slices = []
    for each, alpha in slices:
        bottom, top = rows.units(each.device)
        high = bottom - top
        title = (
            f"{jobs[each.model].name}, {each.high - each.low:.0%} of device {each.device}\n"
            f"{format_seconds(each.start)} to {format_seconds(each.end)}, {each.units} units begin"
        )
        edges = each.start / unit, each.end / unit, bottom - high * each.low, bottom - high * each.high
        rows_of_slices.append((*edges, model_colour(each.model), alpha, title))
    return columns_of(rows_of_slices, _SLICE_COLUMNS)
