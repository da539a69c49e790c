"""Candidates that differ from a given one in a single decision, or in two related ones."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from workbench.search.plan_candidate import NO_ZERO, PlanCandidate
from workbench.search.search_space import SearchSpace
from workbench.search.traced_programs import ACTIVATIONS_ON_HOST, ON_DEVICE
from workbench.search.uneven_boundaries import BY_TIME


def list_neighbours(space: SearchSpace, candidate: PlanCandidate) -> Iterator[tuple[str, PlanCandidate]]:
    """Candidates that differ in one decision: for micro-batches the next counts, for meshes one factor moved between
    two axes.
    """
    others = [("zero", replace(candidate, zero=choice)) for choice in space.zeros]
    others += [("remat", replace(candidate, remat=choice)) for choice in space.remats]
    others += [("precision", replace(candidate, precision=choice)) for choice in space.precisions]
    others += [("offload", replace(candidate, offload=choice)) for choice in space.offloads_of(candidate.mesh)]
    others += [("layout", replace(candidate, layout=choice.name)) for choice in space.layouts]
    others += [("micro_batches", choice) for choice in _list_near_counts(space, candidate)]
    schedules = space.schedules_of(candidate.core(), candidate.micro_batches)
    others += [("schedule", _with_schedule(space, candidate, choice.schedule, choice.chunks)) for choice in schedules]
    others += [("boundaries", replace(candidate, boundaries=choice)) for choice in space.boundaries_of(candidate)]
    assignments = space.axis_assignments_of(candidate.hardware, candidate.mesh)
    others += [("mesh", replace(candidate, axis_assignment=choice)) for choice in assignments]
    moved = [replace(candidate, mesh=mesh, axis_assignment="") for mesh in _list_near_meshes(candidate)]
    others += [("mesh", choice) for near in moved for choice in _fit_layout(space, near)]
    seen = {candidate}
    for name, choice in others:
        if choice not in seen and is_of_space(space, choice):
            seen.add(choice)
            yield name, choice


def list_pairs(space: SearchSpace, candidate: PlanCandidate) -> Iterator[PlanCandidate]:
    """Candidates that differ in mesh, layout or micro-batches and also in ZeRO or remat: another layout may only fit,
    or only be faster, with another ZeRO stage.
    """
    for name, neighbour in list_neighbours(space, candidate):
        if name in ("mesh", "layout", "micro_batches"):
            others = [replace(neighbour, zero=zero) for zero in space.zeros] + [replace(neighbour, remat=remat) for remat in space.remats]
            yield from (other for other in others if other != neighbour and is_of_space(space, other))


def _with_schedule(space: SearchSpace, candidate: PlanCandidate, schedule: str, chunks: int) -> PlanCandidate:
    """The candidate with another schedule, and with boundaries by time if the schedule allows no others."""
    scheduled = replace(candidate, schedule=schedule, chunks=chunks)
    return scheduled if scheduled.boundaries in space.boundaries_of(scheduled) else replace(scheduled, boundaries=BY_TIME)


def _list_near_counts(space: SearchSpace, candidate: PlanCandidate) -> Iterator[PlanCandidate]:
    """The next smaller and larger numbers of micro-batches that the schedule allows."""
    counts = sorted(space.micro_batch_counts(candidate.core()))
    kind = candidate.schedule, candidate.chunks
    allowed = [
        replace(candidate, micro_batches=count)
        for count in counts
        if kind in {(scheduled.schedule, scheduled.chunks) for scheduled in space.schedules_of(candidate.core(), count)}
    ]
    yield from [other for other in allowed if other.micro_batches < candidate.micro_batches][-1:]
    yield from [other for other in allowed if other.micro_batches > candidate.micro_batches][:1]


def _fit_layout(space: SearchSpace, candidate: PlanCandidate) -> list[PlanCandidate]:
    """The candidate, or the first change of its layout, schedule, ZeRO stage and offload that its mesh allows."""
    if candidate.offload not in space.offloads_of(candidate.mesh):
        candidate = replace(candidate, offload=ON_DEVICE)
    if candidate.remat == ACTIVATIONS_ON_HOST and candidate.remat not in (remats := space.remats_of(candidate.mesh)):
        candidate = replace(candidate, remat=remats[-1])
    layouts = [candidate.layout, *space.layout_by_name]
    schedules = space.schedules_of(candidate.core(), candidate.micro_batches)
    kinds = [
        (candidate.schedule, candidate.chunks),
        *((candidate_that_fits.schedule, candidate_that_fits.chunks) for candidate_that_fits in schedules),
    ]
    fitting = (
        replace(_with_schedule(space, candidate, schedule, chunks), layout=layout, zero=zero)
        for zero in (candidate.zero, NO_ZERO)
        for layout in layouts
        for schedule, chunks in kinds
    )
    return list(islice((candidate_that_fits for candidate_that_fits in fitting if is_of_space(space, candidate_that_fits)), 1))


def _list_near_meshes(candidate: PlanCandidate) -> Iterator[tuple[tuple[str, int], ...]]:
    """Meshes with the smallest prime factor of one axis moved to another."""
    for source, size in candidate.mesh:
        factor = next((divisor for divisor in range(2, size + 1) if size % divisor == 0), None)
        for target, _ in candidate.mesh:
            if factor is not None and target != source:
                moved = {source: size // factor, target: candidate.size(target) * factor}
                yield tuple((axis, moved.get(axis, old)) for axis, old in candidate.mesh)


def is_of_space(space: SearchSpace, candidate: PlanCandidate) -> bool:
    """Whether the decisions of a candidate are consistent, as far as that can be told without planning."""
    core = candidate.core()
    layout = space.layout_by_name.get(candidate.layout)
    if candidate.remat not in space.remats_of(candidate.mesh) or candidate.boundaries not in space.boundaries_of(candidate):
        return False
    if candidate.precision not in space.precisions or candidate.offload not in space.offloads_of(candidate.mesh):
        return False
    if layout is None or not space.fits_mesh(layout, candidate.mesh) or candidate.zero not in space.zeros_of(core):
        return False
    if space.batch and (space.batch % candidate.size("data") or candidate.micro_batches not in space.micro_batch_counts(core)):
        return False
    schedules = space.schedules_of(core, candidate.micro_batches)
    return (candidate.schedule, candidate.chunks) in {(scheduled.schedule, scheduled.chunks) for scheduled in schedules}
