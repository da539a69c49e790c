"""A fleet's schedule over time as JSON: the picture of the prediction, and what a run adds to its chart again and again."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from workbench.multimodel import FleetSchedule, ScheduledUnit
from workbench.multimodel.fleet_forecast import FleetForecast
from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.units import format_seconds
from workbench.visualize.charts.fleet_chart import MOST_UNITS, RunSoFar, fleet_chart, run_part
from workbench.visualize.draw.picture import Picture
from workbench.visualize.fleet import fleet
from workbench.widgets.fleet.training_progress import Row, TrainingProgress
from workbench.widgets.tabs.blocks import as_json, picture_block


def timeline_state(
    seen: FleetForecast, measured: FleetMeasurement | None, ran: TrainingProgress | None, is_asked: Callable[[str], bool]
) -> dict[str, Any]:
    """The picture of a forecast, and a note; its text and its SVG also have what a run `measured`, or `ran` before it was ended."""
    stopped = FleetSchedule(seen.devices, tuple(_units(ran.measured))) if ran and ran.measured and not ran.running else None
    drawn = fleet(measured) if measured else fleet(seen.schedule, seen.jobs, stopped)
    title = f"{seen.fleet.policy} on {seen.devices} device{'s' * (seen.devices != 1)}"
    about = f"Shard units of {len(seen.jobs)} models, {title}: predicted {format_seconds(seen.schedule.makespan)}."
    picture = Picture(about, lambda: drawn.drawing, lambda: f"{about}\n\n{drawn.text}")
    chart = fleet_chart(seen.jobs, seen.schedule, seen.bound)
    block = picture_block(picture, _slices_note(seen.schedule), name="fleet timeline", charts=[chart] if chart else [])
    return {"devices": seen.devices, "of": _mark(seen), **as_json(block, is_asked)}


def ran_state(seen: FleetForecast, live: TrainingProgress, rest: FleetSchedule | None) -> dict[str, Any] | None:
    """What has run of a forecast so far and what is now expected, as a part of its chart; `None` before the first unit."""
    if not (live.measured and seen.schedule.makespan):
        return None
    return {"of": _mark(seen), **run_part(seen.jobs, seen.schedule, seen.bound, RunSoFar(_units(live.measured), rest))}


def _mark(seen: FleetForecast) -> str:
    """What tells forecasts apart, in every process alike: what ran is drawn into the chart of its own alone."""
    facts = [(job.name, len(job.units)) for job in seen.jobs], seen.devices, seen.schedule.makespan
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _units(rows: Sequence[Row]) -> list[ScheduledUnit]:
    return [ScheduledUnit(model, unit, device, start, end, start, lost=any(lost)) for model, unit, device, start, end, *lost in rows]


def _slices_note(schedule: FleetSchedule) -> str:
    units = len(schedule.placed)
    said = f"{units:,} units: in each slice of time the height of a colour is the model's share of the device."
    return said if units > MOST_UNITS else ""
