"""Prediction intervals of step times on GPUs by runtime, kind of work and chip, from published runs.

`gpu_step_intervals.toml` has, per runtime and kind of work, mean and standard deviation s of log(measured / predicted),
with the chips and times of the runs; chips with many runs have their own entry. `benchmarks/clusters.py --ranges`
generates it from the half of the runs on which constants were fitted. After n runs, the next one lies in mean +- t s
sqrt(1 + 1/n) nine times in ten (Student's t with n - 1 degrees of freedom). Outside the range of measured step times
the interval grows by its own width per factor of ten.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import exp, log10
from pathlib import Path

from workbench.hardware.hardware import Hardware
from workbench.reports.figure_ranges import Range
from workbench.reports.report import Report
from workbench.reports.step_time import FLOAT8

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
