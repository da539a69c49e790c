"""Final shardings of arguments and results: the plan's, with dimensions that it leaves open filled in by propagation.

JAX takes only closed shardings for arguments, so the engine passes the propagated ones.
"""

from collections.abc import Sequence
from dataclasses import replace

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.sharding import Sharding
from workbench.plan.plan import Plan
from workbench.propagation.module.insert_statements import result_shardings
from workbench.propagation.module.shardy_attributes import Dims
from workbench.propagation.propagated_plan import Propagated, partition


def close_shardings(requests: Sequence[Sharding], found: Sequence[Dims | None]) -> tuple[Sharding, ...]:
    """The requested shardings as propagation completed them: closed, without priorities; unreduced axes stay."""
    return tuple(
        requested
        if requested.is_plain
        else Sharding((requested.dims if requested.is_closed else (dims or ())[: len(requested.dims)]), unreduced=requested.unreduced)
        for requested, dims in zip(requests, found, strict=True)
    )


def read_argument_placements(plan: Plan, partitioned: Propagated) -> tuple[Sharding, ...]:
    """The shardings of the arguments of a partitioned plan."""
    return close_shardings(plan.argument_shardings, [partitioned.dims[value] for value in partitioned.structure.arguments])


def argument_placements(plan: Plan) -> tuple[Sharding, ...]:
    """The closed shardings of a plan's arguments; propagates the plan only if an argument is open."""
    if all(sharding.is_closed for sharding in plan.argument_shardings):
        return close_shardings(plan.argument_shardings, [None] * len(plan.argument_shardings))
    return _propagate_placements(plan)[0]


def result_placements(plan: Plan) -> dict[int, Sharding]:
    """The closed shardings of results with a stated sharding, by result number."""
    requests = result_shardings(plan)
    if all(sharding.is_plain for sharding in requests.values()):
        return requests
    arguments, results = _propagate_placements(plan)
    argument_of = dict(plan.program.carried)
    return {
        i: arguments[argument_of[i]] if i in argument_of else replace(results[i], unreduced=requested.unreduced)
        for i, requested in requests.items()
    }


@cache_with_program(50)
def _propagate_placements(plan: Plan) -> tuple[tuple[Sharding, ...], tuple[Sharding, ...]]:
    partitioned = partition(plan)
    return read_argument_placements(plan, partitioned), tuple(map(Sharding, partitioned.results))
