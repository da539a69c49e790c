"""How accurate plans of real clusters are: published runs of training and decoding, each planned as a user would, and set beside what was
measured.

Half of the rows, by a digest of their setup, are for fitting (`benchmarks/cluster_rows.py`); scores are of the other half. The last line of
`--json` has `step_mape` (mean error of a step, by kind of work), `ran_but_too_much` (runs that are said not to fit),
`out_of_memory_but_fits`, `range_holds` (share of times inside their range), and the same by stack.

`--ranges` writes how far times are off on the fitted half (`workbench/analysis/gpu_step_intervals.toml`), `--page` the table of
`docs/accuracy.md` from `benchmarks/results/clusters.json`, which holds that line.

    python benchmarks/clusters.py [--quick] [--json] [--fitted] [--stack NAME] [--ranges] [--page]
"""

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student

from benchmarks.cluster_rows import ClusterRow, cluster_rows
from workbench.analysis.prediction_intervals import ENOUGH, FEWEST, STEP_INTERVALS_FILE, work_of
from workbench.errors import WorkbenchError
from workbench.reports.figure_ranges import STEP, Range

RESULTS = Path(__file__).with_name("results") / "clusters.json"
PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
INSIDE = 0.95  # of the runs to come are below the upper end of a range, so that nine of ten are inside
OFFLOADED = """The run that is predicted not to fit, Llama 3 70B with FSDP on 64 GB200, keeps the activations of 40 of its 80 layers in host
memory (`cpu_offloading_num_layers` in Megatron-Bridge's scripts/performance/configs/llama/llama3_workload_base_configs.py). A plan
states this as remat `offload_dots_no_batch layers:1/2`, but not together with gradient accumulation, so the row is planned without."""
QUICK = 3
"""With `--quick`, every third row of a stack with at least this many is planned."""


@dataclass(frozen=True)
class ClusterResult:
    """A row beside its prediction: seconds, bytes at the peak and the device's, and the range of the seconds, if there is one."""

    row: ClusterRow
    seconds: float
    peak: int
    capacity: int
    verdict: str
    interval: Range | None
    runtime: str
    work: str
    target: str

    @property
    def error(self) -> float | None:
        """Signed and relative; `None` where no time was measured."""
        return self.seconds / self.row.seconds - 1 if self.row.seconds else None

    @property
    def holds(self) -> bool | None:
        """Whether the range has what was measured; `None` without either."""
        if self.interval is None or self.row.seconds is None:
            return None
        return self.interval.low <= self.row.seconds <= self.interval.high


def predict(row: ClusterRow) -> ClusterResult:
    """The row as its plan's report has it."""
    report = row.plan().report()
    interval = report.ranges.get(STEP)
    memory = report.fullest.memory if report.stages else report.memory
    hardware = report.hardware
    assert hardware, row.name
    where = hardware.runtime.name, work_of(report), hardware.chip.target
    return ClusterResult(row, report.seconds or 0.0, report.peak, memory.capacity, memory.verdict.value, interval, *where)


def results_of(rows: Sequence[ClusterRow]) -> list[ClusterResult]:
    """The predictions; a row that is refused is printed, and counts as one that has none."""
    found = []
    for row in rows:
        begin = time.process_time()
        try:
            result = predict(row)
        except WorkbenchError as error:
            print(f"{row.name}: REFUSED {error.message[:200]}", flush=True)
            continue
        print(f"{line_of(result)}  {time.process_time() - begin:5.1f} s", flush=True)
        found.append(result)
    return found


def line_of(result: ClusterResult) -> str:
    """One line of the table."""
    row = result.row
    error = f"{row.seconds:9.4f} {result.seconds:9.4f} s {result.error:+6.1%}" if row.seconds else " " * 28
    ran = "ran" if row.ran else "out of memory"
    interval = f" {result.interval.low:.3g} to {result.interval.high:.3g} s" if result.interval else ""
    side = "fitted" if row.is_fitted else "tested"
    memory = f"{result.peak / 2**30:6.1f} of {result.capacity / 2**30:5.1f} GiB"
    return f"{row.stack:20} {side} {row.name:75.75} {error} {memory} {ran}: {result.verdict}{interval}"


def scores(results: Iterable[ClusterResult]) -> dict[str, object]:
    """The scores of some rows."""
    rows = list(results)
    held = [row.holds for row in rows if row.holds is not None]
    return {
        "rows": len(rows),
        "step_mape": mean_error(rows),
        "bias": round(fmean([row.error for row in rows if row.error is not None] or [0.0]), 4),
        "ran_but_too_much": sum(row.row.ran and row.verdict == "does not fit" for row in rows),
        "out_of_memory_but_fits": sum(not row.row.ran and row.verdict == "fits" for row in rows),
        "range_holds": round(fmean(held), 4) if held else None,
        "ranges": len(held),
    }


def mean_error(rows: Iterable[ClusterResult]) -> float | None:
    """Mean absolute error of the times; `None` without any."""
    errors = [abs(row.error) for row in rows if row.error is not None]
    return round(fmean(errors), 4) if errors else None


def summary(results: Sequence[ClusterResult]) -> dict[str, object]:
    """Scores of the tested half: in all, by kind of work, by stack; and of the fitted half."""
    tested = [result for result in results if not result.row.is_fitted]
    fitted = [result for result in results if result.row.is_fitted]
    by_kind = {kind: mean_error([each for each in tested if each.row.kind == kind]) for kind in _names(tested, "kind")}
    stacks = {stack: scores([each for each in tested if each.row.stack == stack]) for stack in _names(tested, "stack")}
    whole = scores(tested)
    return {**whole, "step_mape": by_kind, "stacks": stacks, "fitted": scores(fitted), "refused": 0}


def _names(results: Iterable[ClusterResult], field: str) -> list[str]:
    return list(dict.fromkeys(getattr(result.row, field) for result in results))


def write_ranges(results: Iterable[ClusterResult]) -> None:
    """Write the mean and the spread of the errors of the fitted half, by runtime, kind of work and, where it has enough runs, chip."""
    rows = [each for each in results if each.row.is_fitted and each.row.seconds]
    of_chip = Counter((each.runtime, each.work, each.target) for each in rows)
    groups: dict[tuple[str, str, str], list[ClusterResult]] = {}
    for each in rows:
        is_apart = of_chip[each.runtime, each.work, each.target] >= ENOUGH
        groups.setdefault((each.runtime, each.work, each.target if is_apart else ""), []).append(each)
    text = (
        "# How far published runs on GPUs were from their prediction, by runtime, kind of work and chip: mean and standard\n"
        "# deviation of log(measured / predicted) (workbench/analysis/prediction_intervals.py). Made by\n"
        "# benchmarks/clusters.py --ranges of its fitted half.\n"
    )
    for (runtime, work, _), found in groups.items():
        if len(found) >= FEWEST:
            text += f"\n[[intervals]]\nruntime = {json.dumps(runtime)}\nwork = {json.dumps(work)}\n{_interval_text(found)}"
    STEP_INTERVALS_FILE.write_text(text, encoding="utf-8")


def _interval_text(found: Sequence[ClusterResult]) -> str:
    errors = [math.log((result.row.seconds or result.seconds) / result.seconds) for result in found]
    seconds = [result.seconds for result in found]
    return (
        f"targets = {json.dumps(sorted({result.target for result in found}))}\n"
        f"cases = {len(found)}\nshortest = {min(seconds):.3g}\nlongest = {max(seconds):.4g}\n"
        f"mean = {fmean(errors):.3f}\ndeviation = {stdev(errors):.3f}\n"
        f"factor = {student.ppf(INSIDE, len(found) - 1) * math.sqrt(1 + 1 / len(found)):.3f}\n"
    )


def page_text(found: Mapping[str, Any]) -> str:
    """The page of the documentation: the scores of the tested half by stack."""
    lines = [
        "# How accurate step times on clusters are",
        "",
        "This table compares predicted step times with published runs, each planned as a user would write it. Half of the runs, chosen",
        "by a digest of their setup, were used for fitting; the table shows the other half. `benchmarks/clusters.py --page` writes this",
        "page and has the sources. *Stack* is the training software: FSDP is llm-foundry, Megatron Core is Megatron-Bridge and Llama 3's",
        "own runs.",
        "",
        "| Stack | Runs | Mean error of a step | Bias | Ran, predicted not to fit | Out of memory, predicted to fit | Inside the range |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for stack, row in found["stacks"].items():
        error = "" if row["step_mape"] is None else f"{row['step_mape']:.0%}"
        held = "not calibrated" if row["range_holds"] is None else f"{row['range_holds']:.0%}"
        bias = "" if row["step_mape"] is None else f"{row['bias']:+.0%}"
        counts = f"{row['ran_but_too_much']} | {row['out_of_memory_but_fits']}"
        lines.append(f"| {stack} | {row['rows']} | {error} | {bias} | {counts} | {held} |")
    kinds = ", ".join(f"{kind} {error:.0%}" for kind, error in found["step_mape"].items() if error is not None)
    lines += ["", f"By kind of work: {kinds}. Fitted runs: {found['fitted']['step_mape']:.0%}.", "", OFFLOADED, ""]
    return "\n".join(lines)


def chosen_rows(*, quick: bool, stack: str = "", fitted: bool = False) -> list[ClusterRow]:
    """The rows to plan."""
    rows = [row for row in cluster_rows() if row.stack.startswith(stack) and (row.is_fitted or not fitted)]
    if not quick:
        return rows
    counts: dict[tuple[str, bool], int] = {}
    found = []
    for row in rows:
        key = row.stack, row.is_fitted
        counts[key] = counts.get(key, -1) + 1
        many = sum((other.stack, other.is_fitted) == key for other in rows) > 4 * QUICK
        if not many or counts[key] % QUICK == 0:
            found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a third of the rows of large tables")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--fitted", action="store_true", help="the fitted half alone")
    parser.add_argument("--page", action="store_true", help="write docs/accuracy.md from the last results")
    parser.add_argument("--ranges", action="store_true", help="write the ranges of step times")
    parser.add_argument("--stack", default="", help="rows whose stack begins so")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page_text(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")
        return
    rows = chosen_rows(quick=options.quick, stack=options.stack, fitted=options.fitted)
    results = results_of(rows)
    if options.ranges:
        write_ranges(results)
        return
    found = summary(results)
    found["refused"] = len(rows) - len(results)
    for name, table in found["stacks"].items():
        print(f"{name:22} {table}")
    print("tested", {name: value for name, value in found.items() if name not in ("stacks", "fitted")})
    print("fitted", found["fitted"])
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
