"""A fleet's schedule over time as JSON, in seconds on one axis: predicted units, and below them the measured ones of a run.

A unit is `[device, start, end, model, unit, load, lost]`: `unit` counts from the model's first mini-batch on, `load` is when its state
began to be copied in. `models[model]["units"]` says which unit of a mini-batch it is. All units are sent as one text: a host that traverses
thousands of lists would delay gestures.
"""

import json
from collections.abc import Sequence
from math import floor, log10
from typing import Any

from workbench.multimodel import FleetSchedule, Pass, ScheduledUnit, Unit
from workbench.multimodel.fleet_forecast import FleetForecast
from workbench.text.fleet import schedules_text
from workbench.units import format_seconds
from workbench.visualize.draw.palette import AXES
from workbench.widgets.fleet.time_slices import slices
from workbench.widgets.fleet.training_progress import Row, TrainingProgress

MOST_UNITS = 20_000  # drawn one by one; more are drawn as shares of time slices
MOST_EXPECTED = 2_000  # of the rest of a run, which is sent repeatedly
_INK = ("#FEFEFE", "#1B1F24", "#FEFEFE", "#FEFEFE", "#1B1F24", "#FEFEFE")  # upon AXES
_PASSES = {Pass.FORWARD: "forward", Pass.FORWARD_LOSS: "forward and backward", Pass.BACKWARD: "backward"}


def timeline_state(seen: FleetForecast, ran: TrainingProgress | None = None) -> dict[str, Any]:
    """The timeline of a forecast; the text also has what `ran` of it, once that has ended. During a run that is in `measured_state`."""
    models = [_model(number, each.name, [_unit(unit) for unit in each.units]) for number, each in enumerate(seen.jobs)]
    schedule, names = seen.schedule, [each.name for each in seen.jobs]
    schedules = {"predicted": schedule}
    if ran and not ran.running and ran.measured:
        schedules["measured"] = _schedule(ran.measured, ran.devices)
    title = f"{seen.fleet.policy} on {seen.devices} device{'s' * (seen.devices != 1)}"
    return {
        "devices": schedule.devices,
        "seconds": schedule.makespan,
        "bound": seen.bound,
        "bound_text": f"lower bound {format_seconds(seen.bound)}",
        "models": models,
        "tasks": _text(_tasks(schedule, len(models))),
        "far": False,
        "difference": _slices_note(schedule),
        "about": f"Shard units of {len(models)} models, {title}: predicted {format_seconds(schedule.makespan)}.",
        "note": "",
        "text": schedules_text(schedules, names),
    }


def measured_state(live: TrainingProgress) -> dict[str, Any]:
    """What has run so far; it is drawn below the timeline's prediction."""
    lasted = max((row[4] for row in live.measured), default=0.0)
    if len(live.measured) > MOST_UNITS:
        spans = ((row[0], row[1], row[2], row[3], row[4]) for row in live.measured)
        return {"measured": _text(slices(spans, lasted, live.devices, len(live.models))), "lasted": lasted}
    return {"measured": f"[{','.join(map(_measured_text, live.measured))}]", "lasted": lasted}


def expected_state(rest: FleetSchedule | None, models: int) -> dict[str, Any]:
    """The rest as now expected; it continues where the measured units end."""
    return {"expected": _text(_tasks(rest, models, MOST_EXPECTED) if rest else []), "expects": rest.makespan if rest else 0.0}


def _tasks(schedule: FleetSchedule, models: int, most: int | None = None) -> list[list[Any]]:
    most = most or MOST_UNITS
    if len(schedule.placed) <= most:
        return [_task(each, schedule.makespan) for each in schedule.placed]
    spans = ((each.model, each.unit, each.device, each.start, each.end) for each in schedule.placed)
    return slices(spans, schedule.makespan, schedule.devices, models, most)


def _slices_note(schedule: FleetSchedule) -> str:
    units = len(schedule.placed)
    said = f"{units:,} units: in each slice of time the height of a colour is the model's share of the device."
    return said if units > MOST_UNITS else ""


def _schedule(rows: Sequence[Row], devices: int) -> FleetSchedule:
    placed = (ScheduledUnit(row[0], row[1], row[2], row[3], row[4], row[3], lost=bool(len(row) > 5 and row[5])) for row in rows)
    return FleetSchedule(devices, tuple(placed))


def _measured_text(row: Row) -> str:
    """Rounded to a tenth of a microsecond."""
    model, unit, device, start, end, *lost = row
    return f"[{device},{start:.7f},{end:.7f},{model},{unit},{start:.7f},{int(any(lost))}]"


def _unit(unit: Unit) -> dict[str, Any]:
    return {"says": f"{_PASSES[unit.kind]} of shard {unit.shard}", "weak": unit.kind is Pass.FORWARD}


def _model(number: int, name: str, units: list[dict[str, Any]]) -> dict[str, Any]:
    place = number % len(AXES)
    return {"name": name, "number": str(number + 1), "fill": AXES[place], "ink": _INK[place], "units": units}


def _text(units: list[list[Any]]) -> str:
    return json.dumps(units, separators=(",", ":"))


def _task(placed: ScheduledUnit, whole: float) -> list[Any]:
    start, end, load = (_short(each, whole) for each in (placed.start, placed.end, placed.load))
    return [placed.device, start, end, placed.model, placed.unit, load, int(placed.lost)]


def _short(seconds: float, whole: float) -> float:
    """As many digits as a zoomed drawing of the whole can show."""
    return round(seconds, 6 - floor(log10(whole))) if whole > 0 else seconds
