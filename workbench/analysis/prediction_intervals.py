"""Prediction intervals: the range that holds nine of ten true figures, from the errors on other people's programs.

`prediction_intervals.toml` has, for each figure, tier and platform, between which ratios to the prediction the truth was in nine of ten
cases: `benchmarks/fit_ranges.py` derives it from the compilers' answers to third-party programs that no number was fitted on, and
`benchmarks/accuracy.py` measures its coverage of others. The truth for an absent device is its compiler's own figure.

The size of arguments is exact, so the error of memory is a share of what the step computes (`Memory.working`): little where parameters are
most of it, much where the step's own values dominate. The errors of bytes sent and of kernel times are factors.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from workbench.analysis.gpu_step_intervals import interval_for
from workbench.cost.tpu_kernel_cycles import known_rates
from workbench.hardware.hardware import Chip
from workbench.reports.diagnostic import UNKNOWN_TRIP_COUNT
from workbench.reports.report import Report
from workbench.reports.report_details import KERNELS, MEMORY, SENT, STEP, Range

RANGES_FILE = Path(__file__).with_name("prediction_intervals.toml")


@dataclass(frozen=True, slots=True)
class Residual:
    """The interval of errors, from `low` to `high`, over so many cases: for memory as a share of what the step computes (0 is exact), for
    all else as a ratio to the prediction (1 is exact)."""

    low: float
    high: float
    cases: int


def ranges_of(report: Report) -> Mapping[str, Range]:
    """The intervals of a report's figures: bytes sent, bytes at the peak, seconds of kernels and of a step.

    There is none for a figure that the compiler has settled, for one without cases on this platform, or for bytes and times that depend on
    a loop whose trip count depends on data; and none at all without hardware. A pipeline has one for its step alone, under a runtime of
    which runs were published (`gpu_step_intervals`).
    """
    if report.hardware is None:
        return {}
    published = interval_for(report)
    if published is not None and report.seconds and is_counted(report):
        return {STEP: published.range_of(report.seconds)}
    if report.plan.pipeline is not None:
        return {}
    known = _residuals_for(report, report.hardware.chip)
    found: dict[str, Range] = {}
    if SENT in known and is_counted(report):
        found[SENT] = _scale_range(report.sent, known[SENT])
    if MEMORY in known and report.compiled is None:
        found[MEMORY] = _memory_range(report, known[MEMORY])
    time = report.step_time
    if KERNELS in known and time is not None and not report.has_compiled_times and is_counted(report):
        found[KERNELS] = _scale_range(time.estimate, known[KERNELS])
        found[STEP] = Range(*(time.scaled(share).total for share in (known[KERNELS].low, known[KERNELS].high)))
    return {name: each for name, each in found.items() if each.high > each.low}


def _residuals_for(report: Report, chip: Chip) -> Mapping[str, Residual]:
    """The intervals by figure. What a scheduled program sends is settled; its kernels have intervals where their rates were fitted."""
    known = {figure: each for (figure, *of), each in residuals().items() if of == [report.prediction.tier, chip.platform]}
    if report.is_scheduled:
        known.pop(SENT, None)
        scheduled = residuals().get((KERNELS, "scheduled", chip.platform))
        if scheduled is not None and chip.target in known_rates():
            known[KERNELS] = scheduled
    return known


def is_counted(report: Report) -> bool:
    """Whether the trip count of each loop is known."""
    return all(each.kind != UNKNOWN_TRIP_COUNT for each in report.diagnostics)


def _memory_range(report: Report, residual: Residual) -> Range:
    memory = report.memory
    low, high = (memory.peak + share * memory.working for share in (residual.low, residual.high))
    return Range(max(low, min(memory.argument_bytes, memory.peak)), high)


def _scale_range(value: float, residual: Residual) -> Range:
    return Range(value * residual.low, value * residual.high)


@cache
def residuals() -> Mapping[tuple[str, str, str], Residual]:
    """The intervals by figure, tier and platform, read from `prediction_intervals.toml`."""
    table = tomllib.loads(RANGES_FILE.read_text(encoding="utf-8"))
    return {
        (each["figure"], each["tier"], each["platform"]): Residual(each["low"], each["high"], each["cases"]) for each in table["residuals"]
    }
