"""Work that a runtime does once per step of several micro-batches, and extra memory that it holds (`Runtime`).

A pipeline task runs once per micro-batch. Values that depend only on weights, such as casts, are the same each time,
and gradients that are only accumulated can be reduced over devices after the last micro-batch.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from workbench.core.path_patterns import find_parameter
from workbench.core.program import Program
from workbench.core.tensor import Role, itemsize
from workbench.cost.fusion.kernel_table import Kernels
from workbench.hardware.runtime import Runtime
from workbench.plan.plan import Plan
from workbench.propagation import Propagated
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.program_structure import Structure, returned_values


class Cost(NamedTuple):
    """The cost of one execution of a collective; `is_windowed`: decomposed together with a dot (`windowed_dots`)."""

    seconds: float
    links: tuple[str, ...]
    overlaps: bool
    is_windowed: bool = False


def kernels_of_weights(kernels: Kernels, weights: frozenset[int]) -> frozenset[int]:
    """Return the kernels of main, except dots, that depend only on the arguments `weights`."""
    read: dict[int, list[int]] = {}
    for kernel, value in zip(kernels.readers.tolist(), kernels.read.tolist(), strict=True):
        read.setdefault(kernel, []).append(value)
    multiplying = {dot.kernel for dot in kernels.dots}
    of_weights = set(weights)
    result = set()
    for kernel, values in sorted(read.items()):
        if kernels.regions[kernel] == 0 and kernel not in multiplying and of_weights.issuperset(values):
            result.add(kernel)
            of_weights.update(kernels.written[kernels.writers == kernel].tolist())
    return frozenset(result)


_FUSED = 8
"""Maximum gradients of one size computed as one array; queries, keys and values are three."""


def shareable_values(program: Program, structure: Structure) -> frozenset[int]:
    """Return values that replicas can share: independent of data, in loops, or non-dot inputs of gradients."""
    arguments = zip(structure.arguments, program.arguments, strict=True)
    of_data = {value for value, tensor in arguments if tensor.role is Role.INPUT}
    for op in map(structure.ops.__getitem__, structure.order):
        if op.region == 0 and not of_data.isdisjoint(op.operands):
            of_data.update(op.results)
    shareable = {*range(len(structure.values))} - of_data
    sizes = [prod(value.shape) for value in structure.values]
    results = zip(returned_values(structure, 0), program.results, strict=True)
    gradients = sorted((_FUSED * sizes[value], value) for value, tensor in results if tensor.role is Role.GRADIENT)
    while gradients:  # largest first, which reaches the most values
        largest, value = gradients.pop()
        shareable.add(value)
        maker = structure.values[value].maker
        if maker >= 0 and not structure.ops[maker].work.flops:
            makers = (operand for operand in structure.ops[maker].operands if operand not in shareable and sizes[operand] <= largest)
            gradients += [(largest, operand) for operand in makers]
    return frozenset(shareable)


def defer_sums(partitioned: Propagated, costs: Sequence[Cost], sums: frozenset[int]) -> tuple[tuple[Cost, ...], float]:
    """Return the costs without all-reduces of accumulated gradients (`sums`), and the seconds of these."""
    pairs = list(zip(partitioned.reshards, costs, strict=True))
    deferred = [
        collective.kind == "all-reduce" and is_deferred_reduction(collective, partitioned.structure, sums) for collective, _ in pairs
    ]
    remaining = tuple(cost._replace(seconds=0.0) if is_late else cost for cost, is_late in zip(costs, deferred, strict=True))
    return remaining, sum(cost.seconds for cost, is_late in zip(costs, deferred, strict=True) if is_late)


def is_deferred_reduction(reshard: InsertedCollective, structure: Structure, sums: frozenset[int]) -> bool:
    """Return whether a collective reduces a value that is then only added to gradient sums."""
    first = structure.ops[reshard.before]
    if reshard.source is None or reshard.kind not in ("all-reduce", "reduce-scatter") or first.work.flops:
        return False
    dependent = set(first.results)
    for op in structure.ops[reshard.before + 1 :]:
        if not dependent.isdisjoint(op.operands):
            dependent.update(op.results)
    returned = dependent.intersection(returned_values(structure, 0))
    return bool(returned) and returned <= sums


def add_state_copies(program: Program, structure: Structure, local_bytes: list[int], runtime: Runtime) -> None:
    """Add the copies of weights that the runtime holds beside each optimizer state."""
    updated = (program.arguments[argument] for _, argument in program.carried)
    weights = {tensor.path.partition("/")[2]: tensor for tensor in updated if tensor.role is Role.PARAMETER}
    places: dict[str, int] = {}
    for place, tensor in enumerate(program.arguments):
        owner = find_parameter(tensor.path, weights) if tensor.role in (Role.PARAMETER, Role.OPTIMIZER_STATE) else None
        if owner and tensor.shape == weights[owner].shape:
            places[owner] = place
    has_master = program.precision.master is not None
    for owner, place in places.items():
        copies = runtime.copies_beside(weights[owner].dtype, has_master=has_master)
        widths = copies * itemsize("float32") / itemsize(program.arguments[place].dtype)
        local_bytes[structure.arguments[place]] += round(widths * local_bytes[structure.arguments[place]])


def bucket_bytes(plan: Plan, runtime: Runtime) -> int:
    """Return the bytes of communication buffers of a step that shards state or weights over data-parallel axes."""
    axes: dict[Role, set[str]] = {}
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        axes.setdefault(tensor.role, set()).update(sharding.axes)
    replicas = axes.get(Role.INPUT, set())
    beside_whole, beside_shards = runtime.buckets
    if replicas & axes.get(Role.PARAMETER, set()):
        return beside_shards
    return beside_whole if replicas & axes.get(Role.OPTIMIZER_STATE, set()) else 0
