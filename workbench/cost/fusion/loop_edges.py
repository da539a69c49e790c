"""Values that XLA:TPU moves out of loops: casts of stacked inputs, and the initial fill of stacks that are fully
overwritten.

If each iteration slices and casts a stack that exists from the start (a scan's weights), XLA casts the whole stack once
before the loop, and iterations read narrower slices. The traffic is equal and is counted as if the cast were in the
loop.

A stack that each iteration writes at the loop counter is fully overwritten, so its initial zeros are never stored. With
a computed index, as in a reversed loop, they are.
"""

from workbench.core.tensor import itemsize
from workbench.propagation.structure.program_structure import Structure

_CAST, _TAKE, _UPDATE = "stablehlo.convert", "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"
_REPEAT, _LESS, _LOOP = "stablehlo.broadcast_in_dim", "stablehlo.subtract", "stablehlo.while"
_VIEWS = frozenset({"stablehlo.reshape", "stablehlo.transpose", "stablehlo.optimization_barrier", "sdy.sharding_constraint"})


def hoisted_casts(structure: Structure) -> frozenset[int]:
    """Return operations that narrow a loop slice of a program argument; of several loops, the first one's."""
    first_cast: dict[tuple[int, str], int] = {}
    for index, op in enumerate(structure.ops):
        if op.kind == _CAST and structure.regions[op.region].parent >= 0 and _narrows(structure, index):
            stack = _stack(structure, op.operands[0])
            if stack is not None:
                first_cast.setdefault((stack, structure.values[op.results[0]].dtype), index)
    return frozenset(first_cast.values())


def _narrows(structure: Structure, cast: int) -> bool:
    op = structure.ops[cast]
    before, after = structure.values[op.operands[0]], structure.values[op.results[0]]
    return "float" in before.dtype and itemsize(after.dtype) < itemsize(before.dtype)


def _stack(structure: Structure, value: int) -> int | None:
    """Return the program argument that a value is a loop slice of, or `None`."""
    is_taken = False
    while True:
        record = structure.values[value]
        if record.maker < 0:
            if record.region == 0:
                return value if is_taken else None
            loop = structure.ops[structure.regions[record.region].parent]
            if record.result >= len(loop.operands):
                return None
            value = loop.operands[record.result]
            continue
        op = structure.ops[record.maker]
        if op.kind != _TAKE and op.kind not in _VIEWS:
            return None
        is_taken |= op.kind == _TAKE
        value = op.operands[0]


def unfilled_stacks(structure: Structure) -> frozenset[int]:
    """Return broadcast constants that are the start of a loop and fully overwritten."""
    stacks = set()
    for op in structure.ops:
        if op.kind == _UPDATE and structure.regions[op.region].parent >= 0 and not _is_computed(structure, op.operands[2]):
            start = _start(structure, op.operands[0])
            if start is not None and structure.ops[structure.values[start].maker].kind == _REPEAT:
                stacks.add(start)
    return frozenset(stacks)


def _start(structure: Structure, value: int) -> int | None:
    record = structure.values[value]
    if record.maker >= 0 or record.region == 0:
        return None
    loop = structure.ops[structure.regions[record.region].parent]
    if loop.kind != _LOOP or record.result >= len(loop.operands):
        return None
    start = loop.operands[record.result]
    return start if structure.values[start].maker >= 0 else None


def _is_computed(structure: Structure, place: int) -> bool:
    """Return whether an index is more than a loop counter; negative counters are normalized by a subtraction."""
    pending, seen = [place], {place}
    while pending:
        maker = structure.values[pending.pop()].maker
        if maker >= 0:
            if structure.ops[maker].kind == _LESS:
                return True
            others = [operand for operand in structure.ops[maker].operands if operand not in seen]  # visit each operand once
            pending.extend(others)
            seen.update(others)
    return False
