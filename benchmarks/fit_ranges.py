"""How far a figure may be off: the intervals of `workbench/analysis/prediction_intervals.toml`, from third-party programs that no number
was fitted on.

For each tier and figure: how far the compiler's answer (`benchmarks/corpus/answers/`) was from the prediction, in all cases of the programs
that are for this (`corpus/split.py`), as `workbench.analysis.prediction_intervals.Residual` has it, and of these the shortest interval that
holds nine of ten: of n cases ceil(0.9 (n + 1)), so that few cases make it wide. A planned figure is never surer than the one it settles to:
its interval holds that one's, too. `partitioned` is what XLA's partitioner says in general, where libtpu is not installed; `scheduled` what
is left to say once libtpu has shown its program: how long its kernels take. `accuracy.py` says what share lies inside of programs that
neither numbers nor ranges were made of.

    python benchmarks/fit_ranges.py [--json]
"""

import argparse
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # this process only plans

from benchmarks.corpus.answers import Answer, read_answers, versions_of
from benchmarks.corpus.program import TARGET, ThirdPartyProgram
from benchmarks.corpus.split import is_ranged
from benchmarks.corpus.third_party import PROGRAMS
from workbench.analysis.analyze import analyze
from workbench.analysis.prediction_intervals import KERNELS, MEMORY, RANGES_FILE, SENT, is_counted
from workbench.engine import shared_worker
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.public_plan import Plan
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Report

INSIDE = 0.9  # of the cases
TIERS = ("planned", "partitioned", "scheduled")
SETTLED = (SENT, MEMORY)  # once a program is scheduled


class Case(NamedTuple):
    """How far the compiler's figure was from the predicted one (`workbench.analysis.prediction_intervals.Residual`)."""

    tier: str
    figure: str
    residual: float


def cases_of(program: ThirdPartyProgram) -> Iterator[Case]:
    """Of every layout that the compiler answered for; a plan that XLA's partitioner refuses has its planned figures alone."""
    answers = read_answers(program.name)
    versions = versions_of(program)
    for layout, answer in answers.layouts.items() if answers else ():
        plan = program.plan(layout)
        if answer.refused or answers.why_stale(layout, plan, versions):
            continue
        for tier in TIERS:
            try:
                report = analyze(plan, answer=answer_for(plan, tier))
            except WorkbenchError as error:
                print(f"{program.name}/{layout}: {tier}: {error.message[:120]}", flush=True)
                continue
            found = residuals_of(report, answer)
            yield from (Case(tier, figure, each) for figure, each in found.items() if tier != "scheduled" or figure not in SETTLED)


def answer_for(plan: Plan, tier: str) -> Partitioned | None:
    """What the figures of a tier follow from; raises `PartitionError`."""
    if tier == "partitioned":
        return shared_worker().ask(plan, "tpu").result()
    return plan.partition() if tier == "scheduled" else None


def residuals_of(report: Report, answer: Answer) -> dict[str, float]:
    """By figure; one that is nothing in either is left out: a share of nothing says nothing."""
    assert report.step_time is not None, TARGET
    memory = report.memory
    pairs = {
        KERNELS: (answer.kernel_seconds, report.step_time.estimate),
        SENT: (sum(answer.payload.values()), sum(report.by_axis_and_kind.values())),
    }
    counted = pairs if is_counted(report) else {}
    found = {figure: true / predicted for figure, (true, predicted) in counted.items() if true and predicted}
    return {**found, **({MEMORY: (answer.peak - memory.peak) / memory.working} if answer.peak and memory.working else {})}


def interval(found: Sequence[float], *, are_factors: bool = True) -> tuple[float, float]:
    """The shortest interval that holds `INSIDE` of one case more than there are (that one is the case to come); of factors, which are above
    0, in their logarithms.

    >>> interval([0.5 + 0.01 * i for i in range(100)])
    (0.59, 1.49)
    """
    ordered = sorted(found)
    held = min(math.ceil(INSIDE * (len(ordered) + 1)), len(ordered))

    def length(start: int) -> float:
        low, high = ordered[start], ordered[start + held - 1]
        return high / low if are_factors else high - low

    start = min(range(len(ordered) - held + 1), key=length)
    return round(ordered[start], 3), round(ordered[start + held - 1], 3)


def intervals(residuals: Mapping[str, Sequence[float]], *, are_factors: bool = True) -> dict[str, tuple[float, float]]:
    """Of each tier that has cases, in the order in which figures settle: what holds the intervals of all that follow, too.

    >>> intervals({"planned": [0.9, 1.1], "partitioned": [1.0, 1.2]})
    {'planned': (0.9, 1.2), 'partitioned': (1.0, 1.2)}
    """
    own = [(tier, interval(found, are_factors=are_factors)) for tier, found in residuals.items() if found]
    return {tier: (min(low for _, (low, _) in own[at:]), max(high for _, (_, high) in own[at:])) for at, (tier, _) in enumerate(own)}


def text_of(rows: Sequence[dict[str, object]], versions: str) -> str:
    """The file."""
    head = (
        "# How far the truth was from a prediction, from `low` to `high`: nine of ten lie between\n"
        "# (workbench/analysis/prediction_intervals.py). Made by benchmarks/fit_ranges.py of\n"
        f"# the compiler's answers for {TARGET} ({versions}) to those third-party\n"
        "# programs of benchmarks/corpus that are for ranges (benchmarks/corpus/split.py).\n"
    )
    blocks = ("\n[[residuals]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items()) for row in rows)
    return head + "".join(blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object of the intervals")
    options = parser.parse_args()
    chosen = [each for each in PROGRAMS if is_ranged(each.name) and not each.missing]
    found = [case for program in chosen for case in cases_of(program)]
    rows: list[dict[str, object]] = []
    for figure in (SENT, MEMORY, KERNELS):
        residuals = {tier: [each.residual for each in found if (each.tier, each.figure) == (tier, figure)] for tier in TIERS}
        for tier, (low, high) in intervals(residuals, are_factors=figure != MEMORY).items():
            where = {"figure": figure, "tier": tier, "platform": parse_hardware(TARGET).chip.platform}
            rows.append({**where, "low": low, "high": high, "cases": len(residuals[tier])})
            print(f"{figure:<10}{tier:<14}{low:>8.3f}{high:>8.3f}  of {len(residuals[tier])} cases")
    versions = next((answers.versions for each in chosen if (answers := read_answers(each.name))), {})
    Path(RANGES_FILE).write_text(text_of(rows, ", ".join(f"{name} {versions[name]}" for name in ("jax", "libtpu"))), encoding="utf-8")
    if options.json:
        print(json.dumps({f"{row['figure']}_{row['tier']}": [row["low"], row["high"], row["cases"]] for row in rows}))


if __name__ == "__main__":
    main()
