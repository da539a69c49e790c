"""`choose_layout`: how each operation of any program is best split over one more mesh axis, written as a layout that a person could edit.

The answer of the per-operation problem is stated by overrides on arguments, and by constraints on the results of dots where propagation
alone would split them otherwise.
"""

from collections.abc import Iterator, Sequence

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.layout import Layout
from workbench.core.program import STATE
from workbench.core.sharding import Sharding
from workbench.cost.estimate import estimate
from workbench.plan.edits import apply_layout_edits
from workbench.plan.plan import Plan
from workbench.propagation import Dims, Propagated, structure_of
from workbench.propagation.structure.program_structure import Structure
from workbench.recipes.recipe_edits import constrain_values, override_arguments
from workbench.recipes.sequence_parallel import AFTER_THE_DOTS
from workbench.recipes.zero import SHARD_PRIORITY
from workbench.search.per_operation.operation_splits import WHOLE
from workbench.search.per_operation.program_problem import ProgramProblem, make_program_problem
from workbench.search.per_operation.solve_problem import solve

ITERATIONS = 30
"""Sweeps and blocks of the solver: counted and not timed, so that every process finds the same layout."""
GAP = 0.005
"""The part of its cost by which the choice may be worse than the best."""
_PASSING = ("stablehlo.transpose", "stablehlo.convert", "stablehlo.reshape")
_ROUNDS = 7  # of constraints, until propagation agrees


@cache_with_program(40)
def choose_layout(plan: Plan, axis: str) -> Layout:
    """The layout of a plan, whose statements stay, with every operation split over `axis` too, or not.

    `axis` has more than one device, and the layout does not use it. The choice with the least sum of all times under the limit of the
    device's memory at every moment; where none keeps that limit, without it. Raises `SearchError` where the hardware is not known, or the
    program divides its work by hand.
    """
    found = estimate(plan)
    made = make_program_problem(found, axis)
    chosen = _solve(made)
    dims, structure = found.partitioned.dims, found.partitioned.structure
    results = {
        number: _add_axis(at, *_split_of(made, chosen, number), axis)
        for number in made.results
        if (at := dims[structure.ops[number].results[0]]) is not None
    }
    tried = []
    for priority in (0, SHARD_PRIORITY):  # weights that are stored in parts alone must not be followed by what they are multiplied with
        shardings = _argument_shardings(plan, made, chosen, axis, priority)
        tried.append(_constrain(apply_layout_edits(plan, override_arguments(plan, shardings)), results, axis))
    return min(tried, key=lambda each: each[0])[1].layout


def _followers(structure: Structure) -> Iterator[int]:
    """What only passes on the result of a dot: two dots of one layer's backward pass have one name, and what follows them has not."""
    made = {op.results[0]: number for number, op in enumerate(structure.ops) if number in structure.dots}
    for number, op in enumerate(structure.ops):
        if op.kind in _PASSING and op.operands[0] in made:
            made[op.results[0]] = number
            yield number


def _solve(made: ProgramProblem) -> tuple[int, ...]:
    """A strategy for each node."""
    solution = solve(made.problem, iterations=ITERATIONS, gap=GAP)
    if solution.strategies is None:
        solution = solve(made.problem.without_limit(), iterations=ITERATIONS, gap=GAP)
    assert solution.strategies is not None  # without a limit every choice is allowed but for moments that differ
    return solution.strategies


def _split_of(made: ProgramProblem, chosen: tuple[int, ...], number: int) -> tuple[int, bool]:
    """The dimension of an operation's result that is split, and whether only after its sum (a reduce-scatter)."""
    placed = made.results[number]
    way = chosen[placed.node]
    return int(placed.splits[way]), made.sums[number][way] == "reduce-scatter"


def _argument_shardings(plan: Plan, made: ProgramProblem, chosen: tuple[int, ...], axis: str, priority: int) -> dict[str, Sharding]:
    """Of the arguments that are split, by path; state propagates with this priority."""
    found = {}
    for tensor, present, placed in zip(plan.program.arguments, plan.argument_shardings, made.arguments, strict=True):
        dim = int(placed.splits[chosen[placed.node]])
        if dim != WHOLE:
            dims = present.with_dim(dim, (*(present.dims[dim] or ()), axis)).dims
            is_late = priority and tensor.role in STATE
            priorities = tuple(priority if is_late and at == dim else present.priority(at) for at in range(len(dims)))
            found[tensor.path] = Sharding(dims, priorities=priorities if any(priorities) else ())
    return found


def _add_axis(dims: Dims, split: int, is_scattered: bool, axis: str) -> Sharding:
    """The sharding with one dimension split; with a lower priority where the dot itself is not, or its operands would be split alike."""
    priorities = tuple(AFTER_THE_DOTS if at == split else 0 for at in range(len(dims))) if is_scattered else ()
    return Sharding(tuple((*axes, axis) if at == split else axes for at, axes in enumerate(dims)), priorities=priorities)


def _constrain(plan: Plan, wanted: dict[int, Sharding], axis: str) -> tuple[float, Plan]:
    """The plan with constraints where propagation disagrees about the axis, round by round: on dots and what passes their results on, then
    on all that is left. The seconds of a step, and the plan, of the fastest round, for one statement too many can cost more than it
    brings."""
    structure = structure_of(plan.program)
    first = {*structure.dots, *_followers(structure)}
    constrained, tried = set[int](), list[tuple[float, Plan]]()
    for _ in range(_ROUNDS):
        found = estimate(plan)
        assert found.step_time is not None  # the hardware is known
        tried.append((found.step_time.total, plan))
        missed = [number for number in _list_missed(found.partitioned, wanted, axis) if number not in constrained]
        missed = [number for number in missed if number in first] or missed
        if not missed:
            break
        constrained.update(missed)
        plan = apply_layout_edits(plan, constrain_values(plan, missed, wanted))
    return min(tried, key=lambda each: each[0])


def _list_missed(found: Propagated, wanted: dict[int, Sharding], axis: str) -> Iterator[int]:
    for number, sharding in wanted.items():
        at = found.dims[found.structure.ops[number].results[0]]
        if at is not None and _has_axis(at, axis) != _has_axis(sharding.dims, axis):
            yield number


def _has_axis(dims: Sequence[tuple[str, ...] | None], axis: str) -> tuple[bool, ...]:
    return tuple(axis in (axes or ()) for axes in dims)
