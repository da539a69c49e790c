"""The candidates of a space that differ from one in a single decision, or in two that go together."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from workbench.search.plan_candidate import NO_ZERO, PlanCandidate
from workbench.search.search_space import SearchSpace
from workbench.search.traced_programs import ACTIVATIONS_ON_HOST, ON_DEVICE
from workbench.search.uneven_boundaries import BY_TIME


def list_neighbours(space: SearchSpace, candidate: PlanCandidate) -> Iterator[tuple[str, PlanCandidate]]:
    """Candidates that differ in one decision; of micro-batches the next numbers, of meshes one factor moved between two axes."""
    others = [("zero", replace(candidate, zero=each)) for each in space.zeros]
    others += [("remat", replace(candidate, remat=each)) for each in space.remats]
    others += [("precision", replace(candidate, precision=each)) for each in space.precisions]
    others += [("offload", replace(candidate, offload=each)) for each in space.offloads_of(candidate.mesh)]
    others += [("layout", replace(candidate, layout=each.name)) for each in space.layouts]
    others += [("micro_batches", each) for each in _list_near_counts(space, candidate)]
    schedules = space.schedules_of(candidate.core(), candidate.micro_batches)
    others += [("schedule", _with_schedule(space, candidate, each.schedule, each.chunks)) for each in schedules]
    others += [("boundaries", replace(candidate, boundaries=each)) for each in space.boundaries_of(candidate)]
    assignments = space.axis_assignments_of(candidate.hardware, candidate.mesh)
    others += [("mesh", replace(candidate, axis_assignment=each)) for each in assignments]
    moved = [replace(candidate, mesh=mesh, axis_assignment="") for mesh in _list_near_meshes(candidate)]
    others += [("mesh", each) for near in moved for each in _fit_layout(space, near)]
    seen = {candidate}
    for name, each in others:
        if each not in seen and is_of_space(space, each):
            seen.add(each)
            yield name, each


def list_pairs(space: SearchSpace, candidate: PlanCandidate) -> Iterator[PlanCandidate]:
    """Candidates that differ in the mesh, the layout or the number of micro-batches, and in ZeRO or in what is recomputed besides: another
    layout may fit with another ZeRO alone, and be faster with it."""
    for name, each in list_neighbours(space, candidate):
        if name in ("mesh", "layout", "micro_batches"):
            others = [replace(each, zero=zero) for zero in space.zeros] + [replace(each, remat=remat) for remat in space.remats]
            yield from (other for other in others if other != each and is_of_space(space, other))


def _with_schedule(space: SearchSpace, candidate: PlanCandidate, schedule: str, chunks: int) -> PlanCandidate:
    """With another schedule; with boundaries by time where it leaves no choice of them."""
    found = replace(candidate, schedule=schedule, chunks=chunks)
    return found if found.boundaries in space.boundaries_of(found) else replace(found, boundaries=BY_TIME)


def _list_near_counts(space: SearchSpace, candidate: PlanCandidate) -> Iterator[PlanCandidate]:
    """The next numbers of micro-batches, up and down, that the schedule allows."""
    counts = sorted(space.micro_batch_counts(candidate.core()))
    kind = candidate.schedule, candidate.chunks
    allowed = [
        replace(candidate, micro_batches=count)
        for count in counts
        if kind in {(each.schedule, each.chunks) for each in space.schedules_of(candidate.core(), count)}
    ]
    yield from [each for each in allowed if each.micro_batches < candidate.micro_batches][-1:]
    yield from [each for each in allowed if each.micro_batches > candidate.micro_batches][:1]


def _fit_layout(space: SearchSpace, candidate: PlanCandidate) -> list[PlanCandidate]:
    """The candidate, or with the first layout, schedule and ZeRO that its mesh allows, and nothing on the host if need be."""
    if candidate.offload not in space.offloads_of(candidate.mesh):
        candidate = replace(candidate, offload=ON_DEVICE)
    if candidate.remat == ACTIVATIONS_ON_HOST and candidate.remat not in (remats := space.remats_of(candidate.mesh)):
        candidate = replace(candidate, remat=remats[-1])
    layouts = [candidate.layout, *space.layout_by_name]
    schedules = space.schedules_of(candidate.core(), candidate.micro_batches)
    kinds = [(candidate.schedule, candidate.chunks), *((each.schedule, each.chunks) for each in schedules)]
    fitting = (
        replace(_with_schedule(space, candidate, schedule, chunks), layout=layout, zero=zero)
        for zero in (candidate.zero, NO_ZERO)
        for layout in layouts
        for schedule, chunks in kinds
    )
    return list(islice((each for each in fitting if is_of_space(space, each)), 1))


def _list_near_meshes(candidate: PlanCandidate) -> Iterator[tuple[tuple[str, int], ...]]:
    """Meshes with the least factor of one axis moved to another."""
    for source, size in candidate.mesh:
        factor = next((each for each in range(2, size + 1) if size % each == 0), None)
        for target, _ in candidate.mesh:
            if factor is not None and target != source:
                moved = {source: size // factor, target: candidate.size(target) * factor}
                yield tuple((axis, moved.get(axis, old)) for axis, old in candidate.mesh)


def is_of_space(space: SearchSpace, candidate: PlanCandidate) -> bool:
    """Whether the candidate's decisions go together, as far as that shows without planning."""
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
    return (candidate.schedule, candidate.chunks) in {(each.schedule, each.chunks) for each in schedules}
