"""The search for a plan: whether it finds the best, how soon, and how soon it follows what one asks.

    python benchmarks/search.py [--quick] [--json] [--seed N] [PART ...]

- `small` (`search_small.py`): searches against every plan of small spaces; optima, fronts, bounds above the truth;
- `gpt3` (`search_gpt3.py`): GPT-3 175B on 2,048 chips, seconds to the optimum, to a gap of 20, 5 and 1 %, to
  the proof (`optimum_s`, `gap_20_s`, `gap_5_s`, `gap_1_s`, `proof_s`), the gap after 5, 10 and 20 seconds (`gap_after_5_s`), CPU seconds
  in all (`cpu_s`), beside a planned sample;
- `wide` (`search_wide.py`): the same model in a space of about ten million plans: what a minute finds, beside the best of hours, and beside
  Optuna's TPE and pymoo's NSGA-II in as many seconds with as many processes (`pip install -e ".[bench]"`);
- `interaction` (`search_interaction.py`): first plan, states a second, cancelling, changing one's mind;
- `operations` (`search_operations.py`): each operation split by itself, beside all recipes and named dimensions;
- `iopddl` (`search_iopddl.py`): the per-operation problem on six public instances of Google's contest within its time, beside the best
  known; `missing` says where the instances are not there;
- `stages` (`search_stages.py`): a layout of its own for each stage, beside the best one for all stages;
- `published` (`search_published.py`): choices that others measured;
- `truth` (`search_truth.py`): the fastest plans of fronts, compiled for their TPUs; plans of a few spaces, run on virtual CPU devices;
- `load`: the machine's load average before and after, and its cores. Seconds are as long as the machine is busy with other work;
- `speed_control`: seconds that compiling a fixed program takes here, before and after: figures of two machines, or of two days, compare by
  it.

The goals: all optima, a hypervolume of 0.995, no violations; a first plan in 1 s, a gap of 0.2 after 5 s, 0.05 after 10 and 0.01 after
20, the proof after 40, in 60 CPU seconds; in the wide space within 2 % of the best of hours after a minute (`within_2` of 0.02 at most),
and the optimizers 5 % behind (`ahead` of 0.05 at least); six feasible choices with a `score` of 5.6; 2 states a second, cancelled in 0.2 s,
followed in 2 s; of the
fastest plans 95 % compiled without running out of memory, peaks within 8 %; of the pairs predicted to differ by more than 5 %, 80 % ran in
that order.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_gpt3 import HARDWARE, gpt3
from benchmarks.search_interaction import interaction
from benchmarks.search_iopddl import measure
from benchmarks.search_operations import operations
from benchmarks.search_published import published
from benchmarks.search_small import CASES, quick_cases, small
from benchmarks.search_stages import stages
from benchmarks.search_truth import truth
from benchmarks.search_wide import CASES as WIDE_CASES
from benchmarks.search_wide import wide
from tests.support.run_times import speed_control
from workbench.errors import SearchError

GPT3_SECONDS = {False: 300.0, True: 120.0}


def parts(*, quick: bool, seed: int) -> dict[str, Callable[[], Any]]:
    """Each part by its key."""
    return {
        "small": lambda: small(quick_cases() if quick else CASES),
        "gpt3": lambda: gpt3(GPT3_SECONDS[quick], HARDWARE[:1] if quick else HARDWARE),
        "wide": lambda: wide(WIDE_CASES[quick], seed),
        "interaction": lambda: interaction(quick=quick),
        "operations": lambda: operations(quick=quick),
        "iopddl": lambda: iopddl(quick=quick, seed=seed),
        "stages": lambda: stages(quick=quick),
        "published": lambda: published(quick=quick),
        "truth": lambda: truth(quick=quick),
    }


def iopddl(*, quick: bool, seed: int) -> dict[str, Any]:
    """The contest's instances, which are not part of this repository."""
    try:
        return measure(quick, seed=seed)
    except SearchError as error:
        return {"missing": error.message}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(parts(quick=True, seed=0))}; all if left out")
    parser.add_argument("--quick", action="store_true", help="minutes instead of an hour")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="of the optimizers and the contest; another in each run"
    )
    options = parser.parse_args()
    known = parts(quick=options.quick, seed=options.seed)
    if unknown := {*options.parts} - {*known}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    load, found, control = [round(each, 1) for each in os.getloadavg()], {}, speed_control()
    for name in options.parts or known:
        found[name] = known[name]()
        print(f"{name}: {json.dumps(found[name])}", flush=True)
    found["load"] = {"before": load, "after": [round(each, 1) for each in os.getloadavg()], "cores": os.cpu_count()}
    found["speed_control"] = {"before": round(control, 3), "after": round(speed_control(), 3)}
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
