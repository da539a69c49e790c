"""The first candidates of a search: the present plan, then plans that are likely to fit, so that one stands in the picture at once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import log2

from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import Requirement, allows_candidate
from workbench.search.search_space import SearchSpace
from workbench.search.traced_programs import ACTIVATIONS_ON_HOST

MOST = 8
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
    return (*first, *(each for each in islice(_iterate(space, requirements), MOST) if each != present))


def _iterate(space: SearchSpace, requirements: Sequence[Requirement]) -> Iterator[PlanCandidate]:
    seen: set[tuple[object, ...]] = set()
    for core in sorted(space.cores(), key=_order):
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


def _order(core: PlanCandidate) -> tuple[float, ...]:
    model = max((size for axis, size in core.mesh if axis not in ("data", "stage")), default=1)
    return (core.size("stage") > 1, abs(log2(model / _USUAL)) if model > 1 else _USUAL, core.size("stage"), _LEAN_FIRST.get(core.remat, 0))
