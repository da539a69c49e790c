"""The Compile panel as JSON."""

from functools import partial
from typing import Any

from workbench.analysis.tier_comparison import Comparison
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.units import format_bytes, format_seconds
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.board.tier_marks import fact
from workbench.widgets.run.job_progress import CompileProgress, log_state, stage_text

INVITATION = (
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
        "facts": _facts(comparison, comparison.compiled) if comparison and comparison.compiled else [],
        "of": str(compiling.report.plan) if strayed and compiling.report else str(comparison.report.plan) if comparison and stale else "",
        "log": log_state(compiling.log),
        "said": _announcement(compiling),
    }


def _message(compiling: CompileProgress, plan: Plan, *, stale: bool, mine: bool) -> str:
    if compiling.message and mine:
        return compiling.message
    if stale:
        return "Compiled before the last edit (another plan):"
    return INVITATION.format(target=_target(plan)) if compiling.of(plan) is None and not compiling.running else ""


def _announcement(compiling: CompileProgress) -> str:
    if compiling.unasked:
        return ""
    if compiling.running:
        return f"The compilation is {compiling.stage}."
    ended = {"done": "The compilation is done.", "cancelled": "The compilation was cancelled."}
    return ended.get(compiling.phase, f"The compilation failed. {compiling.message}" if compiling.phase == "error" else "")


def _target(plan: Plan) -> str:
    return str(plan.hardware) if plan.hardware else "the attached devices"


def _facts(comparison: Comparison, compiled: Compiled) -> list[dict[str, Any]]:
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
