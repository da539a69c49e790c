"""What a runtime does once a step though it runs many micro-batches, and what it holds beside the program's own values (`Runtime`).

A task of a pipeline runs once for each micro-batch. What is computed of weights alone, their casts, is the same each time, and gradients
that are only added up may be summed over devices when the last one is there.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from workbench.core.path_patterns import find_parameter
from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.cost.fusion.kernel_table import Kernels
from workbench.hardware.runtime import Runtime
from workbench.plan.plan import Plan
from workbench.propagation import Propagated
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.program_structure import Structure, returned_values


class Cost(NamedTuple):
    """The cost of one execution of a collective: seconds, on which links, whether computation overlaps it, and whether the compiler
    decomposes it together with a dot (see `windowed_dots`)."""

    seconds: float
    links: tuple[str, ...]
    overlaps: bool
    is_windowed: bool = False


def kernels_of_weights(kernels: Kernels, weights: frozenset[int]) -> frozenset[int]:
    """The kernels of main that compute what depends on the arguments `weights` alone, without the products."""
    read: dict[int, list[int]] = {}
    for kernel, value in zip(kernels.readers.tolist(), kernels.read.tolist(), strict=True):
        read.setdefault(kernel, []).append(value)
    multiplying = {dot.kernel for dot in kernels.dots}
    made = set(weights)
    found = set()
    for kernel, values in sorted(read.items()):
        if kernels.regions[kernel] == 0 and kernel not in multiplying and made.issuperset(values):
            found.add(kernel)
            made.update(kernels.written[kernels.writers == kernel].tolist())
    return frozenset(found)


_FUSED = 8
"""How many gradients of one size are made as one array at most: those of queries, keys and values are three."""


def shareable_values(program: Program, structure: Structure) -> frozenset[int]:
    """The values of a pipeline's task that replicas may share where they share parameters and gradients: those that depend on no data,
    those inside loops, and those that a gradient is made of by other operations than products."""
    arguments = zip(structure.arguments, program.arguments, strict=True)
    of_data = {value for value, tensor in arguments if tensor.role is Role.INPUT}
    for op in map(structure.ops.__getitem__, structure.order):
        if op.region == 0 and not of_data.isdisjoint(op.operands):
            of_data.update(op.results)
    found = {*range(len(structure.values))} - of_data
    sizes = [prod(value.shape) for value in structure.values]
    results = zip(returned_values(structure, 0), program.results, strict=True)
    gradients = sorted((_FUSED * sizes[value], value) for value, tensor in results if tensor.role is Role.GRADIENT)
    while gradients:  # the largest first, which reaches most
        largest, value = gradients.pop()
        found.add(value)
        maker = structure.values[value].maker
        if maker >= 0 and not structure.ops[maker].work.flops:
            makers = (each for each in structure.ops[maker].operands if each not in found and sizes[each] <= largest)
            gradients += [(largest, each) for each in makers]
    return frozenset(found)


def defer_sums(partitioned: Propagated, costs: Sequence[Cost], sums: frozenset[int]) -> tuple[tuple[Cost, ...], float]:
    """The costs without all-reduces of gradients that are returned in `sums`, and the seconds of these."""
    pairs = list(zip(partitioned.reshards, costs, strict=True))
    deferred = [each.kind == "all-reduce" and is_summed_last(each, partitioned.structure, sums) for each, _ in pairs]
    kept = tuple(cost._replace(seconds=0.0) if is_late else cost for cost, is_late in zip(costs, deferred, strict=True))
    return kept, sum(cost.seconds for cost, is_late in zip(costs, deferred, strict=True) if is_late)


def is_summed_last(reshard: InsertedCollective, structure: Structure, sums: frozenset[int]) -> bool:
    """Whether a collective reduces what is then only added to the sums of gradients."""
    first = structure.ops[reshard.before]
    if reshard.source is None or reshard.kind not in ("all-reduce", "reduce-scatter") or first.work.flops:
        return False
    made = set(first.results)
    for op in structure.ops[reshard.before + 1 :]:
        if not made.isdisjoint(op.operands):
            made.update(op.results)
    returned = made.intersection(returned_values(structure, 0))
    return bool(returned) and returned <= sums


def add_state_copies(program: Program, structure: Structure, local_bytes: list[int], runtime: Runtime) -> None:
    """Count what the runtime holds beside each optimiser's state: copies of the weight that it is of."""
    weights = {tensor.path.partition("/")[2]: tensor.dtype for tensor in program.arguments if tensor.role is Role.PARAMETER}
    has_master = program.precision.master is not None
    for value, tensor in zip(structure.arguments, program.arguments, strict=True):
        if tensor.role is Role.OPTIMIZER_STATE and (owner := find_parameter(tensor.path, weights)):
            local_bytes[value] = round(local_bytes[value] * runtime.copies_beside(weights[owner], has_master=has_master))


def bucket_bytes(plan: Plan, runtime: Runtime) -> int:
    """Bytes of the buffers of a step that shards state, or weights too, over axes along which devices hold other examples."""
    axes: dict[Role, set[str]] = {}
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        axes.setdefault(tensor.role, set()).update(sharding.axes)
    replicas = axes.get(Role.INPUT, set())
    beside_whole, beside_shards = runtime.buckets
    if replicas & axes.get(Role.PARAMETER, set()):
        return beside_shards
    return beside_whole if replicas & axes.get(Role.OPTIMIZER_STATE, set()) else 0
