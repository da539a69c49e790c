"""A fleet's schedule over time: predicted above measured, one row per device, one colour per model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.multimodel import FleetSchedule, Job, ScheduledUnit, lower_bound
from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.multimodel.fleet_text import schedules_text
from workbench.units import format_seconds
from workbench.visualize.draw.axis_scale import ticks
from workbench.visualize.draw.drawing_marks import Drawing, Label, Mark, Polyline, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import NEUTRAL, WARNING, model_colour
from workbench.visualize.draw.picture import Picture

_LENGTH = 760  # pixels of the longest schedule
_HIGH, _MOVING, _GAP, _LINE = 18, 3, 4, 16  # of a row of units, of the transfers below it, between rows, of text
_FORWARD, _LATER = 0.6, 1.0  # how strongly a forward unit is shown, and any other
_SMALL = 1.5  # a narrower unit has no gap after it


@dataclass(frozen=True, slots=True)
class _FleetPart:
    title: str
    schedule: FleetSchedule


def fleet(run: FleetMeasurement | FleetSchedule, jobs: Sequence[Job] = (), measured: FleetSchedule | None = None) -> Picture:
    """A run's predicted schedule above its measured one, on one scale; or one schedule of these jobs, above what was `measured` of it.

    Forward units are light, backward ones strong; a thin line below shows when a unit's state was copied in, before it began; a unit that
    was lost with its device is hatched. The dashed line is the lower bound on the makespan from units timed before the run, without those
    that a checkpoint had done.
    """
    parts: tuple[_FleetPart, ...]
    if isinstance(run, FleetMeasurement):
        jobs, parts, bound = run.jobs, (_FleetPart("predicted", run.predicted), _FleetPart("measured", run.schedule)), run.bound
        title = f"{_on_devices(len(jobs), run.schedule.devices)}, {run.policy}: "
        title += f"{format_seconds(run.schedule.makespan)} measured, {format_seconds(run.predicted.makespan)} predicted"
    else:
        predicted = _FleetPart("predicted" if measured else "", run)
        parts, bound = (predicted, *([_FleetPart("measured", measured)] if measured else ())), lower_bound(jobs, run.devices)
        title = f"{_on_devices(len(jobs), run.devices)}: {format_seconds(run.makespan)}"
    about = f"{title}; lower bound {format_seconds(bound)}"
    return Picture(about, lambda: _drawing(title, parts, jobs, bound), lambda: _text(about, parts, jobs))


def fleet_text(run: FleetMeasurement | FleetSchedule, jobs: Sequence[Job] = ()) -> str:
    """The same rows in characters, a letter per model."""
    return fleet(run, jobs).text


def _text(about: str, parts: Sequence[_FleetPart], jobs: Sequence[Job]) -> str:
    schedules = {each.title or "schedule": each.schedule for each in parts}
    return f"{about}\n\n{schedules_text(schedules, [each.name for each in jobs])}"


def _drawing(title: str, parts: Sequence[_FleetPart], jobs: Sequence[Job], bound: float) -> Drawing:
    longest = max((each.schedule.makespan for each in parts), default=0.0) or 1.0
    scale = _LENGTH / longest
    left = text_width("predicted") + 6
    marks: list[Mark] = [Label(0, _LINE - 4, title, bold=True)]
    marks += _key(jobs, _LINE, left)
    top = float(_LINE * 2 + 6)
    first = top
    for part in parts:
        marks += _rows(part, jobs, left, top, scale)
        top += part.schedule.devices * (_HIGH + _MOVING + _GAP) + _LINE // 2
    end = left + bound * scale
    marks.append(Polyline(((end, first - 2), (end, top - 4)), WARNING, 1.0, dashed=True, title="lower bound on the makespan"))
    for at in ticks(longest):
        marks.append(Label(left + at * scale, top + 8, format_seconds(at) if at else "0", "middle"))
    return fit_drawing(tuple(marks))


def _rows(part: _FleetPart, jobs: Sequence[Job], left: float, top: float, scale: float) -> Iterator[Mark]:
    if part.title:
        yield Label(0, top + _HIGH - 5, part.title)
    for device in range(part.schedule.devices):
        at = top + device * (_HIGH + _MOVING + _GAP)
        yield Label(left + _LENGTH + 8, at + _HIGH - 5, f"device {device}")
        yield Rectangle(left, at + _HIGH, _LENGTH, 1, fill=NEUTRAL, alpha=0.3)
        for placed in part.schedule.placed:
            if placed.device == device:
                yield from _unit(placed, jobs[placed.model], left, at, scale)


def _unit(placed: ScheduledUnit, job: Job, left: float, at: float, scale: float) -> Iterator[Mark]:
    colour = model_colour(placed.model)
    unit = job.unit(placed.unit)
    batch = placed.unit // len(job.units) + 1
    width = (placed.end - placed.start) * scale
    what = f"{unit.kind.replace('_', ' and ')} of shard {unit.shard}, mini-batch {batch}"
    label = f"{job.name}: {what}, {format_seconds(placed.end - placed.start)}"
    strong = _FORWARD if unit.kind == "forward" else _LATER
    gap = 0.5 if width > _SMALL else 0.0
    lost = " (lost with its device)" if placed.lost else ""
    yield Rectangle(left + placed.start * scale, at, max(width - gap, 0.3), _HIGH, colour, strong, hatched=placed.lost, title=label + lost)
    if placed.start > placed.load:
        moving = f"{job.name}: loaded, {format_seconds(placed.start - placed.load)} before it begins"
        yield Rectangle(
            left + placed.load * scale, at + _HIGH + 1, (placed.start - placed.load) * scale, _MOVING, colour, 0.5, title=moving
        )


def _key(jobs: Sequence[Job], top: float, left: float) -> Iterator[Mark]:
    """A square and a name per model, as many as fit in one line."""
    x = 0.0
    for number, job in enumerate(jobs):
        if x + text_width(job.name) > left + _LENGTH - text_width("and 99 more"):
            yield Label(x, top + 12, f"and {len(jobs) - number} more")
            return
        yield Rectangle(x, top + 4, 9, 9, model_colour(number), title=job.name)
        yield Label(x + 13, top + 12, job.name)
        x += 13 + text_width(job.name) + 12


def _on_devices(models: int, devices: int) -> str:
    return f"{models} model{'s' * (models != 1)} on {devices} device{'s' * (devices != 1)}"
