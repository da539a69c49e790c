"""The search loop: states with a growing front and a closing gap, from the present plan to the proof."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import log2

from workbench.errors import SearchError, unknown_name
from workbench.search.best_first import BestFirst
from workbench.search.evaluator import Evaluator, never
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import FIGURES, Requirement, allows_candidate
from workbench.search.search_figures import Figures
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import CANCELLED, EVALUATED, FINISHED, OUT_OF_TIME, SearchState
from workbench.search.traced_programs import ACTIVATIONS_ON_HOST
from workbench.search.worker_questions import Answerer, InProcess

UNTIL = ("complete", "proved")
"""Ends of a search: the front is complete, or the best plan is proved."""
STARTS = 3
"""Number of best first plans from which descents start."""


def run_search(
    space: SearchSpace,
    requirements: Sequence[Requirement] = (),
    *,
    objective: str = "seconds",
    within: float = 60.0,
    most_evaluations: int | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    answerer: Answerer | None = None,
    evaluator: Evaluator | None = None,
    present: PlanCandidate | None = None,
    until: str = "complete",
    clock: Callable[[], float] = time.perf_counter,
    begin: float | None = None,
    found: dict[PlanCandidate, Figures] | None = None,
) -> Iterator[SearchState]:
    """Search for the plans with the least `objective` (of `FIGURES`), and yield the state after every answer.

    Ends when the whole front is proved (with `until="proved"`: the best plan), `within` seconds after `begin` (a time of
    `clock`; default: this call), after `most_evaluations`, or when cancelled; the last state has the result and its
    `ending`. The order of nodes does not depend on the number of workers (`best_first`). `evaluator` keeps the results of
    an earlier search of the same space; the `present` plan is planned first. All plans are added to `found`.

    Raises `SearchError` for an unknown `objective` or `until`.
    """
    if objective not in FIGURES:
        raise SearchError(*unknown_name("objective", objective, FIGURES))
    if until not in UNTIL:
        raise SearchError(*unknown_name("end of a search", until, UNTIL))
    start = clock() if begin is None else begin
    planner = evaluator or Evaluator(space)
    workers = answerer or InProcess(planner)
    search = BestFirst(space, requirements, objective, planner, found={} if found is None else found)

    def ending(state: SearchState) -> str:
        if is_cancelled():
            return CANCELLED
        if state.elapsed >= within:
            return OUT_OF_TIME
        return EVALUATED if most_evaluations is not None and state.evaluated >= most_evaluations else ""

    planner.is_cancelled = lambda: is_cancelled() or clock() - start >= within
    first = list_first_candidates(space, requirements, present)
    try:
        for state in _list_states(search, workers, first, lambda: clock() - start, until):
            yield state
            if end := ending(state):
                yield replace(state, ending=end)
                return
    finally:
        planner.is_cancelled = never


def _list_states(
    search: BestFirst, who: Answerer, first: Sequence[PlanCandidate], elapsed: Callable[[], float], until: str
) -> Iterator[SearchState]:
    """States after every answer: of first candidates, recipes, a descent, then the proof."""
    for candidate in filter(search.may_fit, first):
        search.evaluate_now(candidate, who)
        yield search.state(elapsed())
        if search.front.entries:
            break
    for candidate in filter(search.may_win, list_recipes(search.space, search.requirements)):
        search.evaluate_now(candidate, who)
        yield search.state(elapsed())
    search.descent.start_from_best(1)
    yield from _descend(search, who, elapsed)
    for _ in search.start():
        yield search.state(elapsed())
    search.descent.start_from_best(STARTS)
    state = search.state(elapsed())
    while state.open and not (until == "proved" and state.is_proved):
        yield state
        search.submit_questions(who)
        if search.asked:
            search.take_next()
        state = search.state(elapsed())
    yield replace(state, ending=FINISHED)


def _descend(search: BestFirst, who: Answerer, elapsed: Callable[[], float]) -> Iterator[SearchState]:
    """The descent from the best first plan, before any bounds; later descents alternate with bounds."""
    search.submit_questions(who)
    while search.asked:
        search.take_next()
        yield search.state(elapsed())
        search.submit_questions(who)


# The first candidates: the present plan, then plans that are likely to fit, so that the page shows one at once.

MOST_FIRST = 8
_USUAL = 8
"""Devices per sharded layer in most published runs: the size of a node."""
_LEAN = ("full", "full_3/4", "first_half", "full_1/2", ACTIVATIONS_ON_HOST, "selective", "first_quarter", "full_1/4", "as traced", "none")
_LEAN_FIRST = {name: number for number, name in enumerate(_LEAN)}


def list_first_candidates(
    space: SearchSpace, requirements: Sequence[Requirement], present: PlanCandidate | None = None
) -> tuple[PlanCandidate, ...]:
    """The `present` plan if pins allow it, then candidates with little memory, those without a pipeline first."""
    first = (present,) if present is not None and allows_candidate(requirements, present) else ()
    return (*first, *(candidate for candidate in islice(_iterate_first(space, requirements), MOST_FIRST) if candidate != present))


def list_recipes(space: SearchSpace, requirements: Sequence[Requirement]) -> tuple[PlanCandidate, ...]:
    """List a candidate with little memory for each recipe, on the most common mesh for it."""
    candidates: dict[str, PlanCandidate] = {}
    recipes = {layout.name for layout in space.layouts if layout.is_recipe}
    for core in sorted((core for core in space.cores() if core.layout in recipes), key=_first_order):
        if core.layout not in candidates and (first := _leanest(space, requirements, core)) is not None:
            candidates[core.layout] = first
    return tuple(candidates.values())


def _iterate_first(space: SearchSpace, requirements: Sequence[Requirement]) -> Iterator[PlanCandidate]:
    seen: set[tuple[object, ...]] = set()
    for core in sorted(space.cores(), key=_first_order):
        if core.mesh in seen:  # one candidate per mesh
            continue
        first = _leanest(space, requirements, core)
        if first is not None:
            seen.add(core.mesh)
            yield first


def _leanest(space: SearchSpace, requirements: Sequence[Requirement], core: PlanCandidate) -> PlanCandidate | None:
    """The candidate of a core with the most sharding that meets the pins."""
    candidates = (
        replace(candidate, zero=zero, boundaries=boundaries)
        for count in sorted(space.micro_batch_counts(core), reverse=core.size("stage") > 1)
        for candidate in space.schedules_of(core, count)[-1:]
        for zero in reversed(space.zeros_of(core))
        for boundaries in space.boundaries_of(candidate)
    )
    return next((candidate for candidate in candidates if allows_candidate(requirements, candidate)), None)


def _first_order(core: PlanCandidate) -> tuple[float, ...]:
    model = max((size for axis, size in core.mesh if axis not in ("data", "stage")), default=1)
    return (core.size("stage") > 1, abs(log2(model / _USUAL)) if model > 1 else _USUAL, core.size("stage"), _LEAN_FIRST.get(core.remat, 0))
