"""The kernels of a step as records: the operation each stands for, what it computes and moves, and what bounds it."""

from collections import Counter
from dataclasses import replace

from workbench.core.program import Program
from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.kernel_times import KernelTimes
from workbench.propagation import Propagated
from workbench.reports.kernel import Kernel


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
