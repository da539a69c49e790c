"""The search: a front that fills, from the present plan and a few that are likely to fit on; a gap that falls until it says proved."""

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
"""When a search is over: once the whole front is known, or once the best plan is proved."""
STARTS = 3
"""The best first plans that are descended from."""


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
    found: dict[PlanCandidate, Figures] | None = None,
) -> Iterator[SearchState]:
    """Search for the plans with the least `objective` (of `FIGURES`), and yield the state after every answer.

    It ends when the whole front is proved, or with `until="proved"` the best plan, after `within` seconds, after so many evaluations, or
    when it is cancelled; the last state has what was found until then, and its `ending`. Which nodes are opened does not depend on how many
    workers there are (`best_first`). `evaluator` remembers an earlier search of the same space; the `present` plan is planned
    first. All plans are put into `found`.
    """
    if objective not in FIGURES:
        raise SearchError(*unknown_name("objective", objective, FIGURES))
    if until not in UNTIL:
        raise SearchError(*unknown_name("end of a search", until, UNTIL))
    begin = clock()
    here = evaluator or Evaluator(space)
    who = answerer or InProcess(here)
    search = BestFirst(space, requirements, objective, here, found={} if found is None else found)

    def ending(state: SearchState) -> str:
        if is_cancelled():
            return CANCELLED
        if state.elapsed >= within:
            return OUT_OF_TIME
        return EVALUATED if most_evaluations is not None and state.evaluated >= most_evaluations else ""

    here.is_cancelled = lambda: is_cancelled() or clock() - begin >= within
    first = list_first_candidates(space, requirements, present)
    try:
        for state in _list_states(search, who, first, lambda: clock() - begin, until):
            yield state
            if end := ending(state):
                yield replace(state, ending=end)
                return
    finally:
        here.is_cancelled = never


def _list_states(
    search: BestFirst, who: Answerer, first: Sequence[PlanCandidate], elapsed: Callable[[], float], until: str
) -> Iterator[SearchState]:
    """A state after every answer; good plans come first: the first candidates, the recipes, a descent from the best of these."""
    for each in filter(search.may_fit, first):
        search.take_now(each, who)
        yield search.state(elapsed())
        if search.front.entries:
            break
    for each in filter(search.may_win, list_recipes(search.space, search.requirements)):
        search.take_now(each, who)
        yield search.state(elapsed())
    search.descent.start_from_best(1)
    yield from _descend(search, who, elapsed)
    for _ in search.start():
        yield search.state(elapsed())
    search.descent.start_from_best(STARTS)
    state = search.state(elapsed())
    while state.open and not (until == "proved" and state.is_proved):
        yield state
        search.ask_ahead(who)
        if search.asked:
            search.take_next()
        state = search.state(elapsed())
    yield replace(state, ending=FINISHED)


def _descend(search: BestFirst, who: Answerer, elapsed: Callable[[], float]) -> Iterator[SearchState]:
    """The descent from the best first plan, before anything is bounded; those from others go on beside the bounds."""
    search.ask_ahead(who)
    while search.asked:
        search.take_next()
        yield search.state(elapsed())
        search.ask_ahead(who)


# The first candidates: the present plan, then plans that are likely to fit, so that one stands in the picture at once.

MOST_FIRST = 8
_USUAL = 8
"""Devices that a layer is split over in most published runs: those of a node."""
_LEAN = ("full", "full_3/4", "first_half", "full_1/2", ACTIVATIONS_ON_HOST, "selective", "first_quarter", "full_1/4", "as traced", "none")
_LEAN_FIRST = {name: number for number, name in enumerate(_LEAN)}


def list_first_candidates(
    space: SearchSpace, requirements: Sequence[Requirement], present: PlanCandidate | None = None
) -> tuple[PlanCandidate, ...]:
    """The `present` plan if the pins allow it, then a few candidates that hold little memory: one program before pipelines, as much shared
    and recomputed as the space allows."""
    first = (present,) if present is not None and allows_candidate(requirements, present) else ()
    return (*first, *(each for each in islice(_iterate_first(space, requirements), MOST_FIRST) if each != present))


def list_recipes(space: SearchSpace, requirements: Sequence[Requirement]) -> tuple[PlanCandidate, ...]:
    """A candidate of each recipe that holds little memory, on the mesh that is most usual for it."""
    found: dict[str, PlanCandidate] = {}
    recipes = {each.name for each in space.layouts if each.is_recipe}
    for core in sorted((each for each in space.cores() if each.layout in recipes), key=_first_order):
        if core.layout not in found and (first := _leanest(space, requirements, core)) is not None:
            found[core.layout] = first
    return tuple(found.values())


def _iterate_first(space: SearchSpace, requirements: Sequence[Requirement]) -> Iterator[PlanCandidate]:
    seen: set[tuple[object, ...]] = set()
    for core in sorted(space.cores(), key=_first_order):
        if core.mesh in seen:  # one of each mesh
            continue
        first = _leanest(space, requirements, core)
        if first is not None:
            seen.add(core.mesh)
            yield first


def _leanest(space: SearchSpace, requirements: Sequence[Requirement], core: PlanCandidate) -> PlanCandidate | None:
    """The candidate of a core that shares most and keeps the pins."""
    candidates = (
        replace(each, zero=zero, boundaries=boundaries)
        for count in sorted(space.micro_batch_counts(core), reverse=core.size("stage") > 1)
        for each in space.schedules_of(core, count)[-1:]
        for zero in reversed(space.zeros_of(core))
        for boundaries in space.boundaries_of(each)
    )
    return next((each for each in candidates if allows_candidate(requirements, each)), None)


def _first_order(core: PlanCandidate) -> tuple[float, ...]:
    model = max((size for axis, size in core.mesh if axis not in ("data", "stage")), default=1)
    return (core.size("stage") > 1, abs(log2(model / _USUAL)) if model > 1 else _USUAL, core.size("stage"), _LEAN_FIRST.get(core.remat, 0))
