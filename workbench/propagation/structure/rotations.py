"""Rotations, `jnp.roll`: two slices of one value, put together again the other way around.

XLA's partitioner knows them (`PartitionConcatenate`, `RotateRight`): what a device gets of a dimension that is split comes from its
neighbour, and neither slice is ever laid out, and padded, by itself. As planned, what is sent is counted at the slices; that is all of it
where each shard is one element, as in a ring of blocks or a pipeline's shifting buffer.
"""

from workbench.propagation.structure.program_structure import Op, Structure

_SLICE, _CONCATENATE = "stablehlo.slice", "stablehlo.concatenate"


def find_rotations(structure: Structure) -> frozenset[int]:
    """The ids of concatenations that are rotations, and of their slices."""
    found: set[int] = set()
    for index in structure.crossing_ops:
        op = structure.ops[index]
        if op.kind == _CONCATENATE and (len(op.operands), len(op.crossing_dims)) == (2, 1):
            makers = [structure.values[operand].maker for operand in op.operands]
            if _is_rotation(structure, op, makers):
                found |= {index, *makers}
    return frozenset(found)


def _is_rotation(structure: Structure, op: Op, makers: list[int]) -> bool:
    """Whether the first operand is the end of a value, and the second all that is before it."""
    if min(makers) < 0:
        return False
    slices = [structure.ops[maker] for maker in makers]
    if any(each.kind != _SLICE or each.windows is None for each in slices) or slices[0].operands != slices[1].operands:
        return False
    (dim,) = op.crossing_dims
    end, start = (each.windows.dims[dim] for each in slices if each.windows is not None)
    size = structure.values[slices[0].operands[0]].shape[dim]
    whole = structure.values[op.results[0]].shape == structure.values[slices[0].operands[0]].shape
    return whole and (end.high, start.low) == (0, 0) and start.count(size) == -end.low and {end.stride, start.stride} == {1}
