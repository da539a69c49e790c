"""Searches of small spaces against every plan of them, planned one by one without anything of the search.

Each of `CASES` is searched twice: freely, and with two decisions pinned (by the seed of the case's name, to what some legal plan has; every
second time with a limit on memory besides). `optima` counts the searches that proved a plan as fast as the fastest, `hypervolume` is the
least share of the true front's area of seconds and bytes that a found front covers, up to a point a tenth worse than all of the true front.

Every bound that a search goes by is set beside the truth: of every kind of question (`tests/support/search_bounds.py`), and of the whole
space in each state. `violations` counts those above it, by more than rounding.
"""

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.search_programs import program_of
from tests.support.search_bounds import list_bounds
from workbench.errors import WorkbenchError
from workbench.public_plan import Plan
from workbench.search.candidate_plans import candidate_plan
from workbench.search.evaluator import Evaluator
from workbench.search.find_plans import find_plans
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import PINNED, Pin, Requirement, allows_candidate, allows_figures
from workbench.search.search_figures import Figures, evaluate_plan, hypervolume
from workbench.search.search_result import SearchResult
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState

ROUNDING = 1e-9
WITHIN = 3600.0


@dataclass(frozen=True)
class SmallCase:
    """A space that can be enumerated: a program, hardware, and what may be chosen."""

    program: str
    hardware: str
    choices: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[tuple[str, Any], ...] = ()
    quick: bool = False

    @property
    def plan(self) -> Plan:
        return Plan(program_of(self.program, self.arguments), "", hardware=self.hardware)

    def __str__(self) -> str:
        given = "".join(f" {name}={value}" for name, value in self.arguments)
        return f"{self.program}{given} on {self.hardware}"


_TWO_AXES = {"axes": ("data", "model")}
_FEW = {"remats": ("none", "full"), "zeros": ("no ZeRO", "zero_1"), "most_examples": 2}
_LEAN = {"remats": ("none",), "zeros": ("no ZeRO", "zero_1")}
_RECIPES = {"layouts": ("replicated", "megatron")}
_WIDE = (("preset", "tiny-wide"),)
_TOP2 = (("preset", "tiny-top2"),)
CASES = (
    SmallCase("two_layer", "TPU v5e 2x2", quick=True),
    SmallCase("two_layer", "4 nodes of 8 H100"),
    SmallCase("mnist", "TPU v5e 2x2", quick=True),
    SmallCase("mnist", "8 A100, eager", {"most_examples": 100}),
    SmallCase("mnist", "8 H100", {"schedules": ("gpipe", "zero_bubble"), "most_examples": 50}),
    SmallCase("graph_network", "TPU v5e 2x4", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "interleaved"), "most_examples": 4}, quick=True),
    SmallCase("graph_network", "8 H100", {**_FEW, "layouts": ("replicated", "width"), "schedules": ("1f1b", "zb_v")}),
    SmallCase("graph_network", "TPU v5p 2x2x4", {**_TWO_AXES, "zeros": ("no ZeRO", "zero_1", "zero_3")}),
    SmallCase("gpt", "TPU v5e 2x4", {**_FEW, **_RECIPES, "schedules": ("1f1b", "interleaved")}, quick=True),
    SmallCase("gpt", "TPU v5e 2x4", {"layouts": ("replicated", "megatron", "megatron + sequence"), **_TWO_AXES}),
    SmallCase("gpt", "8 H100", {**_FEW, **_RECIPES, "schedules": ("gpipe", "zero_bubble", "zb_v", "v_half")}),
    SmallCase("gpt", "2 nodes of 8 A100", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "breadth_first"), "most_examples": 4}),
    SmallCase("gpt", "TPU v5p 4x4x4", {"layouts": ("megatron", "megatron + sequence"), "schedules": ("1f1b", "zero_bubble"), **_LEAN}),
    SmallCase("gpt", "8 nodes of 8 H100", {**_TWO_AXES, "remats": ("none", "selective")}),
    SmallCase("gpt", "TPU v5e 4x4", {**_TWO_AXES, "remats": ("none", "full"), "layouts": ("megatron", "heads + d_ff", "d_model")}, _WIDE),
    SmallCase("gpt", "TPU v4 2x2x2", {**_TWO_AXES, **_LEAN}, (("preset", "tiny"), ("batch", 32))),
    SmallCase("gpt", "4 A100", {**_LEAN, "layouts": ("replicated", "heads"), "schedules": ("circular", "eager_1f1b"), "most_examples": 8}),
    SmallCase("gpt", "8 H100", {"layouts": ("replicated", "megatron", "context parallel"), "axes": ("data", "model", "context"), **_LEAN}),
    SmallCase("decoder", "TPU v5e 2x2", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "v_half"), "most_examples": 2}),
    SmallCase("mixture", "8 H100", {**_LEAN, "axes": ("data", "model", "expert")}, _TOP2),
    SmallCase("mixture", "TPU v5e 2x2", {**_LEAN, **_RECIPES, "schedules": ("1f1b",), "most_examples": 2}, _TOP2),
    SmallCase("t5", "8 H100", {**_TWO_AXES, **_RECIPES, "remats": ("none", "full")}),
    SmallCase("t5", "TPU v5e 2x2", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "zero_bubble"), "most_examples": 2}),
    SmallCase("conformer", "TPU v5e 2x4", {**_TWO_AXES, "layouts": ("replicated", "megatron", "spatial"), "remats": ("none", "selective")}),
    SmallCase("conformer", "8 A100", {**_LEAN, **_RECIPES, "schedules": ("1f1b", "zb_v"), "most_examples": 2}),
    SmallCase("unet", "TPU v5e 2x4", {**_TWO_AXES, **_LEAN, "layouts": ("replicated", "spatial", "channels")}),
    SmallCase("unet", "4 A100", {**_LEAN, "layouts": ("replicated", "channels"), "schedules": ("1f1b",), "most_examples": 2}),
)


@dataclass(frozen=True)
class Bound:
    """A bound that a search went by, beside the truth: the share of it that the bound reaches."""

    case: str
    kind: str
    figure: str
    ratio: float
    candidate: str = ""

    @property
    def is_violated(self) -> bool:
        return self.ratio > 1 + ROUNDING


@dataclass(frozen=True)
class SmallAnswer:
    """What a search of a case found, beside the truth."""

    case: str
    candidates: int
    legal: int
    is_optimal: bool
    hypervolume: float
    bounds: tuple[Bound, ...]
    evaluated: int
    seconds: float

    @property
    def violations(self) -> tuple[Bound, ...]:
        return tuple(each for each in self.bounds if each.is_violated)


def enumerate_plainly(space: SearchSpace) -> dict[PlanCandidate, Figures]:
    """Each legal candidate's figures, from the planner."""
    found = {}
    for candidate in space.candidates():
        try:
            found[candidate] = evaluate_plan(candidate_plan(space, candidate))
        except WorkbenchError:
            continue
    return found


def compare_bounds(name: str, evaluator: Evaluator, truth: Mapping[PlanCandidate, Figures]) -> Iterator[Bound]:
    """All bounds of the candidates beside their figures."""
    for candidate, figures in truth.items():
        for kind, bounds in list_bounds(evaluator, candidate):
            for figure in ("seconds", "memory"):
                reached = getattr(bounds, figure) / getattr(figures, figure) if getattr(figures, figure) else 0.0
                yield Bound(name, kind, figure, float(reached), str(candidate))


def search_case(case: SmallCase) -> tuple[SmallAnswer, SmallAnswer]:
    """The case freely and with pins, beside its truth."""
    free, states = _search(case)
    truth = enumerate_plainly(free.space)
    bounds = tuple(compare_bounds(str(case), free.evaluator, truth))
    pins, limits = draw_pins(str(case), free.space, truth)
    pinned, pinned_states = _search(case, pins=pins, at_most=limits, again=free)
    shown = ", ".join(map(str, pinned.requirements[1:]))
    return _judge(str(case), free, states, truth, bounds), _judge(f"{case}: {shown}", pinned, pinned_states, truth, ())


def _search(case: SmallCase, **wanted: Any) -> tuple[SearchResult, list[SearchState]]:
    states: list[SearchState] = []
    return find_plans(case.plan, within=WITHIN, on_progress=states.append, **wanted, **case.choices), states


def draw_pins(name: str, space: SearchSpace, truth: Mapping[PlanCandidate, Figures]) -> tuple[dict[str, Any], dict[str, float]]:
    """Two decisions of a legal candidate, and now and then its memory as a limit."""
    rng = random.Random(name)  # noqa: S311 - not for secrets
    candidate = rng.choice(list(truth))
    names = rng.sample([*(each for each in PINNED if each != "hardware"), *space.axes], 2)
    pins = {each: Pin(each, ()).value_of(candidate) for each in names}
    return pins, {"memory": truth[candidate].memory} if rng.random() < 0.5 else {}


def _judge(
    name: str,
    result: SearchResult,
    states: Sequence[SearchState],
    truth: Mapping[PlanCandidate, Figures],
    bounds: tuple[Bound, ...],
) -> SmallAnswer:
    kept = [each for candidate, each in truth.items() if _keeps(result.requirements, candidate, each)]
    least = min((each.seconds for each in kept), default=None)
    best = result.state.best
    is_optimal = best[1].seconds == least and result.state.is_proved if best and least is not None else best is None and least is None
    stated = tuple(Bound(name, "space", "seconds", float(each.least / least)) for each in states) if least else ()
    area = _covered([each for _, each in result.front], kept)
    return SmallAnswer(
        name, result.space.size, len(truth), is_optimal, area, (*bounds, *stated), result.state.evaluated, result.state.elapsed
    )


def _keeps(requirements: Sequence[Requirement], candidate: PlanCandidate, figures: Figures) -> bool:
    return allows_candidate(requirements, candidate) and allows_figures(requirements, figures)


def _covered(found: Sequence[Figures], truth: Sequence[Figures]) -> float:
    """The found front's share of the true one's area; 1 where there is nothing to find."""
    front = [each for each in truth if not any(_is_better(other, each) for other in truth)]
    if not front:
        return 1.0
    reference = 1.1 * max(each.seconds for each in front), 1.1 * max(each.memory for each in front)
    return hypervolume(found, reference) / hypervolume(front, reference)


def _is_better(one: Figures, other: Figures) -> bool:
    return one != other and one.seconds <= other.seconds and one.memory <= other.memory


def small(cases: Iterable[SmallCase] = CASES) -> dict[str, Any]:
    """Every case, printed as it is done, and the figures of all together."""
    answers = [answer for case in cases for answer in _search_and_print(case)]
    bounds = [each for answer in answers for each in answer.bounds]
    tightest = max(bounds, key=lambda each: each.ratio)
    return {
        "cases": len(answers),
        "optima": sum(each.is_optimal for each in answers),
        "hypervolume": round(min(each.hypervolume for each in answers), 4),
        "bounds": len(bounds),
        "violations": sum(each.is_violated for each in bounds),
        "worst_bound": round(tightest.ratio, 6),
        "worst_case": f"{tightest.case}: {tightest.kind}, {tightest.figure}, {tightest.candidate}",
        "candidates": sum(each.candidates for each in answers),
    }


def _search_and_print(case: SmallCase) -> tuple[SmallAnswer, SmallAnswer]:
    begin = time.perf_counter()
    answers = search_case(case)
    for each in answers:
        flaw = max(each.violations, key=lambda bound: bound.ratio, default=None)
        above = (
            f"  {len(each.violations)} bounds above the truth: {flaw.kind} {flaw.figure} {flaw.ratio:.4f} {flaw.candidate}" if flaw else ""
        )
        print(
            f"{each.case:70} {each.candidates:6,} plans, {each.legal:5,} legal, {each.evaluated:4} evaluated in {each.seconds:6.1f} s  "
            f"{'optimal' if each.is_optimal else 'NOT OPTIMAL'}  hypervolume {each.hypervolume:.4f}{above}",
            flush=True,
        )
    print(f"{'':70} {time.perf_counter() - begin:.1f} s in all", flush=True)
    return answers


def quick_cases() -> tuple[SmallCase, ...]:
    return tuple(case for case in CASES if case.quick)
