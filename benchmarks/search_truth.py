"""What searches find, beside compilers and clocks.

- `compile_fronts`: searches for slices of TPUs, freely, with pins, and with limits on memory that bind: of some the chip's own, of others a
  share of the way from the least that any plan of the front takes to what the fastest takes. The fastest three plans of each front are
  compiled: `compiled` is the share that the compiler did not refuse and that fits the chip, `peak_error` how far their planned peaks are
  from the compiled ones on average, `within_8` the share of them within 8 %, `over_limit` counts those above the limit of their search.
- `time_plans`: plans of a few spaces, on eight virtual CPU devices as `workbench calibrate` has just measured them: the fastest, and others
  spread evenly over the order of predicted times. Each runs in turn with all others, `ROUNDS` times, and its time is the median of these
  runs' medians. `ordered` is the share of those `pairs` whose predicted times differ by more than 5 % that ran in the predicted order;
  `ordered_clear` the same of the pairs whose runs do not overlap, the others being as noise had it; `died` counts runs that
  were aborted, or took longer than `MOST_SECONDS`.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.search_small import SmallCase, enumerate_plainly
from workbench.analysis.verify_plan import Compilers
from workbench.engine import compile_plan, partition_plan
from workbench.engine.worker.submit_jobs import run_plan
from workbench.errors import EngineError
from workbench.hardware.catalogue import HARDWARE_FILE_VARIABLE, parse_hardware
from workbench.public_plan import Plan
from workbench.reports.verified_plan import VerifiedPlan
from workbench.search.candidate_plans import candidate_plan
from workbench.search.find_plans import find_plans
from workbench.search.make_space import make_space
from workbench.search.search_result import SearchResult

TOP, WITHIN = 3, 120.0
NEAR, APART = 0.08, 0.05
PLANS, ROUNDS, STEPS = 6, 3, 10
MOST_SECONDS = 60.0
CPUS = "8 Virtual CPU"


@dataclass(frozen=True)
class TruthCase:
    """A search whose plans are compiled: what is pinned, and which share of the memory from the leanest to the fastest plan it may take.

    **Invariants**

    - `share` is from 0 to 1; `None` leaves the chip's own memory as the limit.
    """

    small: SmallCase
    pins: Mapping[str, Any] = field(default_factory=dict)
    share: float | None = None

    def search(self) -> SearchResult:
        """Search it; where it has a share, once without for the limit, and again with it."""
        wanted = {"within": WITHIN, "pins": self.pins, "compilers": Compilers(partition_plan, compile_plan), **self.small.choices}
        found = find_plans(self.small.plan, **wanted)
        if self.share is None or not found.front:
            return found
        bytes_ = [each.memory for _, each in found.front]
        limit = min(bytes_) + self.share * (bytes_[0] - min(bytes_))
        return find_plans(self.small.plan, at_most={"memory": limit}, again=found, **wanted)

    def __str__(self) -> str:
        pinned = "".join(f", {name}={value}" for name, value in self.pins.items())
        return f"{self.small}{pinned}" + ("" if self.share is None else f", memory at {self.share:.0%}")


_LEAN = {"remats": ("none", "full"), "zeros": ("no ZeRO", "zero_1"), "most_examples": 2}
_RECIPES = {"layouts": ("replicated", "megatron")}
_TWO_AXES = {"axes": ("data", "model")}
_TOP2 = (("preset", "tiny-top2"),)
_GPT2 = (("preset", "gpt2-small"), ("layers", 4))
_LLAMA = (("preset", "llama2-7b"), ("fused", ""), ("layers", 4), ("d_ff", 8192), ("seq", 2048))
SEARCHES = (
    TruthCase(SmallCase("two_layer", "TPU v5e 2x2", quick=True)),
    TruthCase(SmallCase("mnist", "TPU v6e 2x2", {"most_examples": 25})),
    TruthCase(SmallCase("mnist", "TPU v5e 2x2", {"most_examples": 25}), {"stage": 2}),
    TruthCase(SmallCase("graph_network", "TPU v5e 2x4", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "interleaved")}, quick=True)),
    TruthCase(SmallCase("graph_network", "TPU v5p 2x2x2", {**_TWO_AXES}), share=0.5),
    TruthCase(SmallCase("gpt", "TPU v5e 2x4", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "interleaved")}, quick=True)),
    TruthCase(SmallCase("gpt", "TPU v4 2x2x2", _TWO_AXES, (("preset", "tiny"), ("batch", 32))), share=0.5),
    TruthCase(
        SmallCase("gpt", "TPU v6e 2x4", {**_TWO_AXES, "layouts": ("megatron", "heads + d_ff", "d_model")}, (("preset", "tiny-wide"),))
    ),
    TruthCase(SmallCase("gpt", "TPU v5e 2x2", {**_TWO_AXES, **_RECIPES}, (*_GPT2, ("batch", 288)))),
    TruthCase(
        SmallCase("gpt", "TPU v5e 2x4", {**_LEAN, **_RECIPES, "schedules": ("1f1b",), "most_examples": 64}, (*_GPT2, ("batch", 512))),
        {"stage": 2, "micro_batches": 8},
    ),
    TruthCase(SmallCase("decoder", "TPU v5e 2x2", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "v_half")})),
    TruthCase(SmallCase("decoder", "TPU v6e 2x2", {**_TWO_AXES, **_RECIPES}, (*_LLAMA, ("batch", 32)))),
    TruthCase(SmallCase("mixture", "TPU v5e 2x2", {**_LEAN, **_RECIPES, "schedules": ("1f1b",)}, _TOP2)),
    TruthCase(SmallCase("mixture", "TPU v5p 2x2x2", {"axes": ("data", "model", "expert"), "remats": ("none",)}, _TOP2), share=0.3),
    TruthCase(SmallCase("t5", "TPU v5e 2x2", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "zero_bubble")}), {"stage": 2, "zero": "zero_1"}),
    TruthCase(SmallCase("t5", "TPU v4 2x2x1", {**_TWO_AXES, **_RECIPES}), share=0.5),
    TruthCase(SmallCase("conformer", "TPU v5e 2x4", {**_TWO_AXES, "layouts": ("replicated", "megatron", "spatial")}), {"zero": "zero_3"}),
    TruthCase(SmallCase("conformer", "TPU v6e 2x2", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "zb_v")})),
    TruthCase(SmallCase("unet", "TPU v5e 2x4", {**_TWO_AXES, "layouts": ("replicated", "spatial", "channels")})),
    TruthCase(SmallCase("unet", "TPU v5p 2x2x1", {**_LEAN, "layouts": ("replicated", "channels"), "schedules": ("1f1b",)}), share=0.5),
)


@dataclass(frozen=True)
class CompiledPlan:
    """A plan of a front as it was compiled; bytes of the chip, and the search's own limit."""

    case: str
    verified: VerifiedPlan
    chip: float
    limit: float

    @property
    def is_compiled(self) -> bool:
        return self.verified.peak is not None and self.verified.peak <= self.chip

    @property
    def is_miss(self) -> bool:
        return not self.is_compiled or abs(self.verified.memory_error or 0.0) > NEAR

    def __str__(self) -> str:
        peak, planned = self.verified.peak, self.verified.planned.memory
        compiled = f"{peak:,} compiled, {self.verified.memory_error:+.1%}" if peak else f"REFUSED: {self.verified.refusal.splitlines()[0]}"
        return f"{self.case}: {self.verified.title}: {planned:,.0f} bytes planned, {compiled}"


def compile_front(case: TruthCase) -> Iterator[CompiledPlan]:
    """The fastest plans of a search, compiled, each printed."""
    result = case.search()
    limit = next(each.limit for each in result.requirements if getattr(each, "figure", "") == "memory")
    for each in result.verify(TOP):
        found = CompiledPlan(str(case), each, parse_hardware(case.small.hardware).chip.memory, limit)
        print(found, flush=True)
        yield found


def compile_fronts(cases: Iterable[TruthCase]) -> dict[str, Any]:
    """All searches' plans; the five that are furthest off are printed last."""
    fronts = [[*compile_front(each)] for each in cases]
    plans = [each for front in fronts for each in front]
    errors = {each: abs(each.verified.memory_error) for each in plans if each.verified.memory_error is not None}
    for each in sorted(errors, key=errors.__getitem__, reverse=True)[:5]:
        print(f"worst: {each}", flush=True)
    return {
        "searches": len(fronts),
        "plans": len(plans),
        "compiled": _share(each.is_compiled for each in plans),
        "peak_error": round(sum(errors.values()) / len(errors), 4) if errors else None,
        "within_8": _share(each <= NEAR for each in errors.values()),
        "over_limit": sum(each.verified.peak > each.limit for each in errors),
        "misses": [str(each) for each in plans if each.is_miss],
    }


TIMED = (
    SmallCase("mnist", CPUS, {"most_examples": 100, "schedules": ("1f1b",)}, (("batch", 800),), quick=True),
    SmallCase("gpt", CPUS, {**_LEAN, **_RECIPES, "schedules": ("1f1b",)}, (("preset", "tiny"), ("batch", 16))),
    SmallCase("graph_network", CPUS, _TWO_AXES),
    SmallCase("decoder", CPUS, {**_TWO_AXES, **_RECIPES}),
    SmallCase("conformer", CPUS, {**_TWO_AXES, "layouts": ("replicated", "megatron", "spatial")}),
)


@dataclass(frozen=True)
class TimedPlan:
    """A plan that ran: seconds of a step as the search has them, the median of each run, and how many runs died."""

    candidate: str
    predicted: float
    runs: tuple[float, ...]
    died: int = 0

    @property
    def measured(self) -> float:
        return median(self.runs)


def describe_cpus() -> None:
    """Measure eight virtual CPU devices, as a user does, and name them `CPUS` for this process."""
    command = [sys.executable, "-m", "workbench.cli", "calibrate", "--devices", "8", "--name", CPUS.removeprefix("8 ")]
    entry = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    file = Path(tempfile.mkdtemp()) / "hardware.toml"
    file.write_text(entry)
    os.environ[HARDWARE_FILE_VARIABLE] = str(file)


def time_case(case: SmallCase) -> tuple[TimedPlan, ...]:
    """The fastest plan of a space and others, each run in turn with the others."""
    space = make_space(case.plan, **case.choices)
    known = sorted(enumerate_plainly(space).items(), key=lambda each: each[1].seconds)
    chosen = [known[number * (len(known) - 1) // (PLANS - 1)] for number in range(PLANS)]
    plans = [candidate_plan(space, candidate) for candidate, _ in chosen]
    rounds = [[_time_run(plan) for plan in plans] for _ in range(ROUNDS)]
    return tuple(
        TimedPlan(str(candidate), figures.seconds, tuple(each for each in runs if each is not None), runs.count(None))
        for (candidate, figures), runs in zip(chosen, zip(*rounds, strict=True), strict=True)
    )


def _time_run(plan: Plan) -> float | None:
    """Median seconds of a step; `None`, with the reason printed, where the run died or took too long."""
    try:
        return run_plan(plan, steps=STEPS, profile=False, time_limit=MOST_SECONDS).median_seconds
    except EngineError as error:
        print(f"{plan.program.name}, {plan.mesh}: {error.message}", flush=True)
        return None


def compare_pairs(plans: Sequence[TimedPlan]) -> Iterator[tuple[bool, bool]]:
    """Of each pair whose predicted times differ: whether it ran in the predicted order, and whether its runs do not overlap."""
    ran = [each for each in plans if each.runs]
    for first, second in combinations(sorted(ran, key=lambda each: each.predicted), 2):
        if second.predicted > first.predicted * (1 + APART):
            is_clear = max(first.runs) < min(second.runs) or max(second.runs) < min(first.runs)
            yield first.measured < second.measured, is_clear


def time_plans(cases: Iterable[SmallCase]) -> dict[str, Any]:
    """All spaces' pairs; each plan is printed beside its runs."""
    describe_cpus()
    timed = {}
    for case in cases:
        timed[str(case)] = time_case(case)
        for each in timed[str(case)]:
            runs = " ".join(f"{seconds * 1e3:.2f}" for seconds in each.runs)
            print(f"{case}: {each.candidate}: {each.predicted * 1e3:.2f} ms predicted, {runs} ms measured, {each.died} died", flush=True)
    return count_pairs(timed)


def count_pairs(timed: Mapping[str, Sequence[TimedPlan]]) -> dict[str, Any]:
    """The pairs of all spaces, and of each: how many there are, and how many ran in the predicted order."""
    found = {case: [*compare_pairs(plans)] for case, plans in timed.items()}
    pairs = [pair for each in found.values() for pair in each]
    clear = [is_ordered for is_ordered, is_clear in pairs if is_clear]
    return {
        "pairs": len(pairs),
        "ordered": _share(is_ordered for is_ordered, _ in pairs),
        "clear_pairs": len(clear),
        "ordered_clear": _share(clear),
        "ordered_by_space": {case: [len(each), sum(is_ordered for is_ordered, _ in each)] for case, each in found.items()},
        "died": sum(each.died for plans in timed.values() for each in plans),
    }


def _share(right: Iterable[bool]) -> float | None:
    """The share of those that are right; `None` of none."""
    found = [*right]
    return round(sum(found) / len(found), 3) if found else None


def truth(*, quick: bool) -> dict[str, Any]:
    """Both halves; with `quick` the searches and the space that take the least."""
    compiled = compile_fronts([each for each in SEARCHES if each.small.quick or not quick])
    return {**compiled, **time_plans([each for each in TIMED if each.quick or not quick])}
