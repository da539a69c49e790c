"""The Run panel's state: progress and curves of a run, or the measurements of the present plan."""

from collections.abc import Callable
from functools import partial
from math import isfinite
from statistics import median
from typing import Any

from workbench.analysis.tier_comparison import Comparison, collectives_table
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement, not_numbers_text, wrong_shards_table
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.board.tier_marks import fact
from workbench.widgets.run.job_progress import CompileProgress, RunProgress, log_state, on_these_devices, same_step, stage_text
from workbench.widgets.tabs.table_blocks import Paint, table_block

MOST_ROWS = 100
INVITATION = "Compile and run this plan in a worker process, then compare shard shapes, collectives and step time with the prediction."
STALE = "Run before the last edit (another plan):"


def run_state(live: RunProgress, plan: Plan, *, can_run: bool = True) -> dict[str, Any]:
    """Return the JSON state for `plan`: a run in progress, else the plan's last run, else the last run of any plan."""
    own_run, ran = live.of(plan), live.run_to_show(plan)
    current = live if live.running or own_run is None or live.plan is None or same_step(live.plan, plan) else own_run
    mine = current.plan is None or same_step(current.plan, plan)
    strayed = bool(current.message) and not mine  # failed after the plan was edited: shown with the plan of the run
    stale = ran is not None and own_run is None and not live.running and not strayed
    drawn = current if live.running or current.seconds else ran
    result = None if live.running or strayed else ran
    return {
        "phase": current.phase,
        "can_run": can_run,
        "steps": str(live.steps),
        "stage": stage_text(live.stage, live.now - live.turn, waits=live.waits) if live.running else "",
        "waits": live.waits and live.running,
        "fraction": round(min(max(live.fraction, 0.0), 1.0), 4),
        "message": current.message or (STALE if stale else INVITATION if current.phase == "idle" else ""),
        "stale": stale,
        "of": str(current.plan) if strayed else str(ran.plan) if ran and stale else "",
        "curves": _curves(drawn) if drawn else [],
        "facts": _facts(result.measurement, result.ran_as or result.report) if result and result.measurement else [],
        "blocks": _blocks(result.measurement, result.ran_as or result.report, dict(result.colours))
        if result and result.measurement and result.report
        else [],
        "log": log_state(current.log),
        "traced": bool(own_run and own_run.measurement and own_run.measurement.trace),
        "said": _announcement(live),
    }


def _announcement(live: RunProgress) -> str:
    if live.running:
        return f"The run is {live.stage}." if not live.seconds else ""
    if live.phase == "done" and live.measurement:
        return live.measurement.wrong_text or f"The run is done: {format_seconds(live.measurement.median_seconds)} a step."
    return {"error": f"The run failed. {live.message}", "cancelled": "The run was cancelled."}.get(live.phase, "")


def _curves(live: RunProgress) -> list[dict[str, Any]]:
    drawn = curve("loss", live.losses, lambda loss: f"{loss:.4g}"), curve("step time", live.seconds, format_seconds, middle=True)
    return [line for line in drawn if line]


def _facts(measured: Measurement, report: Report | None) -> list[dict[str, Any]]:
    low, high = (format_seconds(value) for value in measured.spread_seconds)
    facts = [
        fact(
            "measured step",
            format_seconds(measured.median_seconds),
            f"median of {len(measured.step_seconds)}; {low} to {high}",
            tier="measured",
        )
    ]
    if measured.predicted_seconds:
        ratio = measured.median_seconds / measured.predicted_seconds
        note = f"for {measured.devices} × {measured.device_kind}, as calibrated after the run; measured is {ratio:.2f}× of it"
        facts.append(fact("predicted step", format_seconds(measured.predicted_seconds), note))
    agreeing = sum(check.agrees for check in measured.shards)
    tone = "good" if measured.shards_agree else "bad"
    facts.append(fact("shard shapes", f"{agreeing} of {len(measured.shards)}", "match the real arrays", tone, tier="measured"))
    if losses := [value for value in measured.losses if isfinite(value)]:
        facts.append(fact("loss", f"{losses[0]:.4g} → {losses[-1]:.4g}", f"over {len(measured.losses)} steps", tier="measured"))
    if len(losses) < len(measured.losses):
        facts.append(fact("not a number", f"{len(measured.losses) - len(losses)} losses", "are infinite or undefined", "bad"))
    if measured.max_error is not None:
        facts.append(
            fact(
                "against unsharded",
                f"{measured.max_error:.1e}" if isfinite(measured.max_error) else "no number",
                measured.wrong_text or (not_numbers_text(measured) if measured.not_numbers else "largest relative difference"),
                "bad" if measured.is_wrong else "",
            )
        )
    if report:
        facts.append(
            fact(
                "peak memory",
                format_bytes(measured.compiled_peak),
                f"by XLA; predicted {format_bytes(report.peak)}{_other_devices(measured, report)}",
            )
        )
    processes = f", {measured.processes} processes" if measured.processes > 1 else ""
    took = f"compiled in {format_seconds(measured.compile_seconds)}{processes}"
    return [*facts, fact("ran on", f"{measured.devices} × {measured.device_kind}", took)]


def _other_devices(measured: Measurement, report: Report) -> str:
    """Note that a prediction is not for the devices of the run, if those could not be calibrated."""
    return "" if on_these_devices(report.plan, measured) else f" for {report.plan.hardware}, not for these devices"


def _blocks(measured: Measurement, report: Report, colours: dict[str, int]) -> list[dict[str, Any]]:
    comparison = Comparison(report, None, measured)
    sent = collectives_table(comparison)
    blocks = [{**table_block(sent, Paint(colours), MOST_ROWS), "in_tab": "compared"}] if sent.rows else []
    wrong = wrong_shards_table(measured)
    if wrong.rows:
        blocks.insert(0, table_block(wrong, Paint(colours), MOST_ROWS))
    return blocks


# Curves of a run as JSON: points in a 100 x 100 box, y downwards, with labels of axes and points.

MOST_POINTS = 200


def curve(label: str, values: tuple[float, ...], show: Callable[[float], str], *, middle: bool = False) -> dict[str, Any] | None:
    """Return a line through the finite `values`, with `middle` also their median; `None` for fewer than two."""
    finite = [(step, value) for step, value in enumerate(values, 1) if isfinite(value)]
    if len(finite) < 2:
        return None
    points = thin_out(finite)
    low, high = min(value for _, value in points), max(value for _, value in points)
    first, last = points[0][0], points[-1][0]
    span = high - low or 1.0
    height = [round(100 * (high - value) / span, 2) for _, value in points]
    centre = median(value for _, value in finite)
    return {
        "label": label,
        "points": [[round(100 * (step - first) / (last - first), 2), y] for (step, _), y in zip(points, height, strict=True)],
        "told": [f"step {step:,}: {show(value)}" for step, value in points],
        "high": show(high),
        "low": show(low),
        "first": f"step {first:,}",
        "end": f"{last:,}",
        "last": show(finite[-1][1]),
        "across": {"y": round(100 * (high - centre) / span, 2), "text": f"median {show(centre)}"} if middle else None,
    }


def thin_out(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Keep about `MOST_POINTS` points and the last one, enough for a curve in a box 300 pixels wide."""
    stride = -(-len(points) // MOST_POINTS) or 1
    thinned = points[::stride]
    return thinned if not points or thinned[-1] == points[-1] else [*thinned, points[-1]]


# The Compile panel as JSON.


COMPILE_INVITATION = (
    "XLA compiles this plan for {target} in a separate process. Its collectives, kernels and memory are compared with the prediction."
)


def compile_state(compiling: CompileProgress, comparison_state: ComparisonState | None, plan: Plan) -> dict[str, Any]:
    comparison = (
        comparison_state.comparison if comparison_state and comparison_state.comparison.compiled and not compiling.running else None
    )
    stale = bool(comparison and comparison_state and comparison_state.stale)
    mine = compiling.running or compiling.report is None or compiling.report.plan == plan
    strayed = bool(compiling.message) and not mine and compiling.of(plan) is None  # it failed after the plan was edited
    stale, comparison = (False, None) if strayed else (stale, comparison)
    return {
        "phase": compiling.phase if mine or strayed else "done" if comparison else "idle",
        "target": f"for {_target(plan)}",
        "stage": stage_text(compiling.stage, compiling.now - compiling.turn, waits=compiling.waits) if compiling.running else "",
        "waits": compiling.waits and compiling.running,
        "unasked": compiling.unasked and compiling.running,
        "fraction": round(min(max(compiling.fraction, 0.0), 1.0), 4),
        "message": _message(compiling, plan, stale=stale, mine=mine or strayed),
        "stale": stale,
        "facts": _compile_facts(comparison, comparison.compiled) if comparison and comparison.compiled else [],
        "of": str(compiling.report.plan) if strayed and compiling.report else str(comparison.report.plan) if comparison and stale else "",
        "log": log_state(compiling.log),
        "said": _compile_announcement(compiling),
    }


def _message(compiling: CompileProgress, plan: Plan, *, stale: bool, mine: bool) -> str:
    if compiling.message and mine:
        return compiling.message
    if stale:
        return "Compiled before the last edit (another plan):"
    return COMPILE_INVITATION.format(target=_target(plan)) if compiling.of(plan) is None and not compiling.running else ""


def _compile_announcement(compiling: CompileProgress) -> str:
    if compiling.unasked:
        return ""
    if compiling.running:
        return f"The compilation is {compiling.stage}."
    ended = {"done": "The compilation is done.", "cancelled": "The compilation was cancelled."}
    return ended.get(compiling.phase, f"The compilation failed. {compiling.message}" if compiling.phase == "error" else "")


def _target(plan: Plan) -> str:
    return str(plan.hardware) if plan.hardware else "the attached devices"


def _compile_facts(comparison: Comparison, compiled: Compiled) -> list[dict[str, Any]]:
    peak = next(comparison.memory_figures()).predicted
    where = f"stage {compiled.fullest}, the fullest; " if compiled.stages else ""
    facts = [_fact("peak memory", format_bytes(compiled.memory.peak), f"{where}predicted {format_bytes(int(peak or 0))}")]
    if compiled.compute_seconds is not None:
        time = None if compiled.stages else comparison.report.step_time
        suffix = f"; predicted {format_seconds(time.estimate)}" if time else ""
        facts.append(_fact("kernels", format_seconds(compiled.compute_seconds), f"by the compiler's own estimate{suffix}"))
    facts.append(_collectives(comparison))
    took = "from the cache" if compiled.from_cache else f"took {format_seconds(compiled.compile_seconds)}"
    facts.append(_fact("compiled for", compiled.target, took, tier=""))
    return facts


def _collectives(comparison: Comparison) -> dict[str, Any]:
    rows = comparison.collectives
    if not rows:
        return _fact("collectives", "none", "neither planned nor compiled", "good")
    close = sum(row.is_close for row in rows)
    return _fact(
        "collectives", f"{close} of {len(rows)}", "by mesh axis and kind match the prediction", "good" if close == len(rows) else "warn"
    )


_fact = partial(fact, tier="compiled")
