"""Fits what XLA:TPU's own estimate of kernels says of each chip, on some programs of the accuracy corpus, and tests it on the others.

What is fitted, by least squares of the logarithm of predicted over estimated time of all kernels (Gauss-Newton, held to where it starts by
a weak prior, cases that are far out counting less): the share of the peak that products reach (`matmul`), of the memory bandwidth what
products and other kernels read and write (`operands`, `memory`), and how many elements a second a kernel passes over (`sweep`, here as a
share of one a lane and cycle). The time of an empty kernel (`launch`) is read off, not fitted: what the compiler says of the smallest ones.

It is fitted on the programs of `corpus.FITTED`, all layouts, and tested on all others: other programs, not other layouts of the same. The
result belongs in `workbench/hardware.toml`.

    python benchmarks/fit_estimates.py [TARGET ...] [--quick] [--json]
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # this process only plans
sys.path.insert(0, str(Path(__file__).parent))

from benchmarks.corpus.zoo import CASES, FITTED, TARGETS, Case
from workbench.analyze import analyze
from workbench.catalogue import parse_hardware
from workbench.engine import compile_plan
from workbench.plan import Plan

START = {"matmul": 0.93, "operands": 1.2, "memory": 0.9, "sweep": 1.0}
LOWEST, HIGHEST = np.array([0.8, 0.2, 0.2, 0.05]), np.array([0.97, 3.0, 2.0, 20.0])
ROUNDS, STEP, PRIOR, FAR = 8, 0.03, 0.03, 0.15


@dataclass(frozen=True)
class Estimate:
    """A case's plan, and the seconds of all its kernels as the compiler estimates them."""

    case: Case
    plan: Plan
    seconds: float

    @classmethod
    def of(cls, case: Case) -> "Estimate":
        plan = case.plan().updated(hardware=parse_hardware(case.hardware))
        return cls(case, plan, compile_plan(plan).compute_seconds or np.nan)

    def residual(self, shares: NDArray[np.float64]) -> float:
        """log(predicted / estimated)."""
        hardware = self.plan.hardware
        values = dict(zip(START, shares.tolist(), strict=True))
        chip = hardware.chip
        chip = replace(chip, sweep=values.pop("sweep") * _lanes(chip.name), efficiency={**chip.efficiency, **values})
        time = analyze(self.plan, replace(hardware, chip=chip)).step_time
        return float(np.log(time.estimate / self.seconds))


def _lanes(name: str) -> float:
    """Elements a second that seem likely for a chip, a core of which passes over 1,024 in about eight cycles; the fit starts there."""
    return {"TPU v3": 1.0e11, "TPU v4": 1.5e11, "TPU v5e": 1.6e11, "TPU v5p": 2.8e11, "TPU v6e": 9e11}[name]


def fit(cases: Sequence[Estimate]) -> NDArray[np.float64]:
    """The shares, in the order of `START`."""
    start = np.array(list(START.values()))
    shares = start.copy()
    for _ in range(ROUNDS):
        points = [shares, *(shares * np.where(np.arange(len(start)) == i, 1 + STEP, 1) for i in range(len(start)))]
        table = np.array([[each.residual(point) for point in points] for each in cases])
        weights = (1 + (table[:, 0] / FAR) ** 2) ** -0.25  # of a smooth absolute value
        slopes = (table[:, 1:] - table[:, :1]) / np.log1p(STEP)
        prior = PRIOR * np.sqrt(len(cases)) * np.eye(len(start))
        left = np.vstack([slopes * weights[:, None], prior])
        right = np.concatenate([-table[:, 0] * weights, -np.diag(prior) * np.log(shares / start)])
        shares = np.clip(shares * np.exp(_step(left, right, shares)), LOWEST, HIGHEST)
    return shares


def _step(left: NDArray[np.float64], right: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least squares step of the logarithms; a share at its limit stays there where it would go beyond."""
    free = np.ones(len(shares), dtype=bool)
    step = np.zeros(len(shares))
    for _ in shares:
        step[:] = 0.0
        step[free] = np.clip(np.linalg.lstsq(left[:, free], right)[0], -0.5, 0.5)
        beyond = free & (((shares >= HIGHEST) & (step > 0)) | ((shares <= LOWEST) & (step < 0)))
        if not beyond.any():
            break
        free &= ~beyond
    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true", help="TPU v3 alone, whose programs compile the fastest")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    chips = options.targets or (["TPU v3"] if options.quick else [name for name in TARGETS if name.startswith("TPU")])
    found = {name: _tried(name) for name in chips}
    if options.json:
        print(json.dumps(found))


def _tried(target: str) -> Mapping[str, float]:
    """The fitted numbers and both errors, printed."""
    cases = [Estimate.of(each) for each in CASES if each.target == target]
    sides = {"fitted": [each for each in cases if each.case.program in FITTED]}
    sides["tested"] = [each for each in cases if each not in sides["fitted"]]
    shares = fit(sides["fitted"])
    found = {**dict(zip(START, shares.round(3).tolist(), strict=True)), "sweep": float(f"{shares[-1] * _lanes(target):.3g}")}
    print(target, found)
    for title, side in sides.items():
        errors = np.abs(np.expm1([each.residual(shares) for each in side]))
        found[f"{title}_error"] = round(float(np.median(errors)), 4)
        print(f"  {title} on {len(side)} cases: {np.median(errors):.1%} median, {errors.max():.1%} at most")
    return found


if __name__ == "__main__":
    main()
