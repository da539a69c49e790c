"""Searches with requirements drawn at random: what is pinned stays, what is limited keeps its limit, and what clashes is named.

Each search draws up to three pins and up to two limits for one of a few small spaces, whose plans are all known beforehand from the planner
alone. Nothing on the front of any state may break a requirement (`broken`), and where a plan keeps them all one is found (`missed`). Where
none does, the clash must be one: its requirements cannot be kept together, any fewer of them can (`false_clashes`), and each relaxation,
put in the place of what it weakens, leaves a plan (`false_relaxations`).
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from benchmarks.search_small import SmallCase, enumerate_plainly
from workbench.search.candidates import PlanCandidate
from workbench.search.clashes import Clash, find_clash
from workbench.search.evaluator import Evaluator
from workbench.search.figures import Figures
from workbench.search.make_space import make_space
from workbench.search.requirements import PINNED, AtMost, Pin, Requirement, allows_candidate, allows_figures
from workbench.search.run_search import run_search
from workbench.search.search_space import SearchSpace

WITHIN = 600.0
_FEW = {"remats": ("none",), "zeros": ("no ZeRO", "zero_1"), "layouts": ("replicated", "megatron"), "most_examples": 2}
SPACES = (
    SmallCase("two_layer", "4 nodes of 8 H100"),
    SmallCase("mnist", "TPU v5e 2x2", {"most_examples": 25}),
    SmallCase("gpt", "TPU v5e 2x4", {**_FEW, "schedules": ("1f1b", "interleaved")}),
    SmallCase("graph_network", "8 H100", {**_FEW, "layouts": ("replicated", "width"), "schedules": ("1f1b",)}),
)


@dataclass(frozen=True)
class KnownSpace:
    """A space with all its plans' figures."""

    space: SearchSpace
    evaluator: Evaluator
    truth: Mapping[PlanCandidate, Figures]

    def is_feasible(self, requirements: Sequence[Requirement]) -> bool:
        """Whether a plan keeps all of these."""
        return any(keeps(requirements, candidate, figures) for candidate, figures in self.truth.items())


def keeps(requirements: Sequence[Requirement], candidate: PlanCandidate, figures: Figures) -> bool:
    """Whether a plan keeps all of these."""
    return allows_candidate(requirements, candidate) and allows_figures(requirements, figures)


@cache
def known_space(number: int) -> KnownSpace:
    """A space of `SPACES`, enumerated once."""
    case = SPACES[number]
    space = make_space(case.plan, **case.choices)
    return KnownSpace(space, Evaluator(space), enumerate_plainly(space))


def draw_requirements(known: KnownSpace, rng: random.Random) -> tuple[Requirement, ...]:
    """Pins to what the space has for a decision, limits that a part of the plans keeps; together they may leave nothing."""
    candidates = list(known.truth)
    names = rng.sample([*(each for each in PINNED if each != "hardware"), *known.space.axes], rng.randint(0, 3))
    pins = [Pin(name, tuple({Pin(name, ()).value_of(rng.choice(candidates)) for _ in range(rng.randint(1, 2))})) for name in names]
    figures = rng.sample(("memory", "seconds"), rng.randint(0 if pins else 1, 2))
    limits = [AtMost(name, float(getattr(rng.choice(list(known.truth.values())), name)) * rng.choice((1.0, 1.0, 0.7))) for name in figures]
    return (*limits, *pins)


def check_search(known: KnownSpace, requirements: Sequence[Requirement], objective: str) -> Iterator[str]:
    """What is wrong with a search for these requirements, by name; `feasible` or `infeasible` first."""
    feasible = known.is_feasible(requirements)
    yield "feasible" if feasible else "infeasible"
    state = None
    for state in run_search(known.space, requirements, objective=objective, within=WITHIN, evaluator=known.evaluator):
        yield from ("broken" for candidate, figures in state.front if not keeps(requirements, candidate, figures))
    best = min((getattr(each, objective) for c, each in known.truth.items() if keeps(requirements, c, each)), default=None)
    found = state.best if state else None
    if (found is None) != (best is None) or (found and getattr(found[1], objective) != best):
        yield "missed"
    if not feasible:
        clash = find_clash(known.space, requirements, within=WITHIN, evaluator=known.evaluator)
        yield from check_clash(known, requirements, clash)


def check_clash(known: KnownSpace, requirements: Sequence[Requirement], clash: Clash) -> Iterator[str]:
    """What is wrong with a clash."""
    fewer = [some for size in range(len(clash.requirements)) for some in combinations(clash.requirements, size)]
    is_smallest = not known.is_feasible(clash.requirements) and all(map(known.is_feasible, fewer))
    if not is_smallest or not clash.is_proved or not {*clash.requirements} <= {*requirements}:
        yield "false_clashes"
    for each in clash.relaxations:
        weaker = [each.weakened if other == each.requirement else other for other in requirements]
        yield "relaxations"
        if (
            not known.is_feasible(weaker)
            or known.truth.get(each.candidate) != each.figures
            or not keeps(weaker, each.candidate, each.figures)
        ):
            yield "false_relaxations"


_COUNTED = ("feasible", "infeasible", "broken", "missed", "false_clashes", "relaxations", "false_relaxations")


def pins(count: int, seed: int) -> dict[str, Any]:
    """So many searches with requirements drawn by a seed; the first that goes wrong is printed."""
    found: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(f"{seed} {number}")  # noqa: S311 - not for secrets
        known = known_space(rng.randrange(len(SPACES)))
        requirements, objective = draw_requirements(known, rng), rng.choice(("seconds", "seconds", "memory"))
        flaws = [*check_search(known, requirements, objective)]
        wrong = {*flaws} - {"feasible", "infeasible", "relaxations"}
        if wrong and not {*found} & wrong:
            print(f"{known.space.start.program.name}, least {objective}, {', '.join(map(str, requirements))}: {', '.join(sorted(wrong))}")
        found.update(flaws)
    return {"searches": count, **{name: found[name] for name in _COUNTED}, "seed": seed}
