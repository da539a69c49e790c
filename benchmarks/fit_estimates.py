"""Fits what XLA:TPU's own estimate of kernels says of each chip, on some programs of the accuracy corpus, and tests it on the others.

What is fitted, by least squares of the logarithm of predicted over estimated time of all kernels (Gauss-Newton, held to where it starts by
a weak prior, cases that are far out counting less): the share of the memory bandwidth at which products and other kernels read and write
(`operands`, `memory`: more than all of it where arrays lie on the chip), how many elements a second a kernel passes over (`sweep`, here as
a share of one a lane and cycle), and what a kernel takes however small it is (`launch`, as a share of the smallest that the compiler tells
of). The share of the peak that products reach (`matmul`) stays as it is: large products tell it.

It is fitted on the programs of `corpus.FITTED`, all layouts, and for TPU v5e as much on the fitting half of the third-party programs, as
far as their packages are installed and their answers are recorded; and tested on all others: other programs, not other layouts of the
same. The result belongs in `workbench/hardware/hardware.toml`.

    python benchmarks/fit_estimates.py [TARGET ...] [--quick] [--json]
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # this process only plans
sys.path.insert(0, str(Path(__file__).parent))

from benchmarks.corpus.answers import read_answers, versions_of
from benchmarks.corpus.program import TARGET as THIRD_PARTY_HARDWARE
from benchmarks.corpus.third_party import PROGRAMS
from benchmarks.corpus.zoo import CASES, FITTED, TARGETS
from workbench.analysis.analyze import analyze
from workbench.engine import compile_plan
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.plan import Plan

START = {"operands": 1.2, "memory": 0.9, "sweep": 1.0, "launch": 1.0}
LOWEST, HIGHEST = np.array([0.2, 0.2, 0.05, 0.5]), np.array([8.0, 2.0, 20.0, 2.0])
SMALLEST = {"TPU v3": 0.33e-6, "TPU v4": 0.58e-6, "TPU v5e": 1.21e-6, "TPU v5p": 1.21e-6, "TPU v6e": 1.21e-6}
"""Seconds of the smallest kernels that XLA:TPU (jax 0.10.2) tells of."""
ROUNDS, STEP, PRIOR, FAR = 8, 0.03, 0.03, 0.15


@dataclass(frozen=True)
class Estimate:
    """A case's plan, and the seconds of all its kernels as the compiler estimates them; which side it is on, and what it weighs there."""

    side: str
    plan: Plan
    seconds: float
    weight: float = 1.0

    def residual(self, shares: NDArray[np.float64]) -> float:
        """log(predicted / estimated)."""
        hardware = self.plan.hardware
        values = dict(zip(START, shares.tolist(), strict=True))
        chip = hardware.chip
        sweep, launch = values.pop("sweep") * _lanes(chip.name), values.pop("launch") * SMALLEST[chip.name]
        chip = replace(chip, sweep=sweep, launch=launch, efficiency={**chip.efficiency, **values})
        time = analyze(self.plan, replace(hardware, chip=chip)).step_time
        return float(np.log(time.estimate / self.seconds))


def estimates(target: str) -> list[Estimate]:
    """All cases of a target for which the compiler tells a time; both kinds of program weigh as much as each other."""
    zoo = [
        Estimate("fitted" if each.program in FITTED else "tested", plan, compile_plan(plan).compute_seconds or np.nan)
        for each in CASES
        if each.target == target
        for plan in [each.plan().updated(hardware=parse_hardware(each.hardware))]
    ]
    others = list(_third_party()) if THIRD_PARTY_HARDWARE.startswith(target) else []
    count = sum(each.side == "fitted" for each in zoo) / max(sum(each.side == "third-party, fitted" for each in others), 1)
    return [*zoo, *(replace(each, weight=count) for each in others)]


def _third_party() -> Iterator[Estimate]:
    """The third-party programs as far as they are installed, with the recorded answers."""
    for program in PROGRAMS:
        answers = None if program.missing else read_answers(program.name)
        for layout, answer in answers.layouts.items() if answers else ():
            plan = program.plan(layout)
            if answers and answer.kernel_seconds and not answers.why_stale(layout, plan, versions_of(program)):
                yield Estimate(f"third-party, {program.half}", plan, answer.kernel_seconds)


def _lanes(name: str) -> float:
    """Elements a second that seem likely for a chip, a core of which passes over 1,024 in about 19 cycles; the fit starts there."""
    return {"TPU v3": 0.5e11, "TPU v4": 0.6e11, "TPU v5e": 0.8e11, "TPU v5p": 1.2e11, "TPU v6e": 4e11}[name]


def fit(cases: Sequence[Estimate]) -> NDArray[np.float64]:
    """The shares, in the order of `START`."""
    start = np.array(list(START.values()))
    shares = start.copy()
    for _ in range(ROUNDS):
        points = [shares, *(shares * np.where(np.arange(len(start)) == i, 1 + STEP, 1) for i in range(len(start)))]
        table = np.array([[each.residual(point) for point in points] for each in cases])
        weights = (1 + (table[:, 0] / FAR) ** 2) ** -0.25  # of a smooth absolute value
        weights = weights * np.sqrt([each.weight for each in cases])
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
    """The fitted numbers and the errors of each side, printed."""
    cases = estimates(target)
    shares = fit([each for each in cases if each.side.endswith("fitted")])
    found = dict(zip(START, shares.round(3).tolist(), strict=True))
    found |= {"sweep": float(f"{found['sweep'] * _lanes(target):.3g}"), "launch": float(f"{found['launch'] * SMALLEST[target]:.3g}")}
    print(target, found)
    for side in dict.fromkeys(each.side for each in cases):
        errors = np.abs(np.expm1([each.residual(shares) for each in cases if each.side == side]))
        found[f"{side}_error"] = round(float(np.median(errors)), 4)
        print(f"  {side}: {len(errors)} cases, {np.median(errors):.1%} median, {np.quantile(errors, 0.9):.1%} 90th percentile")
    return found


if __name__ == "__main__":
    main()
