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
from workbench.search.search_nodes import guess
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState
from workbench.search.traced_programs import ACTIVATIONS_ON_HOST
from workbench.search.worker_questions import Answerer, InProcess

UNTIL = ("complete", "proved")
"""When a search is over: once the whole front is known, or once the best plan is proved."""
ROUND = 8
"""Answers from state to state."""


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
) -> Iterator[SearchState]:
    """Search for the plans with the least `objective` (of `FIGURES`), and yield the state after every round of answers.

    It ends when the whole front is proved, or with `until="proved"` the best plan, after `within` seconds, after so many evaluations, or
    when it is cancelled; what was found until then stands in the last state. Which nodes are opened does not depend on how many
    workers there are (`best_first`). `evaluator` remembers an earlier search of the same space; the `present` plan is planned
    first.
    """
    if objective not in FIGURES:
        raise SearchError(*unknown_name("objective", objective, FIGURES))
    if until not in UNTIL:
        raise SearchError(*unknown_name("end of a search", until, UNTIL))
    begin = time.perf_counter()
    here = evaluator or Evaluator(space)
    who = answerer or InProcess(here)
    search = BestFirst(space, requirements, objective, here)
    here.is_cancelled = lambda: is_cancelled() or (bool(search.front.entries) and time.perf_counter() - begin >= within)
    first = list_first_candidates(space, requirements, present)
    try:
        yield from _rounds(search, who, first, begin, within, most_evaluations, is_cancelled, until)
    finally:
        here.is_cancelled = never


def _rounds(
    search: BestFirst,
    who: Answerer,
    candidates: Sequence[PlanCandidate],
    begin: float,
    within: float,
    most_evaluations: int | None,
    is_cancelled: Callable[[], bool],
    until: str,
) -> Iterator[SearchState]:
    """The state after each round; first those of the `candidates` that may keep the requirements are tried until one stands in the
    picture, or the time is up."""
    for each in filter(search.may_fit, candidates):
        first = guess(each)
        search.take_answer(first, who.submit(first.question)())
        state = search.state(time.perf_counter() - begin)
        yield state
        if search.front.entries or state.elapsed >= within or is_cancelled():
            break
    for _ in search.start():
        state = search.state(time.perf_counter() - begin)
        yield state
        if state.elapsed >= within or is_cancelled():
            return
    while True:
        state = search.state(time.perf_counter() - begin)
        yield state
        is_over = most_evaluations is not None and state.evaluated >= most_evaluations
        is_over = is_over or (until == "proved" and state.is_proved)
        if not state.open or is_over or state.elapsed >= within or is_cancelled():
            return
        for _ in range(ROUND):
            search.ask_ahead(who)
            if search.asked and not is_cancelled():
                search.take_next()


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


def _iterate_first(space: SearchSpace, requirements: Sequence[Requirement]) -> Iterator[PlanCandidate]:
    seen: set[tuple[object, ...]] = set()
    for core in sorted(space.cores(), key=_first_order):
        if core.mesh in seen:  # one of each mesh
            continue
        candidates = (
            replace(each, zero=zero, boundaries=boundaries)
            for count in sorted(space.micro_batch_counts(core), reverse=core.size("stage") > 1)
            for each in space.schedules_of(core, count)[-1:]
            for zero in reversed(space.zeros_of(core))
            for boundaries in space.boundaries_of(each)
        )
        first = next((each for each in candidates if allows_candidate(requirements, each)), None)
        if first is not None:
            seen.add(core.mesh)
            yield first


def _first_order(core: PlanCandidate) -> tuple[float, ...]:
    model = max((size for axis, size in core.mesh if axis not in ("data", "stage")), default=1)
    return (core.size("stage") > 1, abs(log2(model / _USUAL)) if model > 1 else _USUAL, core.size("stage"), _LEAN_FIRST.get(core.remat, 0))
