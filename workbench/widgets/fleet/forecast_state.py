"""A fleet's forecast as JSON: controls, figures, models with their shards, and other ways to train the same models."""

import hashlib
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench.errors import FleetError, WorkbenchError
from workbench.multimodel import MENU, FleetSchedule, ScheduledUnit
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_forecast import MOST_PLANNED, FleetForecast, ModelForecast
from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.multimodel.fleet_text import list_bounds
from workbench.multimodel.greedy_partition import Room
from workbench.multimodel.unit_estimates import RATES
from workbench.units import format_bytes, format_seconds, parse_bytes
from workbench.visualize.charts.fleet_chart import MOST_UNITS, RunSoFar, fleet_chart, run_section
from workbench.visualize.draw.palette import AXES
from workbench.visualize.draw.picture import Picture
from workbench.visualize.fleet_gantt import fleet
from workbench.widgets.fleet.training_progress import Row, TrainingProgress
from workbench.widgets.tabs.table_blocks import as_json, picture_block

COLOURS = len(AXES)  # assigned to models in order
ARGUMENTS = ("learning_rate", "batch")  # shown even if all models agree
MOST_ARGUMENTS = 4

SOURCES = {
    "timed": "from measured unit times, alone and concurrent",
    "scaled": "scaled from unit times of another partition",
    "planned": "from the cost model of the hardware",
    "estimated": f"estimated at {RATES}, before the units are timed",
}


def controls_state(fleet: Fleet, devices: int, asked: dict[str, str], makespans: dict[str, float]) -> dict[str, Any]:
    """Return policy, budget, devices and hardware; `asked` are refused texts, which stay in their fields."""
    return {
        "policy": fleet.policy,
        "policies": [
            {"name": policy.name, "about": policy.about, "text": format_seconds(makespans[policy.name]) if policy.name in makespans else ""}
            for policy in MENU
        ],
        "memory": asked.get("memory", "" if fleet.memory is None else format_bytes(fleet.memory)),
        "devices": asked.get("devices", str(devices)),
        "hardware": asked.get("fleet_hardware", str(fleet.hardware or "")),
        "planned_for": _hardware_facts(fleet),
        "fewer": devices > 1,
        "more": devices < MOST_PLANNED,
        "wrong": sorted(asked),
        "room": _room(fleet),
    }


def _room(fleet: Fleet) -> str:
    if fleet.memory is None:
        return "all memory"
    if not fleet.double_buffer or not fleet.buffer:
        return "no buffer for the next unit"
    usable = Room(fleet.memory, fleet.buffer).usable
    return f"{format_bytes(usable)} for a unit, {fleet.buffer:.0%} for the next one"


def _hardware_facts(fleet: Fleet) -> str:
    if fleet.hardware is None:
        return "attached devices"
    size = fleet.hardware.size
    return f"{size:,} device{'s' * (size != 1)}, each {format_bytes(fleet.hardware.chip.memory)}; attached or not"


def refusal_state(error: WorkbenchError, zone: str) -> dict[str, Any]:
    return {"zone": zone, "message": error.message, "ways_out": list(error.ways_out)}


def figures_state(
    seen: FleetForecast, before: float | None, measured: FleetMeasurement | None, expects: float | None = None
) -> list[dict[str, Any]]:
    """Return the key figures; `before` and `expects` are makespans in seconds, `measured` a run of this forecast."""
    makespan, bound = seen.schedule.makespan, seen.bound
    shards = [shard.bytes for model in seen.models for shard in model.shards]
    ran = measured.schedule if measured else None
    over = makespan / bound if bound else 1.0
    lasts = [("measured", ran.makespan)] if ran else [("now expected", expects)] if expects else []
    tiers = [(name, format_seconds(took), f"{took / makespan:.2f}× of the prediction" if makespan else "") for name, took in lasts]
    return [
        _figure("makespan", "Makespan", format_seconds(makespan), SOURCES[seen.source], tiers=tiers, delta=_delta(makespan, before)),
        _figure("bound", "Lower bound", format_seconds(bound), f"the makespan is {over:.3f} times that"),
        _figure(
            "busy", "Devices busy", f"{seen.schedule.busy:.0%}", "of their time", tiers=[("measured", f"{ran.busy:.0%}", "")] if ran else []
        ),
        _figure("units", "Shard units", f"{seen.units:,}", _count(sum(model.job.mini_batches * model.job.epochs for model in seen.models))),
        _figure("shards", "Shards", f"{len(shards):,}", f"the largest needs {format_bytes(max(shards))}"),
    ]


def _count(batches: int) -> str:
    return f"of {batches:,} mini-batch{'es' * (batches != 1)}"


def _figure(
    key: str, label: str, text: str, note: str, tiers: Iterable[tuple[str, str, str]] = (), delta: dict[str, str] | None = None
) -> dict[str, Any]:
    listed = [{"label": name, "text": shown, "note": about} for name, shown, about in tiers]
    return {"key": key, "label": label, "text": text, "note": note, "tiers": listed, "delta": delta}


def _delta(now: float, before: float | None) -> dict[str, str] | None:
    if before is None or abs(now - before) < 0.001 * max(now, before):
        return None
    return {"text": f"{'−' if now < before else '+'}{format_seconds(abs(now - before))}", "tone": "good" if now < before else "bad"}


def columns_of(fleet: Fleet) -> list[str]:
    """Return up to `MOST_ARGUMENTS` arguments in which the models differ, learning rate and batch size first."""
    by_model = [_arguments(arguments) for arguments in fleet.models]
    names = list(dict.fromkeys([*ARGUMENTS, *(name for arguments in by_model for name in arguments)]))
    listed = [name for name in names if any(name in arguments for arguments in by_model)]
    differing = [name for name in listed if name in ARGUMENTS or len({repr(arguments.get(name)) for arguments in by_model}) > 1]
    return differing[:MOST_ARGUMENTS]


def _arguments(model: FleetModel) -> dict[str, Any]:
    reference = model.program.reference
    return dict(reference.arguments) if reference else {}


def models_state(fleet: Fleet, seen: FleetForecast | None) -> list[dict[str, Any]]:
    """Return one entry per model, with its shards if known."""
    columns = columns_of(fleet)
    forecasts = {model.model.name: model for model in seen.models} if seen else {}
    largest = max((model.bytes for model in forecasts.values()), default=1)
    return [_model(number, model, columns, forecasts.get(model.name), largest) for number, model in enumerate(fleet.models)]


def _model(number: int, model: FleetModel, columns: list[str], cut: ModelForecast | None, largest: int) -> dict[str, Any]:
    arguments = _arguments(model)
    epochs = f"{model.epochs} × {model.mini_batches:,}"
    return {
        "key": model.name,
        "number": str(number + 1),
        "colour": number % COLOURS,
        "name": model.name,
        "program": model.program.name,
        "arguments": [str(arguments.get(name, "")) for name in columns],
        "epochs": epochs,
        "epochs_title": f"{model.epochs} epoch{'s' * (model.epochs != 1)} of {model.mini_batches:,} mini-batches",
        "stops": "" if model.stop_below is None else f"stops below {model.stop_below:g}",
        "shards": _shards(cut, largest) if cut else [],
        "shards_text": _shards_text(cut) if cut else "",
        "seconds": format_seconds(cut.job.seconds) if cut else "",
        "seconds_title": f"{cut.job.length:,} units, a mini-batch takes {format_seconds(cut.job.mini_batch_seconds)}" if cut else "",
    }


def _shards(cut: ModelForecast, largest: int) -> list[dict[str, Any]]:
    sized = "as compiled" if cut.source == "timed" else "estimated"
    return [
        {
            "share": round(shard.bytes / largest, 4),
            "title": f"shard {number}: {_span(shard.first, shard.last)}, {format_bytes(shard.bytes)} {sized}",
        }
        for number, shard in enumerate(cut.shards)
    ]


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _shards_text(cut: ModelForecast) -> str:
    sizes = [format_bytes(shard.bytes) for shard in cut.shards]
    if len(sizes) == 1:
        return f"1 of {sizes[0]}"
    low, high = (format_bytes(choose(shard.bytes for shard in cut.shards)) for choose in (min, max))
    return f"{len(sizes)} of {high}" if low == high else f"{len(sizes)} of {low} to {high}"


def ways_state(seen: FleetForecast, measured: FleetMeasurement | None) -> list[dict[str, Any]]:
    """Return this schedule, its measurement, the lower bound, and other ways to train, on a common scale."""
    makespan = seen.schedule.makespan
    shown = [("this", f"shard units, {seen.fleet.policy}", makespan, "this schedule, transfers included")]
    if measured:
        shown.append(
            ("measured", "the same, measured", measured.schedule.makespan, f"on {measured.schedule.devices} × {measured.device_kind}")
        )
    ways = (*list_bounds(seen.jobs, seen.devices), *seen.ways)
    kinds = ("bound", "list", *["way"] * len(seen.ways))
    shown += [(kind, alternative.name, alternative.seconds, alternative.note) for kind, alternative in zip(kinds, ways, strict=True)]
    longest = max(seconds for _, _, seconds, _ in shown) or 1.0
    return [
        {
            "key": label,
            "kind": kind,
            "label": label,
            "text": format_seconds(seconds),
            "ratio": "" if kind == "this" or not makespan else f"{seconds / makespan:.2f}×",
            "share": round(seconds / longest, 4),
            "note": note,
        }
        for kind, label, seconds, note in shown
    ]


def doubt_text(seen: FleetForecast) -> str:
    """Name a shard that may not fit, before the compiler has been asked."""
    if not seen.doubtful:
        return ""
    first = seen.doubtful[0]
    shard = max(first.shards, key=lambda shard: shard.bytes)
    return (
        f"A shard of `{first.model.name}` (`{shard.first}`) is estimated at {format_bytes(shard.bytes)}; a unit has "
        f"{format_bytes(seen.usable or 0)}. The compiler may need less; its sizes are known after timing."
    )


def command_text(fleet: Fleet, path: str) -> str:
    """Return the equivalent command: `run`, or `simulate` for named hardware."""
    memory = "" if fleet.memory is None else f' --memory "{format_bytes(fleet.memory)}"'
    devices = "" if fleet.devices is None else f" --devices {fleet.devices}"
    hardware, verb = ("", "run") if fleet.hardware is None else (f" --hardware {shlex.quote(str(fleet.hardware))}", "simulate")
    return f"workbench fleet {verb} {shlex.quote(path)} --policy {fleet.policy}{devices}{memory}{hardware}"


def stale_text(fleet: Fleet, devices: int) -> str:
    """Describe the fleet of the last run, when it is no longer the present one."""
    memory = "no budget" if fleet.memory is None else format_bytes(fleet.memory)
    return f"The last run was of {fleet.policy} on {devices} device{'s' * (devices != 1)}, {memory}."


# A fleet's schedule over time as JSON: the forecast picture, and the sections that a run adds to its chart.


def timeline_state(
    seen: FleetForecast, measured: FleetMeasurement | None, ran: TrainingProgress | None, is_asked: Callable[[str], bool]
) -> dict[str, Any]:
    """Return the picture of a forecast; its text and SVG also show a measured or interrupted run."""
    stopped = FleetSchedule(seen.devices, tuple(_units(ran.measured))) if ran and ran.measured and not ran.running else None
    drawn = fleet(measured) if measured else fleet(seen.schedule, seen.jobs, stopped)
    title = f"{seen.fleet.policy} on {seen.devices} device{'s' * (seen.devices != 1)}"
    about = f"Shard units of {len(seen.jobs)} models, {title}: predicted {format_seconds(seen.schedule.makespan)}."
    picture = Picture(about, lambda: drawn.drawing, lambda: f"{about}\n\n{drawn.text}")
    chart = fleet_chart(seen.jobs, seen.schedule, seen.bound)
    block = picture_block(picture, _slices_note(seen.schedule), name="fleet timeline", charts=[chart] if chart else [])
    return {"devices": seen.devices, "of": _mark(seen), **as_json(block, is_asked)}


def ran_state(seen: FleetForecast, live: TrainingProgress, rest: FleetSchedule | None) -> dict[str, Any] | None:
    """Return the executed units and the expected rest of a run as a chart section; `None` without units."""
    if not (live.measured and seen.schedule.makespan):
        return None
    section = run_section(seen.jobs, seen.schedule, seen.bound, RunSoFar(_units(live.measured), rest)).state
    return {"of": _mark(seen), **{name: section[name] for name in ("spans", "sources", "ranges", "properties", "key")}}


def _mark(seen: FleetForecast) -> str:
    """Return an identifier of a forecast, equal in all processes, so that a run is drawn only into its own chart."""
    facts = [(job.name, len(job.units)) for job in seen.jobs], seen.devices, seen.schedule.makespan
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _units(rows: Sequence[Row]) -> list[ScheduledUnit]:
    return [ScheduledUnit(model, unit, device, start, end, start, lost=any(lost)) for model, unit, device, start, end, *lost in rows]


def _slices_note(schedule: FleetSchedule) -> str:
    units = len(schedule.placed)
    note = f"{units:,} units: the height of a colour is the model's share of the device."
    return note if units > MOST_UNITS else ""


# The memory budget of each device, as the user types, doubles or halves it.


def budget_of(typed: str) -> int | None:
    """Parse a budget in bytes; an empty text means all memory of a device. Raises `FleetError`."""
    if not typed.strip():
        return None
    if (budget := parse_bytes(typed)) is None:
        raise FleetError(
            f'"{typed}" is not an amount of memory.', ['write "2 GiB", "512 MiB" or a number of bytes', "leave it empty for all memory"]
        )
    return budget


def next_budget(fleet: Fleet, seen: FleetForecast | None, way: str) -> int:
    """Halve or (`more`) double the budget; without one, start from the largest model."""
    whole = max((model.bytes for model in seen.models), default=1) if seen else 1 << 20
    if fleet.memory is None:
        return whole
    return max(1, fleet.memory * 2 if way == "more" else fleet.memory // 2)
