"""A fleet's training as JSON: the state of each model, losses, measurements, messages of the worker."""

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


def run_state(live: TrainingProgress, *, can_run: bool) -> dict[str, Any]:
    """Of a run, or of none yet; JSON only, no infinities."""
    return {
        "phase": live.phase,
        "can_run": can_run,
        "stage": _stage(live),
        "fraction": round(live.fraction, 4),
        "known": live.scheduled,
        "message": plain(live.message) or (INVITATION if live.phase == "idle" else ""),
        "models": {each.name: model_state(each, running=live.running, warning=live.warning(each)) for each in live.models.values()},
        "losses": losses_state(live),
        "away": sorted(live.away),
        "facts": facts_state(live.measurement) if live.measurement and live.measurement.schedule.placed else [],
        "log": [{**each, "text": plain(each["text"])} for each in log_state(live.log)],
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
    """A line per model over its mini-batches, all on one scale, in a box of 100 x 100, y downwards; `None` before there are any."""
    kept = {each.name: thin_out([(at, loss) for at, loss in each.losses if isfinite(loss)]) for each in live.models.values()}
    points = [point for each in kept.values() for point in each]
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
            "again": number >= COLOURS,  # the colours begin again: dashed
            "points": [[round(100 * at / last, 2), round(100 * (high - loss) / span, 2)] for at, loss in each],
            "told": [_loss(loss) for _, loss in each],
            "at": [at + 1 for at, _ in each],
            "last": _loss(each[-1][1]) if each else "",
        }
        for number, (name, each) in enumerate(kept.items())
    ]
    return {"lines": lines, "high": _loss(high), "low": _loss(low), "first": "mini-batch 1", "end": f"{last + 1:,}"}


def plain(text: str) -> str:
    """Text without the marks of code, as it is shown."""
    return text.replace("`", "")


def facts_state(measured: FleetMeasurement) -> list[dict[str, str]]:
    return [{"label": label, "text": text, "note": note, "tone": ""} for label, text, note in measurement_figures(measured)]


def _loss(loss: float) -> str:
    return f"{loss:.4g}" if isfinite(loss) else "not a number"


def _stage(live: TrainingProgress) -> str:
    if not live.running:
        return ""
    passed = f"{max(live.now - live.started, 0.0):.0f} s"
    if not live.measured:
        return f"{plain(live.stage)} · {passed}"
    batches, of = sum(each.batches for each in live.models.values()), sum(-(-each.of // each.length) for each in live.models.values())
    return f"{batches:,} of {of:,} mini-batches · {passed} · {left_text(live)}"


def left_text(live: TrainingProgress) -> str:
    """What is left, at the pace so far: all units shared out over the available devices, or those of the longest model."""
    mean = [0.0] * len(live.models)
    count = [0] * len(live.models)
    for row in live.measured:
        mean[row[0]] += row[4] - row[3]
        count[row[0]] += 1
    known = [total / many for total, many in zip(mean, count, strict=True) if many]
    pace = [total / many if many else sum(known) / len(known) for total, many in zip(mean, count, strict=True)]
    left = [max(each.of - each.done, 0) * seconds for each, seconds in zip(live.models.values(), pace, strict=True)]
    there = max(1, live.devices - len(live.away))
    return f"at least {format_seconds(max(sum(left) / there, *left))} left"


def timing_state(timing: Timing, *, can_time: bool) -> dict[str, Any]:
    """The timing of units, and whether it can be started."""
    return {"phase": timing.phase, "stage": plain(timing.stage), "message": timing.message, "can_time": can_time}


def _announcement(live: TrainingProgress) -> str:
    """The text for a screen reader; each ending once."""
    if live.running:
        return "The models are training." if live.measured else f"The run is {plain(live.stage)}."
    if live.phase == "done" and live.measurement:
        ran = live.measurement.schedule
        return f"The run is done in {format_seconds(ran.makespan)}." if ran.placed else DONE_BEFORE
    return {"error": f"The run failed. {live.message}", "cancelled": "The run was cancelled."}.get(live.phase, "")
