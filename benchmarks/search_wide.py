"""A wide space: what a search finds in a minute, beside what it finds in hours, and what general optimizers find in a minute.

GPT-3 175B with Adam, 1,536 examples a step, on 2,048 chips: everything that `workbench search --wide` may choose (meshes with context
parallelism, two-dimensional layouts, ZeRO, recomputation on all of the stages or on the first of them, micro-batches, ten schedules, and on
which links each axis of the mesh runs), as many `combinations` as a space then has. What decisions there are is asked of the space.

- `ours_60s`: the best step that `find_plans` has after `seconds`, from a cold start, with two worker processes;
- `ours_long`: the best after `long_s` seconds, stored in `benchmarks/results/search_wide.json` by
  `python benchmarks/search_wide.py --record SECONDS`, of a space of `long_combinations`; `within_2` is how much slower `ours_60s` is;
- `optuna_60s`, `pymoo_60s`: the best step of Optuna's TPE and of pymoo's NSGA-II (`search_optimizers.py`) in as many seconds, with as many
  worker processes and the same planner; `ahead` is how much slower the better of them is;
- `*_near_s`: after how many seconds each was within 2 % of the best that is known, of the long run too; `sooner` is how many times as long
  the first of the optimizers took. Where all find the best within the time, this tells them apart and `ahead` does not;
- `*_evaluations`: candidates that were planned until then (of the optimizers those too that the planner refused, `*_refused`), `*_plan` the
  best with the seconds `*_plan_s` after which it was found, `*_load` the machine's load average at the end; `ours_gap`: by how much
  the best could be beaten at most, as the search knows.

Each runs in a process of its own, one after the other, with nothing left from the one before. The optimizers' clock begins when the space
is there as vectors; ours, before the space is made. Plans must fit into the memory of a chip. What arrives after the time does not count.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_optimizers import OPTIMISERS, Judge
from benchmarks.search_programs import program_of
from benchmarks.search_vectors import CandidateVectors
from workbench.engine import open_answerer
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.find_plans import find_plans, read_requirements
from workbench.search.make_space import make_space
from workbench.search.run_search import list_first_candidates
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState

RESULTS = Path(__file__).parent / "results" / "search_wide.json"
WORKERS, LONG, NEAR = 2, 7200.0, 1.02
OURS = "ours"
CONTENDERS = (OURS, *OPTIMISERS)


@dataclass(frozen=True, slots=True)
class WideCase:
    """A preset of `gpt` with its examples a step, on hardware, and the seconds that each contender has."""

    preset: str
    batch: int
    hardware: str
    seconds: float

    @property
    def plan(self) -> Plan:
        return Plan(program_of("gpt", (("preset", self.preset), ("batch", self.batch))), "", hardware=self.hardware)

    def space(self) -> SearchSpace:
        return make_space(self.plan, wide=True)

    def __str__(self) -> str:
        return f"{self.preset}, {self.batch:,} examples, {self.hardware}"


CASES = {False: WideCase("gpt3-175b", 1536, "TPU v5p 8x16x16", 60.0), True: WideCase("gpt3-6.7b", 512, "TPU v5p 4x4x4", 20.0)}
"""By whether it is to be quick."""


@dataclass(frozen=True)
class Found:
    """What a contender found in `seconds`: each better step with the seconds until then, the candidates planned until then and its plan.

    `refused` by the planner, of those; `load`: of the machine at its end; `gap`: by how much the best could be beaten at most, where it is
    known; `missing`: why it could not run.
    """

    contender: str
    seconds: float
    combinations: int = 0
    points: tuple[tuple[float, int, float, str], ...] = ()
    evaluated: int = 0
    refused: int = 0
    load: float = 0.0
    gap: float | None = None
    missing: str = ""

    @property
    def best(self) -> float | None:
        return self.points[-1][2] if self.points else None

    def seconds_until(self, step: float) -> float | None:
        """Seconds until a step as short as this was found, `None` if none was."""
        return next((elapsed for elapsed, _, found, _ in self.points if found <= step), None)

    @property
    def figures(self) -> dict[str, Any]:
        """Under the names of the benchmark's keys."""
        name = self.contender
        if self.missing:
            return {f"{name}_60s": None, f"{name}_missing": self.missing}
        after, _, _, plan = self.points[-1] if self.points else (None, 0, None, "")
        more = {f"{name}_refused": self.refused} if self.gap is None else {f"{name}_gap": self.gap}
        counts = {f"{name}_evaluations": self.evaluated, **more}
        return {f"{name}_60s": self.best, f"{name}_plan": plan, f"{name}_plan_s": after, **counts, f"{name}_load": self.load}


def search_ours(case: WideCase) -> Found:
    """A search as `workbench search --wide` makes it, each better plan printed as it is found."""
    points: list[tuple[float, int, float, str]] = []
    in_time: list[SearchState] = []
    plan, seconds = case.plan, case.seconds
    begin = time.perf_counter()

    def hear(state: SearchState) -> None:
        elapsed = time.perf_counter() - begin
        if elapsed > seconds:
            return
        in_time[:] = [state]
        if state.best is not None and (not points or state.best[1].seconds < points[-1][2]):
            points.append((round(elapsed, 2), state.evaluated, state.best[1].seconds, str(state.best[0])))
            print(f"after {points[-1][0]:,.1f} s: {points[-1][2]:.3f} s with {points[-1][3]}", file=sys.stderr, flush=True)

    opened = partial(open_answerer, workers=WORKERS)
    space = find_plans(plan, within=seconds, on_progress=hear, open_answerer=opened, wide=True).space
    evaluated, gap = (in_time[0].evaluated, round(in_time[0].gap, 4)) if in_time else (0, 1.0)
    return Found(OURS, seconds, space.size, tuple(points), evaluated, load=_load(), gap=gap)


def search_with(name: str, case: WideCase, seed: int) -> Found:
    """A general optimizer, by the name of its package, in the same space."""
    if find_spec(name) is None:
        return Found(name, case.seconds, missing=f'{name} is not installed: pip install -e ".[bench]"')
    space = case.space()
    vectors = CandidateVectors(space)
    names = [each.name for each in vectors.columns]
    print(f"{name} decides {', '.join(names)}", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    requirements = read_requirements(space, {}, {})
    answerer = open_answerer(Evaluator(space), workers=WORKERS)
    judge = Judge(requirements, answerer, case.seconds, begin)
    try:
        OPTIMISERS[name](judge, vectors, list_first_candidates(space, requirements), seed)
    finally:
        answerer.close()
    return Found(name, case.seconds, space.size, tuple(judge.points), judge.evaluated, judge.refused, _load())


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def run_alone(name: str, case: WideCase, seed: int) -> Found:
    """A contender in a process of its own."""
    command = [sys.executable, __file__, "--contender", name, "--case", json.dumps(asdict(case)), "--seed", str(seed)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return read_found(json.loads(found.stdout.splitlines()[-1]))


def read_found(record: Mapping[str, Any]) -> Found:
    """What a contender found, from the JSON of `asdict`."""
    return Found(**{**record, "points": tuple((*each,) for each in record["points"])})


def compare(found: Mapping[str, Found], stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """All figures side by side: what each found, and how far they are from each other and from the stored long run."""
    ours, others = found[OURS].best, [each.best for name, each in found.items() if name != OURS and each.best is not None]
    long = stored["best"] if stored else None
    known = min([each for each in (ours, long, *others) if each], default=0.0)
    near = {name: each.seconds_until(known * NEAR) for name, each in found.items()}
    others_near = [each for name, each in near.items() if name != OURS and each]
    return {
        "combinations": found[OURS].combinations,
        "seconds": found[OURS].seconds,
        **found[OURS].figures,
        "ours_long": long,
        "long_s": stored["seconds"] if stored else None,
        "long_combinations": stored["combinations"] if stored else None,
        "within_2": round(ours / long - 1, 4) if ours and long else None,
        **{key: value for name, each in found.items() if name != OURS for key, value in each.figures.items()},
        "ahead": round(min(others) / ours - 1, 4) if ours and others else None,
        **{f"{name}_near_s": each for name, each in near.items()},
        "sooner": round(min(others_near) / near[OURS], 2) if near[OURS] and others_near else None,
    }


def wide(case: WideCase, seed: int) -> dict[str, Any]:
    """All contenders, one after the other, beside the stored long run."""
    found = {}
    for name in CONTENDERS:
        found[name] = run_alone(name, case, seed)
        print(f"{case}: {found[name].figures}", flush=True)
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return compare(found, stored.get(str(case)))


def record(case: WideCase, seconds: float) -> None:
    """Search for so long and store what was found."""
    found = search_ours(replace(case, seconds=seconds))
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept = {**asdict(found), "best": found.best, "workers": WORKERS}
    RESULTS.write_text(json.dumps({**stored, str(case): kept}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller model, fewer chips, less time")
    parser.add_argument(
        "--record", type=float, nargs="?", const=LONG, metavar="SECONDS", help=f"store a search as long, {LONG:.0f} if not said"
    )

    parser.add_argument("--hardware", help="another, as `256 nodes of 8 A100`")
    parser.add_argument("--seed", type=int, default=0, help="of the optimizers")
    parser.add_argument("--contender", choices=CONTENDERS, help="this one alone, in this process")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    case = WideCase(**options.case) if options.case else CASES[options.quick]
    case = replace(case, hardware=options.hardware) if options.hardware else case
    if options.record:
        record(case, options.record)
    elif options.contender:
        alone = search_ours(case) if options.contender == OURS else search_with(options.contender, case, options.seed)
        print(json.dumps(asdict(alone)))
    else:
        print(json.dumps(wide(case, options.seed)))


if __name__ == "__main__":
    main()
