"""Why one plan and not another: ledgers and counterfactuals, every figure of which the planner computed.

A ledger goes from one candidate to another one decision at a time, each step a candidate of its own that is planned. So its lines add up to
the whole difference by construction. A decision that cannot be changed alone (more stages, and the schedule that needs them) stands with
the next one. A counterfactual changes one decision of a candidate and plans what comes out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from workbench.errors import WorkbenchError
from workbench.search.candidates import DECISIONS, NO_ZERO, PlanCandidate
from workbench.search.evaluator import Evaluator
from workbench.search.figures import Figures
from workbench.search.requirements import Requirement
from workbench.search.search_space import SearchSpace

_ORDERS = (DECISIONS, tuple(reversed(DECISIONS)))


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Decisions changed together, from what to what, and what that adds: seconds of a step, bytes of the fullest device."""

    decisions: tuple[str, ...]
    before: str
    after: str
    seconds: float
    memory: float


@dataclass(frozen=True)
class Ledger:
    """The way from one candidate to another. **Invariants**: the lines add up to the difference of the figures."""

    start: PlanCandidate
    end: PlanCandidate
    start_figures: Figures
    end_figures: Figures
    lines: tuple[LedgerLine, ...]


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One decision of a candidate changed, and what comes of it: figures, or the reason why it is no plan.

    - `breaks`: the requirements that its figures do not keep.
    """

    decision: str
    candidate: PlanCandidate
    change: str
    figures: Figures | None = None
    reason: str = ""
    breaks: tuple[str, ...] = ()


def make_ledger(evaluator: Evaluator, start: PlanCandidate, end: PlanCandidate) -> Ledger:
    """The ledger from `start` to `end`, by the order of decisions that has the most lines.

    Raises `WorkbenchError` where one of the two cannot be planned.
    """
    first, last = evaluator.evaluate(start), evaluator.evaluate(end)
    ways = [tuple(_walk(evaluator, start, end, order)) for order in _ORDERS]
    return Ledger(start, end, first, last, max(ways, key=len))


def _walk(evaluator: Evaluator, start: PlanCandidate, end: PlanCandidate, order: Sequence[str]) -> Iterator[LedgerLine]:
    here, figures = start, evaluator.evaluate(start)
    waiting: list[str] = []
    there = start
    for name in order:
        if here.decision(name) == end.decision(name) and there.decision(name) == end.decision(name):
            continue
        waiting.append(name)
        there = there.with_decision(name, end)
        after = _evaluate_if_legal(evaluator, there)
        if after is None:
            continue
        shown = [[each.describe(decision) for decision in waiting] for each in (here, there)]
        yield LedgerLine(
            tuple(waiting), ", ".join(shown[0]), ", ".join(shown[1]), after.seconds - figures.seconds, after.memory - figures.memory
        )
        here, figures, waiting = there, after, []


def _evaluate_if_legal(evaluator: Evaluator, candidate: PlanCandidate) -> Figures | None:
    """The figures of a candidate that the space allows; `None` where it does not, or the planner refuses it."""
    if not is_of_space(evaluator.space, candidate):
        return None
    try:
        return evaluator.evaluate(candidate)
    except WorkbenchError:
        return None


def is_of_space(space: SearchSpace, candidate: PlanCandidate) -> bool:
    """Whether the candidate's decisions go together, as far as that shows without planning."""
    core = candidate.core()
    large = {axis for axis, size in candidate.mesh if size > 1} - {"data", "stage"}
    layout = space.layout_by_name.get(candidate.layout)
    if candidate.remat not in space.remats_of(candidate.mesh):
        return False
    if layout is None or not large - {*space.kept_axes} <= {*layout.axes} <= large or candidate.zero not in space.zeros_of(core):
        return False
    if space.batch and (space.batch % candidate.size("data") or candidate.micro_batches not in space.micro_batch_counts(core)):
        return False
    schedules = space.schedules_of(core, candidate.micro_batches)
    return (candidate.schedule, candidate.chunks) in {(each.schedule, each.chunks) for each in schedules}


def list_counterfactuals(
    evaluator: Evaluator, candidate: PlanCandidate, requirements: Sequence[Requirement] = ()
) -> tuple[Counterfactual, ...]:
    """Every change of one decision to another value that the space has for it, planned; the mildest first, what is no plan last."""
    found = [_try(evaluator, candidate, name, each, requirements) for name, each in _list_neighbours(evaluator.space, candidate)]
    return tuple(sorted(found, key=lambda each: (each.figures is None, bool(each.breaks), each.figures.seconds if each.figures else 0.0)))


def _try(
    evaluator: Evaluator, candidate: PlanCandidate, decision: str, other: PlanCandidate, requirements: Sequence[Requirement]
) -> Counterfactual:
    names = [name for name in DECISIONS if candidate.decision(name) != other.decision(name)]
    shown = [", ".join(each.describe(name) for name in names) for each in (other, candidate)]
    change = f"{shown[0]} instead of {shown[1]}"
    try:
        figures = evaluator.evaluate(other)
    except WorkbenchError as error:
        return Counterfactual(decision, other, change, reason=error.message)
    broken = tuple(str(each) for each in requirements if not each.allows_figures(figures) or not each.allows(other))
    return Counterfactual(decision, other, change, figures, breaks=broken)


def _list_neighbours(space: SearchSpace, candidate: PlanCandidate) -> Iterator[tuple[str, PlanCandidate]]:
    """Candidates that differ in one decision; of micro-batches the next numbers, of meshes one factor moved between two axes."""
    others = [("zero", replace(candidate, zero=each)) for each in space.zeros]
    others += [("remat", replace(candidate, remat=each)) for each in space.remats]
    others += [("layout", replace(candidate, layout=each.name)) for each in space.layouts]
    others += [("micro_batches", each) for each in _list_near_counts(space, candidate)]
    schedules = space.schedules_of(candidate.core(), candidate.micro_batches)
    others += [("schedule", replace(candidate, schedule=each.schedule, chunks=each.chunks)) for each in schedules]
    assignments = space.axis_assignments_of(candidate.hardware, candidate.mesh)
    others += [("mesh", replace(candidate, axis_assignment=each)) for each in assignments]
    moved = [replace(candidate, mesh=mesh, axis_assignment="") for mesh in _list_near_meshes(candidate)]
    others += [("mesh", each) for near in moved for each in _fit_layout(space, near)]
    seen = {candidate}
    for name, each in others:
        if each not in seen and is_of_space(space, each):
            seen.add(each)
            yield name, each


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
    """The candidate, or with the first layout, schedule and ZeRO that its mesh allows."""
    layouts = [candidate.layout, *space.layout_by_name]
    schedules = space.schedules_of(candidate.core(), candidate.micro_batches)
    kinds = [(candidate.schedule, candidate.chunks), *((each.schedule, each.chunks) for each in schedules)]
    fitting = (
        replace(candidate, layout=layout, schedule=schedule, chunks=chunks, zero=zero)
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
