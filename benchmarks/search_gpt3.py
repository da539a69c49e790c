"""GPT-3 175B on 2,048 chips: how soon a search has a plan, how soon it is within 5 and 1 %, how soon the best is proved.

The space is Megatron-LM's: tensor parallelism by every size that divides the model, with and without sequence parallelism; pipelines of
every size up to the network's blocks; the rest data parallel; micro-batches of every divisor up to 16 examples; ZeRO 0 to 3; recomputation
of nothing, of what is cheap, of everything; GPipe, 1F1B, and interleaved with every number of equal chunks. Context parallelism, uneven
stages and offloading are not among its choices.

A search has a worker process for each processor, whose start counts.

To plan all of them one by one takes hours. So the proof is not set beside a full enumeration but beside a sample: `SAMPLE` candidates drawn
with a seed and planned by themselves, without anything of the search. None may be faster than the best that the search proved, and none
below the bounds that the search goes by. The sample's figures are stored (`benchmarks/results/search_gpt3.json`, written by
`python benchmarks/search_gpt3.py --record`), and later runs compare the best with the stored figures. A sample can show that a proof is
wrong; it cannot show that it is right.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.search_programs import program_of
from benchmarks.search_small import ROUNDING, compare_bounds
from workbench.engine import open_answerer
from workbench.errors import WorkbenchError
from workbench.public_plan import Plan
from workbench.search.candidate_plans import candidate_plan
from workbench.search.evaluator import Evaluator
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import AtMost
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures, evaluate_plan
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState

RESULTS = Path(__file__).parent / "results" / "search_gpt3.json"
HARDWARE = ("TPU v5p 8x16x16", "256 nodes of 8 A100")
SAMPLE, SEED = 500, 175
_REACHED = {"gap_20_s": 0.2, "gap_5_s": 0.05, "gap_1_s": 0.01}
_LOOKED_AT = (5, 10, 20)
KEYS = ("optimum_s", *_REACHED, *(f"gap_after_{seconds}_s" for seconds in _LOOKED_AT), "proof_s", "cpu_s")
"""What is compared from release to release, of the first hardware."""


@cache
def space_on(hardware: str) -> SearchSpace:
    """All combinations of the choices above on this hardware."""
    program = program_of("gpt", (("preset", "gpt3-175b"), ("batch", 1536)))
    layouts = ("replicated", "megatron", "megatron + sequence")
    schedules = ("gpipe", "1f1b", "interleaved")
    return make_space(Plan(program, "", hardware=hardware), layouts=layouts, schedules=schedules, remats=("none", "selective", "full"))


@dataclass(frozen=True)
class Gpt3Search:
    """The states of one search, and the best of the last."""

    hardware: str
    space: SearchSpace
    states: tuple[SearchState, ...]
    made_s: float
    cpu_s: float

    def gap_after(self, seconds: float) -> float:
        """The gap at that time: that of the last state until then."""
        return next((each.gap for each in reversed(self.states) if each.elapsed <= seconds), 1.0)

    def seconds_until(self, reached: Any) -> float | None:
        """Seconds until a state for which `reached` holds, `None` if none does."""
        return next((round(each.elapsed, 2) for each in self.states if reached(each)), None)

    @property
    def figures(self) -> dict[str, Any]:
        last = self.states[-1]
        best = last.best
        return {
            "combinations": self.space.size,
            "space_s": round(self.made_s, 2),
            "cpu_s": round(self.cpu_s, 1),
            "optimum_s": self.seconds_until(lambda state: state.best is not None and best is not None and state.best[1] == best[1]),
            "first_s": self.seconds_until(lambda state: state.best is not None),
            **{f"gap_after_{seconds}_s": round(self.gap_after(seconds), 4) for seconds in _LOOKED_AT},
            **{name: self.seconds_until(lambda state, gap=gap: state.gap <= gap) for name, gap in _REACHED.items()},
            "proof_s": self.seconds_until(lambda state: state.is_proved),
            "gap": round(last.gap, 4),
            "evaluated": last.evaluated,
            "bounded": last.bounded,
            "best": str(best[0]) if best else "",
            "best_seconds": best[1].seconds if best else None,
        }


def search_gpt3(hardware: str, within: float) -> Gpt3Search:
    """Search until the best is proved, so many seconds at most. Plans must fit into the memory of a chip."""
    begin = time.perf_counter()
    space = space_on(hardware)
    made = time.perf_counter() - begin
    evaluator, states, worked = Evaluator(space), [], _cpu_seconds()
    with closing(open_answerer(evaluator)) as answerer:
        for state in run_search(space, (AtMost("memory", memory_of(space)),), within=within, answerer=answerer, evaluator=evaluator):
            states.append(state)
            if state.is_proved:
                break
    return Gpt3Search(hardware, space, tuple(states), made, _cpu_seconds() - worked)


def _cpu_seconds() -> float:
    """Of this process, and of its workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def memory_of(space: SearchSpace) -> float:
    """Bytes of a chip."""
    hardware = space.start.hardware
    if hardware is None:
        raise ValueError("the space is of a plan with hardware")
    return float(hardware.chip.memory)


def plan_sample(space: SearchSpace, count: int, seed: int) -> dict[PlanCandidate, Figures | str]:
    """Candidates drawn with a seed and what the planner says of each by itself: figures, or why it is refused."""
    drawn = random.Random(seed).sample(list(space.candidates()), count)  # noqa: S311 - not for secrets
    drawn.sort(key=lambda each: (each.remat.replace("full", "none"), each.micro_batches, each.mesh))  # those of one traced network together
    found: dict[PlanCandidate, Figures | str] = {}
    for candidate in drawn:
        try:
            found[candidate] = evaluate_plan(candidate_plan(space, candidate))
        except WorkbenchError as error:
            found[candidate] = error.message
    return found


def record_sample(hardware: str, count: int = SAMPLE, seed: int = SEED) -> dict[str, Any]:
    """Plan a sample, set the search's bounds beside it, and give both as what is stored."""
    space = space_on(hardware)
    begin = time.perf_counter()
    found = plan_sample(space, count, seed)
    seconds = time.perf_counter() - begin
    legal = {candidate: each for candidate, each in found.items() if isinstance(each, Figures)}
    bounds = list(compare_bounds(hardware, Evaluator(space), legal))
    tightest = max(bounds, key=lambda each: each.ratio)
    return {
        "combinations": space.size,
        "seed": seed,
        "planned": count,
        "refused": count - len(legal),
        "seconds_each": round(seconds / count, 3),
        "bounds": len(bounds),
        "violations": sum(each.ratio > 1 + ROUNDING for each in bounds),
        "worst_bound": round(tightest.ratio, 6),
        "worst": f"{tightest.kind}, {tightest.figure}, {tightest.candidate}",
        "figures": [[str(candidate), each.seconds, int(each.memory)] for candidate, each in legal.items()],
    }


def compare_with_sample(best_seconds: float | None, memory: float, figures: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """How many of the stored plans that fit are faster than the best of a search; the fastest of them, as a share of it."""
    fitting = [seconds for _, seconds, held in figures if held <= memory]
    if best_seconds is None or not fitting:
        return {"sample_faster": None, "sample_fastest": None}
    return {
        "sample_faster": sum(seconds < best_seconds * (1 - ROUNDING) for seconds in fitting),
        "sample_fastest": round(min(fitting) / best_seconds, 4),
    }


def gpt3(within: float = 240.0, hardware: Sequence[str] = HARDWARE) -> dict[str, Any]:
    """The searches on each hardware, beside the stored samples; `KEYS` once more, of the first."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found = {}
    for each in hardware:
        search = search_gpt3(each, within)
        sample = stored.get(each)
        best = search.states[-1].best
        beside = compare_with_sample(best and best[1].seconds, memory_of(search.space), sample["figures"]) if sample else {}
        kept = {name: sample.get(name) for name in ("commit", "planned", "violations", "worst_bound")} if sample else {}
        found[each] = {**search.figures, **beside, **{f"sample_{name}": value for name, value in kept.items()}}
        print(f"{each}: {found[each]}", flush=True)
    return {**{key: found[hardware[0]][key] for key in KEYS}, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="plan the sample anew and store it")
    parser.add_argument("--within", type=float, default=240.0, help="seconds of a search at most")
    parser.add_argument("--sample", type=int, default=SAMPLE)
    options = parser.parse_args()
    if options.record:
        for hardware in HARDWARE:
            stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            RESULTS.write_text(json.dumps({**stored, hardware: record_sample(hardware, options.sample)}, indent=1) + "\n")
    print(json.dumps(gpt3(options.within)))


if __name__ == "__main__":
    main()
