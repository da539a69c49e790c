"""How far the step time of a plan for GPUs may be off, by runtime, kind of work and chip, from published runs.

`gpu_step_intervals.toml` has, for each runtime and kind of work, the mean and the spread of the logarithm of measured over predicted, and
the chips and times of the runs, a chip with many runs apart; `benchmarks/clusters.py --ranges` makes it of the half of the runs that
constants were fitted on. Of n runs
the next one lies in mean +- t s sqrt(1 + 1/n) nine times in ten, t being Student's with n - 1 degrees of freedom. A step that is shorter or
longer than all of them is known less well: its interval grows by itself for each factor of ten.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import exp, log10
from pathlib import Path

from workbench.hardware.hardware import Hardware
from workbench.reports.report import Report
from workbench.reports.report_details import Range

STEP_INTERVALS_FILE = Path(__file__).with_name("gpu_step_intervals.toml")
TRAINING, INFERENCE, MIXTURE = "training", "inference", "mixture"
FEWEST, ENOUGH = 3, 8
"""Runs that an interval needs, and as many as make one of a chip's own."""


@dataclass(frozen=True, slots=True)
class StepInterval:
    """The runs of one runtime and kind of work: on which chips (their targets), how many, between which predicted seconds, and mean and
    standard deviation of log(measured / predicted); `factor` deviations around the mean hold nine of ten."""

    targets: tuple[str, ...]
    cases: int
    shortest: float
    longest: float
    mean: float
    deviation: float
    factor: float

    def range_of(self, seconds: float) -> Range:
        """The interval of a step that is predicted to take so long.

        >>> StepInterval(("cuda:H100",), 20, 0.1, 10.0, 0.0, 0.1, 2.0).range_of(1.0)
        Range(low=0.8187307530779818, high=1.2214027581601699)
        """
        beyond = max(log10(self.shortest / seconds), log10(seconds / self.longest), 0.0)
        half = self.factor * self.deviation * (1 + beyond)
        return Range(seconds * exp(self.mean - half), seconds * exp(self.mean + half))


def work_of(report: Report) -> str:
    """The kind of work of a plan, by which published runs are grouped."""
    if not any(operation.path.startswith("grad/") for operation in report.plan.program.operations):
        return INFERENCE
    return MIXTURE if "experts" in report.plan.program.dims else TRAINING


def has_published_runs(hardware: Hardware) -> bool:
    """Whether there are intervals for some kind of work under the hardware's runtime."""
    return any(runtime == hardware.runtime.name for runtime, _, _ in step_intervals())


def interval_for(report: Report) -> StepInterval | None:
    """The interval of the step of a report; `None` where too few runs like it were published, or none on its chip."""
    hardware = report.hardware
    if hardware is None or not has_published_runs(hardware):
        return None
    return step_intervals().get((hardware.runtime.name, work_of(report), hardware.chip.target))


@cache
def step_intervals() -> Mapping[tuple[str, str, str], StepInterval]:
    """The intervals by runtime, kind of work and the chip's target."""
    found: dict[tuple[str, str, str], StepInterval] = {}
    for row in tomllib.loads(STEP_INTERVALS_FILE.read_text(encoding="utf-8")).get("intervals", []):
        runtime, work, targets = row.pop("runtime"), row.pop("work"), tuple(row.pop("targets"))
        found |= dict.fromkeys(((runtime, work, target) for target in targets), StepInterval(targets, **row))
    return found
