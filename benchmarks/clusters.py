"""How accurate plans of real clusters are: published runs of training and decoding, each planned as a user would, and set beside what was
measured.

Half of the rows, by a digest of their setup, are for fitting (`benchmarks/cluster_rows.py`); scores are of the other half. The last line of
`--json` has `step_mape` (mean error of a step, by kind of work), `ran_but_too_much` (runs that are said not to fit),
`out_of_memory_but_fits`, `range_holds` (share of times inside their range), and the same by stack.

    python benchmarks/clusters.py [--quick] [--json] [--fitted] [--stack NAME]
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.cluster_rows import ClusterRow, cluster_rows
from workbench.errors import WorkbenchError
from workbench.reports.report_details import STEP, Range

QUICK = 3
"""Of a stack with so many rows or more, every third is planned if `--quick` is said."""


@dataclass(frozen=True)
class ClusterResult:
    """A row beside its prediction: seconds, bytes at the peak and the device's, and the range of the seconds, if there is one."""

    row: ClusterRow
    seconds: float
    peak: int
    capacity: int
    verdict: str
    interval: Range | None

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
    verdict = "fits" if report.peak <= memory.capacity else "does not fit"
    return ClusterResult(row, report.seconds or 0.0, report.peak, memory.capacity, verdict, interval)


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
    parser.add_argument("--stack", default="", help="rows whose stack begins so")
    options = parser.parse_args()
    rows = chosen_rows(quick=options.quick, stack=options.stack, fitted=options.fitted)
    results = results_of(rows)
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
