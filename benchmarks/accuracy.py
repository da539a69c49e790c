"""How true the numbers are: predictions against what the compilers say, over the corpus, and against published step times.

Per target: the share of cases whose payload bytes agree with the compiled program's by mesh axes and class of collective (within 2 %),
and the median and 90th percentile of the relative error of peak memory and of compute time (against the compiler's own estimate, which
only XLA:TPU gives). What falls outside is listed with its cause. Programs are compiled in a worker process and kept on disk, so a second
run takes a minute; the first takes half an hour on two cores.

Beside the programs of our own zoo, those of other people's packages (the extra `corpus`), for TPU v5e 2x4: their figures stand apart, and
nothing is compiled for them, for the compiler's answers are recorded (`record_corpus.py`). `third_party` is the half that nothing may be
fitted on, `third_party_fitted` the other (`corpus/split.py`), as planned; `third_party_settled` and `third_party_fitted_settled` are the
same as libtpu schedules them, which is what a board settles to. `coverage` is the share of the compiler's figures
of programs that neither numbers nor ranges were made of that lie within the range shown with the prediction
(`workbench/analysis/prediction_intervals.py`), at either tier, of which nine of ten should.

    python benchmarks/accuracy.py --quick --json
    python benchmarks/accuracy.py --third-party --save benchmarks/results/third_party.json
"""

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # this process only plans
sys.path.insert(0, str(Path(__file__).parent))

from published import predictions, published_errors
from published_ultrascale import ultrascale_tables

from benchmarks.corpus.answers import COMPILERS
from benchmarks.corpus.judge import JUDGED_TIERS, NOT_RECORDED, Judged, LeftOut, judge_programs
from benchmarks.corpus.program import TARGET, version_of
from benchmarks.corpus.split import is_ranged
from benchmarks.corpus.third_party import PROGRAMS, QUICK_PROGRAMS
from benchmarks.corpus.zoo import CASES, FITTED, QUICK, TARGETS, Case
from workbench.analysis.analyze import analyze
from workbench.analysis.prediction_intervals import KERNELS, MEMORY, SENT
from workbench.analysis.tier_comparison import Comparison
from workbench.engine import compile_plan
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware

THIRD_PARTY = {
    "third_party": ("tested", "planned"),
    "third_party_settled": ("tested", "partitioned"),
    "third_party_fitted": ("fitted", "planned"),
    "third_party_fitted_settled": ("fitted", "partitioned"),
}
"""The figures of the third-party programs: of which half, and at which tier."""
OUTSIDE = {"memory": 0.15, "time": 0.30}
"""Relative errors beyond which a case is listed."""


@dataclass(frozen=True)
class Result:
    """One case: errors are relative and signed, `None` where the compiler gives no figure."""

    case: Case
    comparison: Comparison

    @property
    def is_exact(self) -> bool:
        return all(row.is_close for row in self.comparison.collectives)

    def error(self, name: str) -> float | None:
        figure = next((each for each in self.comparison.figures if each.name == name), None)
        return None if figure is None or figure.compiled is None else figure.error

    @property
    def memory(self) -> float | None:
        return self.error("peak memory")

    @property
    def time(self) -> float | None:
        return self.error("kernels")


def compare(case: Case) -> Result:
    plan = case.plan().updated(hardware=parse_hardware(case.hardware))
    compiled = compile_plan(plan)
    return Result(case, Comparison(analyze(plan), compiled))


def quantile(errors: Iterable[float | None], q: float) -> float | None:
    known = [abs(each) for each in errors if each is not None]
    return float(np.quantile(known, q)) if known else None


def figures(results: Sequence[Result | Judged]) -> dict[str, float | int | None]:
    return {
        "cases": len(results),
        "comm_exact_share": sum(each.is_exact for each in results) / len(results) if results else None,
        "memory_p50": quantile((each.memory for each in results), 0.5),
        "memory_p90": quantile((each.memory for each in results), 0.9),
        "time_p50": quantile((each.time for each in results), 0.5),
        "time_p90": quantile((each.time for each in results), 0.9),
    }


def sides(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The cases with a time whose programs the numbers of TPUs are fitted on, and those that they are not."""
    timed = [each for each in results if each.time is not None]
    return {
        "fitted": [each for each in timed if each.case.program in FITTED],
        "tested": [each for each in timed if each.case.program not in FITTED],
    }


def row(name: str, summary: dict[str, float | int | None], width: int = 10) -> str:
    cells = ["-" if value is None else f"{value:.1%}" if isinstance(value, float) else str(value) for value in summary.values()]
    return f"{name:<{width}}" + "".join(f"{cell:>17}" for cell in cells)


def outside(result: Result) -> Iterable[str]:
    """What of a case is outside the goals, with the causes the comparison names."""
    if not result.is_exact:
        wrong = {
            (each.cause.name, "+".join(each.axes), each.kind) for each in result.comparison.differences if each.predicted != each.compiled
        }
        yield f"{result.case}: communication: " + "; ".join(f"{cause} ({kind} over {axes})" for cause, axes, kind in sorted(wrong))
    for name, error in (("memory", result.memory), ("time", result.time)):
        if error is not None and abs(error) > OUTSIDE[name]:
            yield f"{result.case}: {name} {error:+.0%}"


def case_row(name: str, result: Result | Judged) -> str:
    shown = ["-" if error is None else f"{error:+.1%}" for error in (result.memory, result.time)]
    return f"{name:<52} communication {'same' if result.is_exact else 'DIFFERS':<8} memory {shown[0]:>7} time {shown[1]:>7}"


def judge_third_party(case: str, *, quick: bool) -> dict[str, object]:
    """The figures of each half, each case, and what is left out with its reason; a row a case is printed, and the figures."""
    judged: list[Judged] = []
    left: list[LeftOut] = []
    for each in judge_programs(PROGRAMS if not quick else [each for each in PROGRAMS if each.name in QUICK_PROGRAMS], case):
        if isinstance(each, LeftOut):
            left.append(each)
        else:
            judged.append(each)
            print(case_row(f"{each.name} {each.tier}", each), flush=True)
    found: dict[str, object] = {}
    print("\n" + f"{'third':<24}" + "".join(f"{name:>17}" for name in figures(judged)))
    for key, (half, tier) in THIRD_PARTY.items():
        found[key] = figures([each for each in judged if (each.half, each.tier) == (half, tier)])
        print(row(f"{half}, {tier}", found[key], width=24))
    unseen = [each for each in judged if each.half == "tested" and not is_ranged(each.name.partition("/")[0])]
    covered = {tier: [each for each in unseen if each.tier == tier] for tier in JUDGED_TIERS}
    by_figure = {tier: {figure: coverage(cases, figure) for figure in (SENT, MEMORY, KERNELS)} for tier, cases in covered.items()}
    for tier, shares in by_figure.items():
        parts = ", ".join(f"{name} {share_text(share)}" for name, share in shares.items())
        print(f"Within their ranges, {tier}: {share_text(coverage(covered[tier]))} ({parts})")
    print_left_out(left)
    return {
        "coverage": coverage(unseen),
        "coverage_by_figure": by_figure,
        **found,
        "third_party_cases": [asdict(each) for each in judged],
        "third_party_left_out": [asdict(each) for each in left],
    }


def coverage(judged: Sequence[Judged], figure: str = "") -> float | None:
    """The share of the compiler's figures that lie within the ranges of the predicted ones: of one figure, or of all."""
    inside = [is_so for each in judged for name, is_so in each.inside.items() if figure in ("", name)]
    return sum(inside) / len(inside) if inside else None


def share_text(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def print_left_out(left: Sequence[LeftOut]) -> None:
    """Missing packages in one line, what is not recorded in another, all others in one each."""
    missing = sorted({each.reason.removesuffix(" not installed") for each in left if each.reason.endswith(" not installed")})
    if missing:
        print(f"Left out, for these packages are not installed: {', '.join(missing)} (pip install -e '.[corpus]').")
    if unknown := sum(each.reason == NOT_RECORDED for each in left):
        print(f"Left out, for the compiler's answers are not recorded yet: {unknown} cases (python benchmarks/record_corpus.py).")
    for each in left:
        if each.reason != NOT_RECORDED and not each.reason.endswith(" not installed"):
            print(f"{each.name:<52} LEFT OUT: {each.reason[:160]}")


def save_third_party(path: str, found: dict[str, object]) -> None:
    """What was found as a file for `benchmarks/results`."""
    names = (*COMPILERS, *sorted({package for each in PROGRAMS for package in each.packages}))
    about = {
        "command": f"python benchmarks/accuracy.py --third-party --save {path}",
        "target": TARGET,
        "versions": {name: version_of(name) for name in names},
    }
    rounded = json.loads(json.dumps({**about, **found}), parse_float=lambda text: round(float(text), 4))
    Path(path).write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest programs only, and one table of published rows")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object of figures")
    parser.add_argument("--target", choices=TARGETS, help="one target alone")
    parser.add_argument("--case", help="cases whose name contains this")
    parser.add_argument("--third-party", action="store_true", help="the programs of other people's packages only")
    parser.add_argument("--save", metavar="FILE", help="with --third-party: write what was found")
    options = parser.parse_args()
    if options.third_party:
        found = judge_third_party(options.case or "", quick=options.quick)
        if options.save:
            save_third_party(options.save, found)
        if options.json:
            print(json.dumps(found))
        return
    chosen = QUICK if options.quick else CASES
    chosen = [each for each in chosen if options.target in (None, each.target) and (options.case or "") in str(each)]
    if not any(importlib.util.find_spec(name) for name in ("jax_cuda13_plugin", "jax_cuda12_plugin")):
        print('NVIDIA is left out: JAX\'s CUDA plug-in is not installed (pip install -e ".[cuda]").')
        chosen = [each for each in chosen if each.target != "H100"]
    results: list[Result] = []
    failed: list[str] = []
    for case in chosen:
        try:
            results.append(compare(case))
            print(case_row(str(case), results[-1]), flush=True)
        except WorkbenchError as error:
            failed.append(str(case))
            print(f"{case!s:<52} NOT COMPILED: {str(error).splitlines()[0][:160]}", flush=True)
    print("\n" + f"{'target':<10}" + "".join(f"{name:>17}" for name in figures(results)))
    for target in TARGETS:
        own = [each for each in results if each.case.target == target]
        if own:
            print(row(target, figures(own)))
    print(row("all", figures(results)))
    print("\nOf these, numbers of TPUs are fitted to the compiler's estimates on some programs, and tested on the others:")
    for title, chosen in sides(results).items():
        print(row(title, figures(chosen)))
    lines = [line for each in results for line in outside(each)]
    print("\nOutside: " + ("none" if not lines else "\n  " + "\n  ".join(lines)))
    if failed:
        print("Not compiled: " + ", ".join(failed))
    third = {} if options.target not in (None, "TPU v5e") else judge_third_party(options.case or "", quick=options.quick)
    if options.json:
        published: dict[str, object] = dict(published_errors(predictions(["maxtext"]) if options.quick else None))
        published |= ultrascale_tables(quick=options.quick)
        halves = {f"time_{q}_{title}": figures(chosen)[f"time_{q}"] for title, chosen in sides(results).items() for q in ("p50", "p90")}
        print(json.dumps({**figures(results), **halves, **third, "not_compiled": failed, "published": published}))


if __name__ == "__main__":
    main()
