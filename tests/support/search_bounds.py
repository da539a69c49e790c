"""What a search says of candidates before they are planned, held against what is planned."""

from workbench.errors import WorkbenchError
from workbench.search.evaluator import Evaluator
from workbench.search.plan_candidate import RECOMPUTING, SHARING, WHOLE, PlanCandidate
from workbench.search.search_figures import Figures

EXACT = 1 + 1e-9


def verify_bounds(evaluator: Evaluator, candidate: PlanCandidate) -> None:
    """Asserts that the figures of a candidate, if it is legal, are not below any of its bounds."""
    try:
        truth = evaluator.evaluate(candidate)
    except WorkbenchError:
        return
    core = candidate.core()
    (bounded,) = (each for each in evaluator.bound_candidates(core, candidate.micro_batches) if each.candidate == candidate)
    known = [evaluator.bound_core(core), bounded]
    if candidate.schedule != WHOLE:
        known += [each for each in evaluator.bound_partitions(candidate) if each.candidate == candidate]
    for each in known:
        assert each.bounds.seconds <= truth.seconds * EXACT
        assert each.bounds.memory <= truth.memory * EXACT
    if candidate.schedule == WHOLE:
        return
    shares = candidate.size("data") > 1 and SHARING in evaluator.space.zeros
    works = [evaluator.bound_work(core, candidate.micro_batches)]
    works += [evaluator.bound_sharing(core, candidate.micro_batches)] if candidate.zero == SHARING else []
    for each in works:
        work = each.seconds(recomputed=RECOMPUTING.get(candidate.remat) == 1, shares_params=shares)
        assert candidate.micro_batches * work / candidate.size("stage") <= truth.seconds * EXACT


def enumerate_figures(evaluator: Evaluator) -> dict[PlanCandidate, Figures]:
    """The figures of every legal candidate of a small space."""
    found = {}
    for each in evaluator.space.candidates():
        try:
            found[each] = evaluator.evaluate(each)
        except WorkbenchError:
            continue
    return found
