"""A job as pages show it: its events as a line of progress, figures, curves over its steps, and lines of a log."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.team.pages.home_page import plan_name
from workbench.team.pages.page_words import write_bytes, write_dollars, write_seconds, write_span
from workbench.team.pages.plan_cards import FIGURE_KINDS, PRICE, PlanCard
from workbench.team.pages.plan_charts import draw_curve
from workbench.team.store.store import now

ENDED = ("done", "failed", "cancelled")
MOST_LINES = 200
"""Lines of a log on a page: the last ones."""
Record = Mapping[str, Any]


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
        **{key: _number(job["summary"].get(key)) for key in ("step_seconds", "peak_bytes", "dollars")},
    }


def progress_text(event: Record | None, state: str) -> str:
    """
    >>> progress_text({"step": 3, "of": 20, "loss": 2.5, "seconds": 0.012, "stage": None}, "running")
    'step 3 of 20, 12.0 ms, loss 2.5'
    >>> progress_text(None, "queued")
    'waits for its turn'
    """
    if event is None:
        return {"queued": "waits for its turn", "starting": "starts"}.get(state, "")
    parts = [f"step {event['step']} of {event['of']}" if event.get("step") and event.get("of") else str(event.get("stage") or "works")]
    if (seconds := _number(event.get("seconds"))) is not None:
        parts.append(write_seconds(seconds))
    if (loss := _number(event.get("loss"))) is not None:
        parts.append(f"loss {loss:.4g}")
    return ", ".join(parts)


def _stages(job: Record) -> list[tuple[str, float | None, bool]]:
    """The states that it goes through, when each began, and which is present."""
    last = job["state"] if job["state"] in ENDED else "done"
    found = [("queued", job["created"]), ("starting", None), ("running", job["started"]), (last, job["ended"])]
    return [(name, moment, name == job["state"]) for name, moment in found]


def job_figures(job: Record, card: PlanCard | None) -> list[tuple[str, str, str, str]]:
    """What it found out: name, figure, tier, and what was predicted of it."""
    tier = "measured" if job["kind"] == "run" else "compiled"
    found = []
    for kind in FIGURE_KINDS:
        value = _number(job["summary"].get(kind.key))
        if value is None and kind is PRICE and card is not None and (price := card.of_tier(PRICE, tier)):
            value = price.value
        if value is not None:
            before = next(
                (
                    figure
                    for each in ("compiled", "partitioned", "planned")
                    if each != tier and card and (figure := card.of_tier(kind, each))
                ),
                None,
            )
            found.append((kind.name, kind.write(value), tier, f"{before.text} predicted" if before else ""))
    return found


def job_curves(events: Sequence[Record]) -> list[tuple[str, Any, str, str]]:
    """Losses and times over the steps: title, picture, first and last value."""
    steps = [each for each in events if each["kind"] == "progress" and each.get("step")]
    found = []
    for title, key, write in (("Loss", "loss", lambda value: f"{value:.4g}"), ("Time of a step", "seconds", write_seconds)):
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
    writers = {"seconds": write_seconds, "bytes": write_bytes, "dollars": write_dollars}
    plain = {key: value for key, value in figures.items() if isinstance(value, int | float | str)}
    return ", ".join(f"{key} {_written(key, value, writers)}" for key, value in plain.items())


def _written(key: str, value: Any, writers: Mapping[str, Any]) -> str:
    number = _number(value)
    write = writers.get(key.rpartition("_")[2])
    return str(value) if number is None or write is None else str(write(number))


def job_facts(spec: Record) -> list[tuple[str, str]]:
    """What was asked for, in words."""
    names = (
        ("devices", "Devices"),
        ("hosts", "Hosts"),
        ("processes", "Processes a host"),
        ("steps", "Steps"),
        ("minutes", "At most, minutes"),
    )
    found = [
        (name, f"{spec[key]:g}" if isinstance(spec[key], int | float) else str(spec[key]))
        for key, name in names
        if spec.get(key) is not None
    ]
    options = spec.get("options")
    return found + [(str(key), str(value)) for key, value in options.items()] if isinstance(options, Mapping) else found


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None
