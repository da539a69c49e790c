"""What a search says of candidates before they are planned, held against what is planned."""

from collections.abc import Iterator

from workbench.errors import WorkbenchError
from workbench.search.bounds.relaxed_blocks import BlockWork
from workbench.search.evaluator import Evaluator, slowdown_of
from workbench.search.plan_candidate import RECOMPUTING, SHARING, WHOLE, PlanCandidate
from workbench.search.search_figures import Figures

EXACT = 1 + 1e-9


def list_bounds(evaluator: Evaluator, candidate: PlanCandidate) -> Iterator[tuple[str, Figures]]:
    """Every bound by which a search leaves out a legal candidate, with the kind of question that gives it."""
    core, micro_batches = candidate.core(), candidate.micro_batches
    least = evaluator.bound_core(core).bounds
    yield "core", least
    yield "divided", evaluator.bound_divided(core, micro_batches)
    yield "schedule", least.with_seconds(least.seconds * slowdown_of(candidate))
    (bounded,) = (each for each in evaluator.bound_candidates(core, micro_batches) if each.candidate == candidate)
    yield "candidates", bounded.bounds
    if candidate.schedule == WHOLE:
        return
    shares = candidate.size("data") > 1 and SHARING in evaluator.space.zeros

    def of_work(work: BlockWork) -> Figures:
        seconds = work.seconds(recomputed=RECOMPUTING.get(candidate.remat) == 1, shares_params=shares)
        busy = micro_batches * seconds / candidate.size("stage")
        return least.with_seconds(busy * evaluator.least_slowdown(candidate))

    yield "work", of_work(evaluator.bound_work(core, micro_batches))
    if evaluator.space.find_layout(candidate.layout).is_per_stage:
        return
    yield from (("partition", each.bounds) for each in evaluator.bound_partitions(candidate) if each.candidate == candidate)
    if candidate.zero == SHARING:
        yield "sharing", of_work(evaluator.bound_sharing(core, micro_batches))


def verify_bounds(evaluator: Evaluator, candidate: PlanCandidate) -> set[str]:
    """Asserts that the figures of a candidate, if it is legal, are not below any of its bounds; the kinds of these."""
    try:
        truth = evaluator.evaluate(candidate)
    except WorkbenchError:
        return set()
    bounds = list(list_bounds(evaluator, candidate))
    for kind, each in bounds:
        assert each.seconds <= truth.seconds * EXACT, f"{kind}: {candidate}"
        assert each.memory <= truth.memory * EXACT, f"{kind}: {candidate}"
    return {kind for kind, _ in bounds}


def enumerate_figures(evaluator: Evaluator) -> dict[PlanCandidate, Figures]:
    """The figures of every legal candidate of a small space."""
    found = {}
    for each in evaluator.space.candidates():
        try:
            found[each] = evaluator.evaluate(each)
        except WorkbenchError:
            continue
    return found
