"""Why the best plan is the best: whether ledgers add up, and whether counterfactuals are what the planner says.

`ledger_error` is the largest difference between the sum of a ledger's lines and the difference of the two plans, each planned anew without
the search, as a share of that difference: seconds and bytes. Ledgers lead from every plan of the front, and from plans drawn at random, to
the best. `counterfactuals_off` counts those whose figures are not exactly those of their plan, planned anew.
"""

import random
from collections.abc import Iterator
from typing import Any

from benchmarks.search_small import CASES, SmallCase
from workbench.errors import WorkbenchError
from workbench.search.candidate_plans import candidate_plan
from workbench.search.candidates import PlanCandidate
from workbench.search.explain import make_ledger
from workbench.search.figures import Figures, evaluate_plan
from workbench.search.find_plans import find_plans
from workbench.search.neighbours import is_of_space
from workbench.search.search_result import SearchResult

RANDOM_STARTS = 12
WITHIN = 600.0


def why(cases: tuple[SmallCase, ...]) -> dict[str, Any]:
    """The ledgers and counterfactuals of the searches of these cases."""
    errors: list[float] = []
    planned, off, refused = 0, 0, 0
    for case in cases:
        result = find_plans(case.plan, within=WITHIN, **case.choices)
        errors += [error for start in _list_starts(str(case), result) for error in _ledger_errors(result, start)]
        for each in result.what_if():
            refused += each.figures is None
            planned += each.figures is not None
            off += each.figures is not None and each.figures != _plan_anew(result, each.candidate)
    return {
        "ledgers": len(errors) // 2,
        "ledger_error": round(max(errors, default=0.0), 6),
        "counterfactuals": planned,
        "counterfactuals_off": off,
        "counterfactuals_refused": refused,
    }


def _list_starts(name: str, result: SearchResult) -> Iterator[PlanCandidate]:
    """The front's plans but the best, and legal plans drawn by the seed of the name."""
    best = result.front[0][0]
    yield from (candidate for candidate, _ in result.front if candidate != best)
    rng = random.Random(name)  # noqa: S311 - not for secrets
    candidates = [each for each in result.space.candidates() if each != best and is_of_space(result.space, each)]
    yield from rng.sample(candidates, min(RANDOM_STARTS, len(candidates)))


def _ledger_errors(result: SearchResult, start: PlanCandidate) -> Iterator[float]:
    end = result.front[0][0]
    try:
        before, after = _plan_anew(result, start), _plan_anew(result, end)
    except WorkbenchError:
        return
    ledger = make_ledger(result.evaluator, start, end)
    for figure in ("seconds", "memory"):
        whole = getattr(after, figure) - getattr(before, figure)
        lines = sum(getattr(line, figure) for line in ledger.lines)
        yield abs(lines - whole) / (abs(whole) or getattr(after, figure))


def _plan_anew(result: SearchResult, candidate: PlanCandidate) -> Figures:
    return evaluate_plan(candidate_plan(result.space, candidate))


def why_cases(*, quick: bool) -> tuple[SmallCase, ...]:
    """The small cases whose searches have something to explain: an optimiser, stages, or several layouts."""
    return tuple(case for case in CASES if case.program != "two_layer" and (case.quick or not quick))
