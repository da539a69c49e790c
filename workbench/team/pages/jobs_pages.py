"""Pages of a project's jobs, and of one job with progress, figures, curves and log. Changing parts are polled as JSON."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.errors import WorkbenchError
from workbench.team.access import MissingError
from workbench.team.actions.jobs import ENDED
from workbench.team.jobs.job_events import figures_of
from workbench.team.pages.page_handler import PageHandler, Values, gather, page
from workbench.team.pages.page_words import write_bytes, write_dollars, write_seconds, write_span
from workbench.team.pages.plan_cards import FIGURE_KINDS, PRICE, STEP_TIME, FigureKind, PlanCard, read_card
from workbench.team.pages.plan_charts import draw_curve
from workbench.team.pages.project_pages import plan_name
from workbench.team.store.store import now

MOST_JOBS, MOST_ENDED = 100, 40
_MOST_EVENTS = 10_000
_TAIL = 50  # last events read for the progress line


def price_of(job: Any, cards: Mapping[str, PlanCard]) -> str:
    tier = "measured" if job["kind"] == "run" else "compiled"
    card = cards.get(job["plan"]["id"]) if job["plan"] and job["state"] == "done" else None
    price = card.of_tier(PRICE, tier) if card else None
    return price.text if price else ""


async def _cards_of(handler: PageHandler, jobs: list[Any]) -> dict[str, PlanCard]:
    ids = sorted({job["plan"]["id"] for job in jobs if job["plan"] and job["state"] == "done"})
    return {entry["id"]: read_card(entry) for entry in await gather(*(handler.ask("plans.get", entry=plan_id) for plan_id in ids))}


async def _waiting(handler: PageHandler, project: str, jobs: list[Any]) -> list[Any]:
    role = (await handler.project_values(project))["project"]["role"]
    active = [job for job in jobs if job["state"] not in ENDED]
    events = await gather(*(_last_events(handler, job) for job in active))
    return [job_view(job, of_job, _may_cancel(handler, job, role)) for job, of_job in zip(active, events, strict=True)]


def _may_cancel(handler: PageHandler, job: Any, role: str) -> bool:
    """Return whether to show the cancel button; the action checks the permission."""
    return role == "owner" or (role == "runner" and job["author"]["name"] == handler.require_principal().name)


async def _last_events(handler: PageHandler, job: Any) -> list[Any]:
    return [] if job["state"] == "queued" else (await _events_of(handler, job["id"]))[-_TAIL:]


async def _events_of(handler: PageHandler, job: str) -> list[Any]:
    events: list[Any] = []
    after = 0
    while len(events) < _MOST_EVENTS:
        try:
            found = await handler.ask("jobs.events", {"after": str(after)}, job=job)
        except WorkbenchError:
            return events
        events += found["items"]
        if not found["items"] or found["after"] == after:
            break
        after = found["after"]
    return events


@page("/p/{project}/jobs", "jobs.html", title="Jobs", section="jobs")
async def _jobs(handler: PageHandler, project: str) -> Values:
    jobs = await handler.ask_all("jobs.list", MOST_JOBS, project=project)
    waiting = await _waiting(handler, project, jobs)
    ended = [job_view(job, (), may_cancel=False) for job in jobs if job["state"] in ENDED][:MOST_ENDED]
    cards = await _cards_of(handler, ended)
    return {"waiting": waiting, "ended": [{**job, "price": price_of(job, cards)} for job in ended]}


@page("/p/{project}/jobs/live", "jobs_live.html")
async def _live_jobs(handler: PageHandler, project: str) -> Values:
    waiting = await _waiting(handler, project, await handler.ask_all("jobs.list", MOST_JOBS, project=project))
    return {"waiting": waiting, "over": not waiting}


@page("/p/{project}/jobs/{job}", "job.html", section="jobs")
@page("/p/{project}/jobs/{job}/live", "job_live.html")
async def _job(handler: PageHandler, project: str, job: str) -> Values:
    record = await handler.ask("jobs.get", job=job)
    if record["project"] != project:
        raise MissingError("job", job)
    of_project, events, entries = await gather(
        handler.project_values(project),
        _events_of(handler, job),
        handler.ask("plans.list", {"digest": record["digest"], "limit": "1"}, project=project),
    )
    card = read_card(entries["items"][0]) if entries["items"] else None
    lines = log_lines(events)
    view = job_view(record, events, _may_cancel(handler, record, of_project["project"]["role"]))
    return {
        "title": f"{view['kind'].capitalize()} of {view['plan_name']}",
        "job": view,
        "figures": job_figures(record, events, card),
        "curves": job_curves(events),
        "lines": lines[-MOST_LINES:],
        "cut": len(lines) > MOST_LINES,
        "facts": job_facts(record),
        "over": view["is_over"],
    }


MOST_LINES = 200
"""Maximum number of log lines on a page; the last ones are shown."""
Record = Mapping[str, Any]
_ASKED = (
    ("devices", "Devices"),
    ("hosts", "Hosts"),
    ("processes", "Processes a host"),
    ("steps", "Steps"),
    ("minutes", "At most, minutes"),
)


def job_view(job: Record, events: Sequence[Record], may_cancel: bool) -> dict[str, Any]:
    last = next((event for event in reversed(events) if event["kind"] == "progress"), None)
    is_over = job["state"] in ENDED
    started, ended = job["started"], job["ended"] or now()
    return {
        **job,
        "plan_name": plan_name(job),
        "is_over": is_over,
        "may_cancel": may_cancel and not is_over and not job["cancel_asked"],
        "fraction": None if is_over or last is None else _number(last.get("fraction")),
        "says": "" if is_over else progress_text(last, job["state"]),
        "took": None if started is None else ended - started,
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
    first, last = _number(summary.get("first_loss")), _number(summary.get("loss"))
    return "" if first is None or last is None else f"{first:.4g} → {last:.4g}"


def _stages(job: Record) -> list[tuple[str, float | None, bool]]:
    last = job["state"] if job["state"] in ENDED else "done"
    stages = [("queued", job["created"]), ("starting", None), ("running", job["started"]), (last, job["ended"])]
    return [(name, moment, name == job["state"]) for name, moment in stages]


def job_figures(job: Record, events: Sequence[Record], card: PlanCard | None) -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []
    for tier in ("measured", "compiled"):
        last = next((item for item in reversed(events) if item["kind"] == tier), None)
        values = figures_of(tier, last["figures"]) if last else {}
        if values and card is not None and job["state"] == "done":
            values["dollars"] = price.value if (price := card.of_tier(PRICE, tier)) else None
        for kind in FIGURE_KINDS:
            if (value := _number(values.get(kind.key))) is not None and kind.name not in (item[0] for item in rows):
                rows.append((kind.name, kind.write(value), tier, _predicted_text(kind, card, values)))
    return rows


def _predicted_text(kind: FigureKind, card: PlanCard | None, values: Record) -> str:
    """Describe the prediction, if possible for the devices that the job ran on, which may differ from the plan's."""
    predicted = _number(values.get("predicted_seconds"))
    if kind is STEP_TIME and predicted is not None:
        return f"{write_seconds(predicted)} was predicted for {values.get('device_kind') or 'them'}"
    if values.get("device_kind") == "cpu":
        return f"on {values['device_kind']}"
    earlier = next((figure for tier in ("partitioned", "planned") if card and (figure := card.of_tier(kind, tier))), None)
    return f"{earlier.text} was predicted" if earlier else ""


def job_curves(events: Sequence[Record]) -> list[tuple[str, Any, str, str]]:
    steps = [event for event in events if event["kind"] == "progress" and event.get("step")]
    curves = []
    for title, key, write in (("Loss", "loss", lambda value: f"{value:.4g}"), ("Step time", "seconds", write_seconds)):
        values = [value for event in steps if (value := _number(event.get(key))) is not None]
        if len(values) > 1:
            about = f"{title} over {len(values)} steps, from {write(values[0])} to {write(values[-1])}"
            curves.append((title, draw_curve(values, about), write(values[0]), write(values[-1])))
    return curves


def log_lines(events: Sequence[Record]) -> list[str]:
    first = events[0]["time"] if events else 0.0
    return [f"{write_span(event['time'] - first):>10}  {_line(event)}" for event in events]


def _line(event: Record) -> str:
    kind = event["kind"]
    if kind == "started":
        number, count = event.get("process", 0) + 1, event.get("processes", 1)
        return f"{event.get('command', 'started')} of {event.get('plan', 'a plan')}{f', process {number} of {count}' if count > 1 else ''}"
    if kind == "progress":
        return progress_text(event, "running")
    if kind in ("compiled", "measured"):
        return f"{kind}: {figures_text(event.get('figures', {}))}"
    if kind == "failed":
        ways_out = "".join(f"\n            {hint}" for hint in event.get("ways_out", ()))
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
    spec, summary = job["spec"], job["summary"]
    facts = [(name, spec.get(key)) for key, name in _ASKED]
    options = spec.get("options")
    facts += list(options.items()) if isinstance(options, Mapping) else []
    seconds, agree = _number(summary.get("compile_seconds")), summary.get("shards_agree")
    facts += [("Ran on", summary.get("device_kind")), ("Compiled in", None if seconds is None else write_seconds(seconds))]
    is_wrong = summary.get("is_wrong")  # None if not checked
    facts += [("Shards as planned", None if agree is None else "yes" if agree else "no")]
    facts += [("Equals the unsharded step", None if is_wrong is None else "no" if is_wrong else "yes")]
    return [(str(name), f"{value:,.12g}" if _number(value) is not None else str(value)) for name, value in facts if value not in (None, "")]


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None
