"""`choose_layout`: the best split of each operation over one more mesh axis, as an editable layout.

The solution becomes overrides on arguments, and constraints on the results of dots that propagation alone would shard
otherwise.
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
from workbench.search.per_operation.program_problem import WHOLE, ProgramProblem, make_program_problem
from workbench.search.per_operation.solve_problem import solve

ITERATIONS = 30
"""Sweeps and blocks of the solver; counted, not timed, so that every process finds the same layout."""
GAP = 0.005
"""Tolerated relative distance of the cost from the optimum."""
_PASSING = ("stablehlo.transpose", "stablehlo.convert", "stablehlo.reshape")
_ROUNDS = 7  # of constraints, until propagation agrees


@cache_with_program(40)
def choose_layout(plan: Plan, axis: str) -> Layout:
    """Return the layout of a plan, its statements kept, with each operation split over `axis` or left whole.

    `axis` must have more than one device and be unused by the layout. Minimizes the total time under the device memory
    limit at every moment, or without the limit if no choice meets it. Raises `SearchError` if the plan has no hardware
    or the program contains a `shard_map`.
    """
    estimated = estimate(plan)
    problem = make_program_problem(estimated, axis)
    chosen = _solve(problem)
    dims, structure = estimated.partitioned.dims, estimated.partitioned.structure
    results = {
        number: _add_axis(value_dims, *_split_of(problem, chosen, number), axis)
        for number in problem.results
        if (value_dims := dims[structure.ops[number].results[0]]) is not None
    }
    tried = []
    for priority in (0, SHARD_PRIORITY):  # activations must not follow weights that are sharded only for storage
        shardings = _argument_shardings(plan, problem, chosen, axis, priority)
        tried.append(_constrain(apply_layout_edits(plan, override_arguments(plan, shardings)), results, axis))
    return min(tried, key=lambda attempt: attempt[0])[1].layout


def _followers(structure: Structure) -> Iterator[int]:
    """Operations that pass on the result of a dot; unlike dots of one layer's backward pass, they have own names."""
    makers = {op.results[0]: number for number, op in enumerate(structure.ops) if number in structure.dots}
    for number, op in enumerate(structure.ops):
        if op.kind in _PASSING and op.operands[0] in makers:
            makers[op.results[0]] = number
            yield number


def _solve(made: ProgramProblem) -> tuple[int, ...]:
    solution = solve(made.problem, iterations=ITERATIONS, gap=GAP)
    if solution.strategies is None:
        solution = solve(made.problem.without_limit(), iterations=ITERATIONS, gap=GAP)
    assert solution.strategies is not None  # without a limit, only unequal shardings of a parameter and its moments are forbidden
    return solution.strategies


def _split_of(made: ProgramProblem, chosen: tuple[int, ...], number: int) -> tuple[int, bool]:
    """The split dimension of a result, and whether it follows a reduce-scatter."""
    placed = made.results[number]
    strategy = chosen[placed.node]
    return int(placed.splits[strategy]), made.sums[number][strategy] == "reduce-scatter"


def _argument_shardings(plan: Plan, made: ProgramProblem, chosen: tuple[int, ...], axis: str, priority: int) -> dict[str, Sharding]:
    shardings = {}
    for tensor, present, placed in zip(plan.program.arguments, plan.argument_shardings, made.arguments, strict=True):
        dim = int(placed.splits[chosen[placed.node]])
        if dim != WHOLE:
            dims = present.with_dim(dim, (*(present.dims[dim] or ()), axis)).dims
            is_late = priority and tensor.role in STATE
            priorities = tuple(priority if is_late and at == dim else present.priority(at) for at in range(len(dims)))
            shardings[tensor.path] = Sharding(dims, priorities=priorities if any(priorities) else ())
    return shardings


def _add_axis(dims: Dims, split: int, is_scattered: bool, axis: str) -> Sharding:
    """Shard one dimension; if scattered, at a lower priority, so that the dot's operands are not sharded too."""
    priorities = tuple(AFTER_THE_DOTS if at == split else 0 for at in range(len(dims))) if is_scattered else ()
    return Sharding(tuple((*axes, axis) if at == split else axes for at, axes in enumerate(dims)), priorities=priorities)


def _constrain(plan: Plan, wanted: dict[int, Sharding], axis: str) -> tuple[float, Plan]:
    """Add constraints where propagation disagrees about the axis; return the fastest round's step seconds and plan.
    First on dots and the operations that pass their results on, then on the rest. The last round is not always the
    fastest: a needless constraint may cost time.
    """
    structure = structure_of(plan.program)
    first = {*structure.dots, *_followers(structure)}
    constrained, tried = set[int](), list[tuple[float, Plan]]()
    for _ in range(_ROUNDS):
        estimated = estimate(plan)
        assert estimated.step_time is not None  # the hardware is known
        tried.append((estimated.step_time.total, plan))
        missed = [number for number in _list_missed(estimated.partitioned, wanted, axis) if number not in constrained]
        missed = [number for number in missed if number in first] or missed
        if not missed:
            break
        constrained.update(missed)
        plan = apply_layout_edits(plan, constrain_values(plan, missed, wanted))
    return min(tried, key=lambda attempt: attempt[0])


def _list_missed(found: Propagated, wanted: dict[int, Sharding], axis: str) -> Iterator[int]:
    for number, sharding in wanted.items():
        dims = found.dims[found.structure.ops[number].results[0]]
        if dims is not None and _has_axis(dims, axis) != _has_axis(sharding.dims, axis):
            yield number


def _has_axis(dims: Sequence[tuple[str, ...] | None], axis: str) -> tuple[bool, ...]:
    return tuple(axis in (axes or ()) for axes in dims)
