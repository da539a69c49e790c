"""The longer lists of an estimate as records: its intermediate values, and where they are resharded."""

from collections import Counter

from workbench.core.program import Operation
from workbench.core.sharding import Sharding
from workbench.cost.estimate import Estimate
from workbench.cost.step_time import collective_costs
from workbench.plan.plan import Plan
from workbench.propagation import Dims, local_shape, reshard_list
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.reports.placement import Value
from workbench.reports.reshard import Reshard

_KINDS_WITHOUT_VALUES = ("constant", "data_flow_edge", "sharding_constraint", "return")  # what stands for other values or for none


def list_values(found: Estimate) -> tuple[Value, ...]:
    """The intermediate values, alike ones together, in order of appearance."""
    plan, partitioned = found.plan, found.partitioned
    structure = partitioned.structure
    counts: Counter[tuple[Operation, Dims]] = Counter()
    for operation, op in zip(plan.program.operations, structure.ops, strict=True):
        if op.results and operation.kind not in _KINDS_WITHOUT_VALUES and (dims := partitioned.dims[op.results[0]]) is not None:
            counts[operation, dims] += structure.regions[op.region].runs_per_step
    return tuple(_to_value(plan, operation, dims, count) for (operation, dims), count in counts.items())


def _to_value(plan: Plan, operation: Operation, dims: Dims, count: int) -> Value:
    return Value(
        operation.path,
        operation.kind,
        operation.dtype,
        operation.shape,
        operation.dims,
        Sharding(dims),
        local_shape(operation.shape, dims, plan.mesh),
        count,
        operation.source,
    )


def list_reshards(found: Estimate) -> tuple[Reshard, ...]:
    """Where values are resharded, with seconds where the hardware is known; what XLA gathers whole first, then by the bytes sent."""
    plan, hardware = found.plan, found.hardware

    def seconds_of(sends: list[InsertedCollective]) -> list[float]:
        return [each.seconds for each in collective_costs(sends, plan, hardware)] if hardware else [0.0] * len(sends)

    return reshard_list(plan, found.partitioned, seconds_of)
