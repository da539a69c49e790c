"""A fleet's training as JSON: model states, losses, measurements, worker messages."""

from math import isfinite
from typing import Any

from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.multimodel.fleet_text import measurement_figures
from workbench.units import format_seconds
from workbench.widgets.fleet.fleet_jobs import Timing
from workbench.widgets.fleet.forecast_state import COLOURS
from workbench.widgets.fleet.training_progress import DONE_BEFORE, ModelProgress, TrainingProgress
from workbench.widgets.run.job_progress import log_state
from workbench.widgets.run.run_panel import thin_out

INVITATION = "Train all models in a worker process and compare the measured with the predicted schedule."


def run_state(live: TrainingProgress, *, can_run: bool, now: float) -> dict[str, Any]:
    """Return the state of a training; the browser counts its `seconds` on from `now`, a time of `time.monotonic`."""
    stage, left = _stage(live)
    return {
        "phase": live.phase,
        "can_run": can_run,
        "stage": stage,
        "seconds": round(max(now - live.started, 0.0), 1) if live.running else 0.0,
        "left": left,
        "fraction": round(live.fraction, 4),
        "known": live.scheduled,
        "message": plain(live.message) or (INVITATION if live.phase == "idle" else ""),
        "models": {entry.name: model_state(entry, running=live.running, warning=live.warning(entry)) for entry in live.models.values()},
        "losses": losses_state(live),
        "away": sorted(live.away),
        "facts": facts_state(live.measurement) if live.measurement and live.measurement.schedule.placed else [],
        "log": [{**entry, "text": plain(entry["text"])} for entry in log_state(live.log)],
        "said": _announcement(live),
    }


def model_state(model: ModelProgress, *, running: bool, warning: str = "") -> dict[str, Any]:
    state = model.state(running=running)
    last = model.losses[-1][1] if model.losses else None
    first = model.losses[0][1] if model.losses else None
    return {
        "state": state,
        "share": round(model.done / model.whole, 4) if model.whole else 0.0,
        "batches": f"{model.batches:,} of {model.mini_batches:,}{warning}" if model.whole else "",
        "loss": "" if last is None else _loss(last),
        "loss_title": "" if first is None or last is None else f"first {_loss(first)}, last {_loss(last)}",
        "can_stop": running and bool(model.whole) and state in ("waiting", "running"),
    }


def losses_state(live: TrainingProgress) -> dict[str, Any] | None:
    """Return a loss line per model on a common scale, in a 100 x 100 box, y downwards; `None` without losses."""
    curves = {curve.name: thin_out([(at, loss) for at, loss in curve.losses if isfinite(loss)]) for curve in live.models.values()}
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return None
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    last = max(1, *(at for at, _ in points))
    span = high - low or 1.0
    lines = [
        {
            "key": name,
            "number": str(number + 1),
            "colour": number % COLOURS,
            "again": number >= COLOURS,  # dashed where colours repeat
            "points": [[round(100 * at / last, 2), round(100 * (high - loss) / span, 2)] for at, loss in curve],
            "told": [_loss(loss) for _, loss in curve],
            "at": [at + 1 for at, _ in curve],
            "last": _loss(curve[-1][1]) if curve else "",
        }
        for number, (name, curve) in enumerate(curves.items())
    ]
    return {"lines": lines, "high": _loss(high), "low": _loss(low), "first": "mini-batch 1", "end": f"{last + 1:,}"}


def plain(text: str) -> str:
    """Remove code marks from a text."""
    return text.replace("`", "")


def facts_state(measured: FleetMeasurement) -> list[dict[str, str]]:
    return [{"label": label, "text": text, "note": note, "tone": ""} for label, text, note in measurement_figures(measured)]


def _loss(loss: float) -> str:
    return f"{loss:.4g}" if isfinite(loss) else "not a number"


def _stage(live: TrainingProgress) -> tuple[str, str]:
    """Return what a running training does, and the time left."""
    if not live.running or not live.measured:
        return plain(live.stage) if live.running else "", ""
    batches, total = (
        sum(model.batches for model in live.models.values()),
        sum(-(-model.of // model.length) for model in live.models.values()),
    )
    return f"{batches:,} of {total:,} mini-batches", remaining_text(live)


def remaining_text(live: TrainingProgress) -> str:
    """Estimate the remaining time: all units over the available devices, or those of the longest model."""
    mean = [0.0] * len(live.models)
    count = [0] * len(live.models)
    for row in live.measured:
        mean[row[0]] += row[4] - row[3]
        count[row[0]] += 1
    means = [total / many for total, many in zip(mean, count, strict=True) if many]
    pace = [total / many if many else sum(means) / len(means) for total, many in zip(mean, count, strict=True)]
    remaining = [max(model.of - model.done, 0) * seconds for model, seconds in zip(live.models.values(), pace, strict=True)]
    available = max(1, live.devices - len(live.away))
    return f"at least {format_seconds(max(sum(remaining) / available, *remaining))} left"


def timing_state(timing: Timing, *, can_time: bool) -> dict[str, Any]:
    return {"phase": timing.phase, "stage": plain(timing.stage), "message": timing.message, "can_time": can_time}


def _announcement(live: TrainingProgress) -> str:
    if live.running:
        return "The models are training." if live.measured else f"The run is {plain(live.stage)}."
    if live.phase == "done" and live.measurement:
        ran = live.measurement.schedule
        return f"The run is done in {format_seconds(ran.makespan)}." if ran.placed else DONE_BEFORE
    return {"error": f"The run failed. {live.message}", "cancelled": "The run was cancelled."}.get(live.phase, "")
