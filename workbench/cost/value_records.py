"""The longer lists of an estimate as records: its intermediate values, and where they are resharded."""

from collections import Counter
from dataclasses import replace

from workbench.core.program import Operation, Program
from workbench.core.sharding import Sharding
from workbench.cost.estimate import Estimate
from workbench.cost.estimate_step_time import collective_costs
from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.kernel_times import KernelTimes
from workbench.plan.plan import Plan
from workbench.propagation import Dims, Propagated, local_shape, reshard_list
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.reports.kernel import Kernel
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


# The kernels of a step as records: the operation each stands for, what it computes and moves, and what bounds it.


def kernel_list(program: Program, partitioned: Propagated, kernels: Kernels, times: KernelTimes) -> tuple[Kernel, ...]:
    """Kernels, alike ones together, the longest first. One with dots has the name and the line of the largest of them."""
    flops, largest = Counter[int](), dict[int, int]()
    for each in kernels.dots:
        count = partitioned.local_flops.get(each.op, 0)
        if count >= partitioned.local_flops.get(largest.get(each.kernel, -1), 0):
            largest[each.kernel] = each.op
        flops[each.kernel] += count
    counts = Counter[Kernel]()
    costs = (times.steps, times.moved, times.arithmetic, times.memory, times.launch, ~times.unestimated, kernels.times)
    columns = [each.tolist() for each in costs]
    for number, (op, steps, moved, computing, moving, launch, is_estimated, count) in enumerate(zip(kernels.ops, *columns, strict=True)):
        each = program.operations[largest.get(number, op)]
        dtype = _dot_dtype(partitioned, largest[number]) if number in largest else each.dtype
        work = flops[number], round(steps), round(moved)
        if any(work):  # else Shardy dropped it as dead
            counts[Kernel(each.path, each.kind, each.source, dtype, 1, *work, computing, moving, launch, is_estimated)] += count
    return tuple(sorted((replace(each, count=count) for each, count in counts.items()), key=lambda each: (-each.total_seconds, each.path)))


def _dot_dtype(partitioned: Propagated, dot: int) -> str:
    structure = partitioned.structure
    return structure.values[structure.ops[dot].operands[0]].dtype
