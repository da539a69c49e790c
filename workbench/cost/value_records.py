"""Records of an estimate's intermediate values, reshards and kernels."""

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

_KINDS_WITHOUT_VALUES = ("constant", "data_flow_edge", "sharding_constraint", "return")  # operations without a value of their own


def list_values(found: Estimate) -> tuple[Value, ...]:
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
    """List the resharded values: gathered whole first, then by bytes sent; with seconds if the hardware is known."""
    plan, hardware = found.plan, found.hardware

    def seconds_of(sends: list[InsertedCollective]) -> list[float]:
        return [cost.seconds for cost in collective_costs(sends, plan, hardware)] if hardware else [0.0] * len(sends)

    return reshard_list(plan, found.partitioned, seconds_of)


# Records of kernels: operation, work, traffic and bound.


def kernel_list(program: Program, partitioned: Propagated, kernels: Kernels, times: KernelTimes) -> tuple[Kernel, ...]:
    """List the kernels, grouped, longest first; a kernel with dots is named after the largest."""
    flops, largest = Counter[int](), dict[int, int]()
    for dot in kernels.dots:
        count = partitioned.local_flops.get(dot.op, 0)
        if count >= partitioned.local_flops.get(largest.get(dot.kernel, -1), 0):
            largest[dot.kernel] = dot.op
        flops[dot.kernel] += count
    counts = Counter[Kernel]()
    costs = (times.steps, times.moved, times.arithmetic, times.memory, times.launch, ~times.unestimated, kernels.times)
    columns = [column.tolist() for column in costs]
    for number, (op, steps, moved, computing, moving, launch, is_estimated, count) in enumerate(zip(kernels.ops, *columns, strict=True)):
        operation = program.operations[largest.get(number, op)]
        dtype = _dot_dtype(partitioned, largest[number]) if number in largest else operation.dtype
        work = flops[number], round(steps), round(moved)
        if any(work):  # otherwise Shardy removed it as dead
            counts[Kernel(operation.path, operation.kind, operation.source, dtype, 1, *work, computing, moving, launch, is_estimated)] += (
                count
            )
    return tuple(
        sorted((replace(kernel, count=n) for kernel, n in counts.items()), key=lambda kernel: (-kernel.total_seconds, kernel.path))
    )


def _dot_dtype(partitioned: Propagated, dot: int) -> str:
    structure = partitioned.structure
    return structure.values[structure.ops[dot].operands[0]].dtype
