"""Compiled and measured results compared with the prediction of the plan they belong to."""

from typing import NamedTuple

from workbench.analysis.tier_comparison import Comparison
from workbench.plan.plan import Plan
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.widgets.run.job_progress import CompileProgress, RunProgress, on_these_devices


class ComparisonState(NamedTuple):
    """A comparison, and whether the plan has changed since."""

    comparison: Comparison
    stale: bool = False


def comparison_state(
    report: Report, compiling: CompileProgress, live: RunProgress, before: ComparisonState | None = None
) -> ComparisonState | None:
    """Compare the present plan if it was compiled or run, else an earlier plan; `None` without results."""
    compiled, run = compiling.of(report.plan), _find_measurement(live, report.plan)
    if compiled or run:
        return _reuse_comparison(before, ComparisonState(Comparison(report.prediction, compiled and compiled.compiled, run)))
    if compiling.found:
        old = compiling.found[0]
        return _reuse_comparison(
            before, ComparisonState(Comparison(old.report, old.compiled, _find_measurement(live, old.report.plan)), stale=True)
        )
    last = live.run_to_show(report.plan)
    if last and last.report and (run := _find_measurement(live, last.report.plan)):
        return _reuse_comparison(before, ComparisonState(Comparison(last.report, None, run), stale=True))
    return None


def _reuse_comparison(before: ComparisonState | None, new: ComparisonState) -> ComparisonState:
    old, now = before and before.comparison, new.comparison
    same = old and old.report is now.report and old.compiled is now.compiled and old.measurement is now.measurement
    return new._replace(comparison=old) if old and same else new


def _find_measurement(live: RunProgress, plan: Plan) -> Measurement | None:
    ran = live.of(plan)
    return ran.measurement if ran and ran.measurement and on_these_devices(plan, ran.measurement) else None
