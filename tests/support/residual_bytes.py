"""Residuals of a training program, kept between its forward and its backward pass: the cost of one more micro-batch in flight."""

from math import ceil, prod

from workbench.core.tensor import itemsize
from workbench.plan.plan import Plan
from workbench.propagation import local_shape, partition


def count_residual_bytes(plan: Plan) -> int:
    """Bytes on one device that the forward pass makes and the backward pass reads, without arguments."""
    partitioned = partition(plan)
    structure, operations = partitioned.structure, plan.program.operations
    backward = (op.position for index, op in enumerate(structure.ops) if op.region == 0 and operations[index].path.startswith("grad/"))
    boundary = min(backward, default=-1)
    moved = [each for each in partitioned.reshards if each.region == 0 and each.kind != "all-reduce"]
    freed = {each.source: each.first_use for each in moved if each.frees_source and each.source is not None}
    total = sum(each.local_bytes for each in moved if each.first_use < boundary <= each.last_use)
    for value, dims in zip(structure.values, partitioned.dims, strict=True):
        if dims is None or value.region or value.maker < 0 or not value.stored or value.alias is not None:
            continue
        if structure.ops[value.maker].position < boundary <= min(value.last_use, freed.get(value.maker, value.last_use)):
            total += ceil(prod(local_shape(value.shape, dims, plan.mesh)) * itemsize(value.dtype))
    return total
