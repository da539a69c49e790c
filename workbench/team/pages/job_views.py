"""A job as pages show it: its events as a line of progress, figures, curves over its steps, and lines of a log."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.team.actions.jobs import ENDED
from workbench.team.jobs.job_result import figures_of
from workbench.team.pages.page_words import write_bytes, write_dollars, write_seconds, write_span
from workbench.team.pages.plan_cards import FIGURE_KINDS, PRICE, STEP_TIME, FigureKind, PlanCard
from workbench.team.pages.plan_charts import draw_curve
from workbench.team.pages.project_pages import plan_name
from workbench.team.store.store import now

MOST_LINES = 200
"""Lines of a log on a page: the last ones."""
Record = Mapping[str, Any]
_ASKED = (
    ("devices", "Devices"),
    ("hosts", "Hosts"),
    ("processes", "Processes a host"),
    ("steps", "Steps"),
    ("minutes", "At most, minutes"),
)


def job_view(job: Record, events: Sequence[Record], may_cancel: bool) -> dict[str, Any]:
    """What both pages show of a job."""
    last = next((each for each in reversed(events) if each["kind"] == "progress"), None)
    is_over = job["state"] in ENDED
    begun, ended = job["started"], job["ended"] or now()
    return {
        **job,
        "plan_name": plan_name(job),
        "is_over": is_over,
        "may_cancel": may_cancel and not is_over and not job["cancel_asked"],
        "fraction": None if is_over or last is None else _number(last.get("fraction")),
        "says": "" if is_over else progress_text(last, job["state"]),
        "took": None if begun is None else ended - begun,
        "stages": _stages(job),
        "step_seconds": _number(job["summary"].get("median_seconds")),
        "losses": _losses(job["summary"]),
        "wrong": str(job["summary"].get("wrong_text") or ""),
    }


def progress_text(event: Record | None, state: str) -> str:
    """
    >>> progress_text({"step": 3, "of": 20, "loss": 2.5, "seconds": 0.012, "stage": None}, "running")
    'step 3 of 20, 12.0 ms, loss 2.5'
    >>> progress_text(None, "queued")
    'queued'
    """
    if event is None:
        return {"queued": "queued", "starting": "starts"}.get(state, "")
    parts = [f"step {event['step']} of {event['of']}" if event.get("step") and event.get("of") else str(event.get("stage") or "works")]
    if (seconds := _number(event.get("seconds"))) is not None:
        parts.append(write_seconds(seconds))
    if (loss := _number(event.get("loss"))) is not None:
        parts.append(f"loss {loss:.4g}")
    return ", ".join(parts)


def _losses(summary: Record) -> str:
    """The first and the last loss."""
    first, last = _number(summary.get("first_loss")), _number(summary.get("loss"))
    return "" if first is None or last is None else f"{first:.4g} → {last:.4g}"


def _stages(job: Record) -> list[tuple[str, float | None, bool]]:
    """The states that it goes through, when each began, and which is present."""
    last = job["state"] if job["state"] in ENDED else "done"
    found = [("queued", job["created"]), ("starting", None), ("running", job["started"]), (last, job["ended"])]
    return [(name, moment, name == job["state"]) for name, moment in found]


def job_figures(job: Record, events: Sequence[Record], card: PlanCard | None) -> list[tuple[str, str, str, str]]:
    """What it found out: name, figure, tier, and what was predicted of it. `card` is of its plan, which also has the price."""
    found: list[tuple[str, str, str, str]] = []
    for tier in ("measured", "compiled"):
        last = next((each for each in reversed(events) if each["kind"] == tier), None)
        values = figures_of(tier, last["figures"]) if last else {}
        if values and card is not None and job["state"] == "done":
            values["dollars"] = price.value if (price := card.of_tier(PRICE, tier)) else None
        for kind in FIGURE_KINDS:
            if (value := _number(values.get(kind.key))) is not None and kind.name not in (each[0] for each in found):
                found.append((kind.name, kind.write(value), tier, _predicted_text(kind, card, values)))
    return found


def _predicted_text(kind: FigureKind, card: PlanCard | None, values: Record) -> str:
    """What was predicted: for the devices that it ran on where that is known, which need not be those that the plan is for."""
    own = _number(values.get("predicted_seconds"))
    if kind is STEP_TIME and own is not None:
        return f"{write_seconds(own)} was predicted for {values.get('device_kind') or 'them'}"
    if values.get("device_kind") == "cpu":
        return f"on {values['device_kind']}"
    before = next((figure for tier in ("partitioned", "planned") if card and (figure := card.of_tier(kind, tier))), None)
    return f"{before.text} was predicted" if before else ""


def job_curves(events: Sequence[Record]) -> list[tuple[str, Any, str, str]]:
    """Losses and times over the steps: title, picture, first and last value."""
    steps = [each for each in events if each["kind"] == "progress" and each.get("step")]
    found = []
    for title, key, write in (("Loss", "loss", lambda value: f"{value:.4g}"), ("Step time", "seconds", write_seconds)):
        values = [value for each in steps if (value := _number(each.get(key))) is not None]
        if len(values) > 1:
            about = f"{title} over {len(values)} steps, from {write(values[0])} to {write(values[-1])}"
            found.append((title, draw_curve(values, about), write(values[0]), write(values[-1])))
    return found


def log_lines(events: Sequence[Record]) -> list[str]:
    """The events as lines, each with its time since the first."""
    first = events[0]["time"] if events else 0.0
    return [f"{write_span(each['time'] - first):>10}  {_line(each)}" for each in events]


def _line(event: Record) -> str:
    kind = event["kind"]
    if kind == "started":
        number, of = event.get("process", 0) + 1, event.get("processes", 1)
        return f"{event.get('command', 'started')} of {event.get('plan', 'a plan')}{f', process {number} of {of}' if of > 1 else ''}"
    if kind == "progress":
        return progress_text(event, "running")
    if kind in ("compiled", "measured"):
        return f"{kind}: {figures_text(event.get('figures', {}))}"
    if kind == "failed":
        ways_out = "".join(f"\n            {each}" for each in event.get("ways_out", ()))
        return f"failed: {event.get('message', '')}{ways_out}"
    seconds = _number(event.get("seconds"))
    return kind if seconds is None else f"{kind}, after {write_span(seconds)}"


def figures_text(figures: Record) -> str:
    """
    >>> figures_text({"step_seconds": 0.01, "peak_bytes": 1024, "fits": True, "kernels": [1]})
    'step_seconds 10.0 ms, peak_bytes 1.00 KiB, fits True'
    """
    writers = {"seconds": write_seconds, "bytes": write_bytes, "peak": write_bytes, "dollars": write_dollars}
    plain = {key: value for key, value in figures.items() if isinstance(value, int | float | str)}
    return ", ".join(f"{key} {_written(key, value, writers)}" for key, value in plain.items())


def _written(key: str, value: Any, writers: Mapping[str, Any]) -> str:
    number = _number(value)
    write = writers.get(key.rpartition("_")[2])
    return str(value) if number is None or write is None else str(write(number))


def job_facts(job: Record) -> list[tuple[str, str]]:
    """What was asked for, and what it ran on, in words."""
    spec, summary = job["spec"], job["summary"]
    asked = [(name, spec.get(key)) for key, name in _ASKED]
    options = spec.get("options")
    asked += list(options.items()) if isinstance(options, Mapping) else []
    seconds, agree = _number(summary.get("compile_seconds")), summary.get("shards_agree")
    asked += [("Ran on", summary.get("device_kind")), ("Compiled in", None if seconds is None else write_seconds(seconds))]
    is_wrong = summary.get("is_wrong")  # None where it was not checked
    asked += [("Shards as planned", None if agree is None else "yes" if agree else "no")]
    asked += [("Equals the unsharded step", None if is_wrong is None else "no" if is_wrong else "yes")]
    return [(str(name), f"{value:,.12g}" if _number(value) is not None else str(value)) for name, value in asked if value not in (None, "")]


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None
