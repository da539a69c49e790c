"""Interactive schedule of a fleet: a lane per device, thin lanes of state loading, and the measured run below.

Before a run the chart has one section. `run_section` is the part that a run adds and that is updated repeatedly.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from workbench.multimodel import FleetSchedule, Job, Pass, ScheduledUnit, Unit
from workbench.units import format_seconds
from workbench.visualize.charts.chart import Chart, KeyEntry, columns_of, seconds_unit
from workbench.visualize.charts.packed_spans import EDGES, NUMBER, Lane, Span, SpanStyle, idle_columns, lane_properties, pack_spans
from workbench.visualize.draw.palette import NEUTRAL, WARNING, model_colour

# Time slices of each device with the share of each model, to draw schedules of many units.


MOST_SLICES, MOST_MARKS = 600, 12_000  # slices of the total time; marks of all devices and models, approximately
UnitSpan = tuple[int, int, float, float]
"""Model, device, start, end."""


class Slice(NamedTuple):
    """A model's share of a device in a time slice (seconds): from `low` to `high` of 1, with `units` starting in it."""

    device: int
    start: float
    end: float
    model: int
    low: float
    high: float
    units: int


def time_slices(spans: Iterable[UnitSpan], whole: float, devices: int, models: int) -> list[Slice]:
    """The share of each model in time slices of the devices.

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
        for number in range(min(count - 1, int(start / width)), min(count - 1, int(end / width)) + 1):
            within = min(end, (number + 1) * width) - max(start, number * width)
            if within > 0:
                seconds[device, number][model] += within
    slices = []
    for (device, number), shared in sorted(seconds.items()):
        low = 0.0
        for model, took in sorted(shared.items()):
            high = min(1.0, low + took / width)
            begin, end = round(number * width, 9), round((number + 1) * width, 9)
            slices.append(Slice(device, begin, end, model, round(low, 4), round(high, 4), units.get((device, number, model), 0)))
            low = high
    return slices


MOST_UNITS = 20_000  # units drawn individually; more are drawn as time slices
MOST_EXPECTED = 2_000  # forecast units drawn individually, which are sent repeatedly
_CAPTION, _MOVING, _GAP = 20, 3, 4  # pixels
_AXIS = 48
_MANY = 16  # devices above which lanes are lower
_FORWARD, _MOVED, _EXPECTED, _SLICED = 0.6, 0.55, 0.4, 0.9  # opacities
_PASSES = {Pass.FORWARD: "forward", Pass.FORWARD_LOSS: "forward and backward", Pass.BACKWARD: "backward"}
_LOST = "lost with its device and repeated"
_SLICE_COLUMNS = (*EDGES, "color", "alpha", "title")


@dataclass(frozen=True, slots=True)
class _FleetRows:
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
        return self.section * (_CAPTION + self.devices * self._pitch + _GAP)

    def units(self, device: int) -> tuple[int, int]:
        """Bottom and top of a device's lane."""
        top = self.top + _CAPTION + device * self._pitch
        return top + self._bar, top

    def moving(self, device: int) -> tuple[int, int]:
        bottom, _ = self.units(device)
        return bottom + 1 + _MOVING, bottom + 1

    @property
    def bottom(self) -> int:
        return _FleetRows(self.devices, self.section + 1).top


@dataclass(frozen=True, slots=True)
class RunSoFar:
    """The units run so far, in seconds from the start of the run, and the current forecast of the remaining ones."""

    measured: Sequence[ScheduledUnit]
    expected: FleetSchedule | None = None

    @property
    def lasted(self) -> float:
        return max((unit.end for unit in self.measured), default=0.0)

    @property
    def seconds(self) -> float:
        return max(self.lasted, self.expected.makespan if self.expected else 0.0)

    @property
    def coming(self) -> tuple[ScheduledUnit, ...]:
        """Forecast units that have not run; the forecast lags slightly behind the measurement."""
        done = {(unit.model, unit.unit) for unit in self.measured if not unit.lost}
        ends: dict[int, float] = {}
        for unit in self.measured:
            ends[unit.device] = max(unit.end, ends.get(unit.device, 0.0))
        rest = [unit for unit in (self.expected.placed if self.expected else ()) if (unit.model, unit.unit) not in done]
        return tuple(_after(unit, ends.get(unit.device, 0.0)) for unit in rest if unit.end > ends.get(unit.device, 0.0))


def _after(placed: ScheduledUnit, end: float) -> ScheduledUnit:
    start = max(placed.start, end)
    return replace(placed, start=start, load=min(max(placed.load, end), start))


def fleet_chart(jobs: Sequence[Job], schedule: FleetSchedule, bound: float) -> Chart | None:
    """A predicted schedule with the lower bound on its makespan; `None` if the makespan is 0.

    Forward units are light; a thin lane below shows state loading; units lost with their device are hatched.
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
            "slices": _slice_columns([(time_slice, _SLICED) for time_slice in slices], jobs, rows, unit),
            "ran slices": _slice_columns((), jobs, rows, unit),
        },
        {"x": (0.0, max(schedule.makespan, bound) / unit), "y": (float(rows.bottom), 0.0)},
        _properties([(rows, "predicted")], axis.name),
        key=tuple(_key(bound)),
        across=f"fleet {axis.name}",
        spans=(packed,),
    )


def run_section(jobs: Sequence[Job], schedule: FleetSchedule, bound: float, run: RunSoFar) -> Chart:
    """The parts of the chart that a run changes; its spans follow those of the chart, in the same styles."""
    axis = seconds_unit(schedule.makespan)
    unit, first, rows = axis.size, _FleetRows(schedule.devices), _FleetRows(schedule.devices, 1)
    rest = run.coming
    drawn, few = len(run.measured) <= MOST_UNITS, len(rest) <= MOST_EXPECTED
    own = unit * run.seconds / schedule.makespan if drawn and few else 0.0  # time slices share the scale of the prediction
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
            "ran slices": _slice_columns(
                [*((time_slice, _EXPECTED) for time_slice in coming), *((time_slice, _SLICED) for time_slice in ran)], jobs, rows, unit
            ),
        },
        {"x": (0.0, longest / unit), "y": (float(rows.bottom), 0.0)},
        _properties([(first, above), (rows, below)], axis.name),
        key=tuple(_key(bound, expects=run.expected is not None)),
        spans=(spans,),
    )


def empty_fleet() -> Any:
    """The empty figure: idle time, time slices, units and lower bound."""
    from workbench.visualize.charts.empty_figure import AT_EDGES, add_idle, add_source, add_tasks, empty_lanes

    plot = empty_lanes()
    add_idle(plot)
    sliced = [
        plot.quad(source=add_source(name, _SLICE_COLUMNS), fill_color="color", fill_alpha="alpha", line_color=None, **AT_EDGES)
        for name in ("slices", "ran slices")
    ]
    plot.multi_line("xs", "ys", source=add_source("bound", ("xs", "ys")), line_color=WARNING, line_dash=[4, 3], line_width=1.25)
    for renderer in sliced:
        renderer.nonselection_glyph = renderer.glyph
    add_tasks(plot, *sliced)
    return plot


def _lanes(
    jobs: Sequence[Job], units: Sequence[ScheduledUnit], rows: _FleetRows, tier: str, other: str, own: float = 0.0, weight: float = 1.0
) -> tuple[tuple[Lane, ...], list[list[Span]]]:
    """Two lanes per device: units, and loading of their state."""
    firsts = [*itertools.accumulate((len(job.units) for job in jobs), initial=0)]
    by_device: list[list[ScheduledUnit]] = [[] for _ in range(rows.devices)]
    for unit in units:
        if unit.device < rows.devices and unit.model < len(jobs):
            by_device[unit.device].append(unit)
    lanes, spans = [], []
    for device, placed in enumerate(by_device):
        lanes.append(Lane(f"device {device}", NEUTRAL, *rows.units(device), tier, other, own, weight))
        lanes.append(Lane(f"device {device}", NEUTRAL, *rows.moving(device), tier, "", own, weight))
        spans.append([_unit_span(unit, jobs[unit.model], firsts[unit.model]) for unit in placed])
        spans.append([Span(unit.load, unit.start - unit.load, firsts[-1] + unit.model) for unit in placed if unit.load < unit.start])
    return tuple(lanes), spans


def _unit_span(placed: ScheduledUnit, job: Job, first: int) -> Span:
    batch, unit = divmod(placed.unit, len(job.units))
    return Span(placed.start, placed.end - placed.start, first + unit, batch + 1, float(placed.lost))


def _styles(jobs: Sequence[Job]) -> Iterator[SpanStyle]:
    """A style for each unit of a mini-batch of every model, then one for the state of each model."""
    for number, job in enumerate(jobs):
        for unit in job.units:
            weight = _FORWARD if unit.kind is Pass.FORWARD else 1.0
            yield SpanStyle(str(number + 1), _unit_title(job, unit), "", weight, model_colour(number), str(number))
    for number, job in enumerate(jobs):
        yield SpanStyle("", f"state of {job.name} brought in", "", _MOVED, model_colour(number), str(number))


def _unit_title(job: Job, unit: Unit) -> str:
    return f"{job.name}, {_PASSES[unit.kind]} of shard {unit.shard}, mini-batch {NUMBER}"


def _bound(x: float, rows: _FleetRows) -> dict[str, list[list[float]]]:
    return {"xs": [[x, x]], "ys": [[0.0, float(rows.bottom)]]}


def _idle(rows: _FleetRows, end: float, ratio: float = 0.0) -> dict[str, list[float]]:
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
    spans = ((unit.model, unit.device, unit.start, unit.end) for unit in units if unit.device < rows.devices and unit.model < models)
    return time_slices(spans, seconds, rows.devices, models)


def _slice_columns(slices: Sequence[tuple[Slice, float]], jobs: Sequence[Job], rows: _FleetRows, unit: float) -> dict[str, list[Any]]:
    rows_of_slices = []
    for time_slice, alpha in slices:
        bottom, top = rows.units(time_slice.device)
        high = bottom - top
        title = (
            f"{jobs[time_slice.model].name}, {time_slice.high - time_slice.low:.0%} of device {time_slice.device}\n"
            f"{format_seconds(time_slice.start)} to {format_seconds(time_slice.end)}, {time_slice.units} units begin"
        )
        edges = time_slice.start / unit, time_slice.end / unit, bottom - high * time_slice.low, bottom - high * time_slice.high
        rows_of_slices.append((*edges, model_colour(time_slice.model), alpha, title))
    return columns_of(rows_of_slices, _SLICE_COLUMNS)
