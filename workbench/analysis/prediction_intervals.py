"""90 % prediction intervals, from errors on third-party programs.

`prediction_intervals.toml` has, for each figure, tier and platform, the ratios to the prediction that contained the
true value in nine of ten cases. `benchmarks/fit_ranges.py` derives them from compilers' results for third-party
programs on which no constant was fitted; `benchmarks/accuracy.py` measures their coverage on others. The true value for
an absent device is its compiler's figure.

Argument sizes are exact, so the error of memory is relative to the computed values (`Memory.working`): small if
parameters dominate, large otherwise. The errors of bytes sent and of kernel times are factors.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import exp, log10
from pathlib import Path

from workbench.cost.tpu_kernel_cycles import known_rates
from workbench.hardware.hardware import Chip, Hardware
from workbench.reports.diagnostic import UNKNOWN_TRIP_COUNT
from workbench.reports.figure_ranges import KERNELS, MEMORY, SENT, STEP, Range
from workbench.reports.report import Report
from workbench.reports.step_time import FLOAT8

RANGES_FILE = Path(__file__).with_name("prediction_intervals.toml")


@dataclass(frozen=True, slots=True)
class Residual:
    """An interval of errors over `cases` programs: of memory as a share of computed bytes, else a ratio."""

    low: float
    high: float
    cases: int


def ranges_of(report: Report) -> Mapping[str, Range]:
    """Return the intervals of a report's bytes sent, peak bytes, kernel seconds and step seconds.

    Figures are omitted if they are settled by the compiler, have no cases on this platform, or depend on a loop with
    unknown trip count; all are omitted without hardware. A pipeline has an interval only for its step, if runs under
    its runtime were published (`gpu_step_intervals`).
    """
    if report.hardware is None:
        return {}
    published = interval_for(report)
    if published is not None and report.seconds and is_counted(report):
        return {STEP: published.range_of(report.seconds)}
    if report.plan.pipeline is not None:
        return {}
    residual_of = _residuals_for(report, report.hardware.chip)
    intervals: dict[str, Range] = {}
    if SENT in residual_of and is_counted(report):
        intervals[SENT] = _scale_range(report.sent, residual_of[SENT])
    if MEMORY in residual_of and report.compiled is None:
        intervals[MEMORY] = _memory_range(report, residual_of[MEMORY])
    time = report.step_time
    if KERNELS in residual_of and time is not None and not report.has_compiled_times and is_counted(report):
        intervals[KERNELS] = _scale_range(time.estimate, residual_of[KERNELS])
        intervals[STEP] = Range(*(time.scaled(share).total for share in (residual_of[KERNELS].low, residual_of[KERNELS].high)))
    return {name: interval for name, interval in intervals.items() if interval.high > interval.low}


def _residuals_for(report: Report, chip: Chip) -> Mapping[str, Residual]:
    """Return residuals by figure; a scheduled program's communication is settled, its kernels may have fitted rates."""
    by_figure = {
        figure: residual for (figure, *source), residual in residuals().items() if source == [report.prediction.tier, chip.platform]
    }
    if report.is_scheduled:
        by_figure.pop(SENT, None)
        scheduled = residuals().get((KERNELS, "scheduled", chip.platform))
        if scheduled is not None and chip.target in known_rates():
            by_figure[KERNELS] = scheduled
    return by_figure


def is_counted(report: Report) -> bool:
    """Return whether every loop's trip count is known."""
    return all(diagnostic.kind != UNKNOWN_TRIP_COUNT for diagnostic in report.diagnostics)


def _memory_range(report: Report, residual: Residual) -> Range:
    memory = report.memory
    low, high = (memory.peak + share * memory.working for share in (residual.low, residual.high))
    return Range(max(low, min(memory.argument_bytes, memory.peak)), high)


def _scale_range(value: float, residual: Residual) -> Range:
    return Range(value * residual.low, value * residual.high)


@cache
def residuals() -> Mapping[tuple[str, str, str], Residual]:
    table = tomllib.loads(RANGES_FILE.read_text(encoding="utf-8"))
    return {(row["figure"], row["tier"], row["platform"]): Residual(row["low"], row["high"], row["cases"]) for row in table["residuals"]}


# Prediction intervals of step times on GPUs by runtime, kind of work and chip, from published runs.
#
# `gpu_step_intervals.toml` has, per runtime and kind of work, mean and standard deviation s of log(measured / predicted),
# with the chips and times of the runs; chips with many runs have their own entry. `benchmarks/clusters.py --ranges`
# generates it from the half of the runs on which constants were fitted. After n runs, the next one lies in mean +- t s
# sqrt(1 + 1/n) nine times in ten (Student's t with n - 1 degrees of freedom). Outside the range of measured step times
# the interval grows by its own width per factor of ten.


STEP_INTERVALS_FILE = Path(__file__).with_name("gpu_step_intervals.toml")
TRAINING, INFERENCE, MIXTURE = "training", "inference", "mixture"
FEWEST, ENOUGH = 3, 8
"""Minimum runs for an interval, and for an interval of one chip."""


@dataclass(frozen=True, slots=True)
class StepInterval:
    """Statistics of the runs of one runtime and kind of work.

    `targets`: their chips; `cases`: their number; `shortest`, `longest`: predicted seconds; `mean`, `deviation`: of
    log(measured / predicted); `factor`: the deviations around the mean that hold nine of ten.
    """

    targets: tuple[str, ...]
    cases: int
    shortest: float
    longest: float
    mean: float
    deviation: float
    factor: float

    def range_of(self, seconds: float) -> Range:
        """Return the interval of a predicted step time in seconds.

        >>> StepInterval(("cuda:H100",), 20, 0.1, 10.0, 0.0, 0.1, 2.0).range_of(1.0)
        Range(low=0.8187307530779818, high=1.2214027581601699)
        """
        beyond = max(log10(self.shortest / seconds), log10(seconds / self.longest), 0.0)
        half = self.factor * self.deviation * (1 + beyond)
        return Range(seconds * exp(self.mean - half), seconds * exp(self.mean + half))


def work_of(report: Report) -> str:
    """Return the kind of work by which published runs are grouped."""
    if not any(operation.path.startswith("grad/") for operation in report.plan.program.operations):
        return INFERENCE
    return MIXTURE if "experts" in report.plan.program.dims else TRAINING


def has_published_runs(hardware: Hardware) -> bool:
    return any(runtime == hardware.runtime.name for runtime, _, _ in step_intervals())


def interval_for(report: Report) -> StepInterval | None:
    """Return the step interval of a report; `None` if too few similar runs were published, or none on its chip."""
    hardware = report.hardware
    if hardware is None or not has_published_runs(hardware):
        return None
    if report.plan.program.precision.products and FLOAT8 not in hardware.chip.flops:  # where it has, runs in float8 are among these
        return None
    return step_intervals().get((hardware.runtime.name, work_of(report), hardware.chip.target))


@cache
def step_intervals() -> Mapping[tuple[str, str, str], StepInterval]:
    intervals: dict[tuple[str, str, str], StepInterval] = {}
    for row in tomllib.loads(STEP_INTERVALS_FILE.read_text(encoding="utf-8")).get("intervals", []):
        runtime, work, targets = row.pop("runtime"), row.pop("work"), tuple(row.pop("targets"))
        intervals |= dict.fromkeys(((runtime, work, target) for target in targets), StepInterval(targets, **row))
    return intervals
