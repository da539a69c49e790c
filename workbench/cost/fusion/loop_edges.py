"""What XLA:TPU moves out of loops: casts of stacked inputs, and the initial fill of stacks that a loop writes whole.

A cast of a stack that is present from the start, and that each iteration slices (a scan's weights): in the loop each slice would be cast
where it is read; before it, the whole stack is cast once, and each iteration reads a narrower slice. The traffic is the same in both cases,
and is counted as if it were in the loop.

A stack of which each iteration writes the slice at the loop's own counter is written whole in the end: its initial zeros are never stored.
Where the index is computed, as in a loop that runs backwards, they are.
"""

from workbench.core.tensor import itemsize
from workbench.propagation.structure.program_structure import Structure

_CAST, _TAKE, _UPDATE = "stablehlo.convert", "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"
_REPEAT, _LESS, _LOOP = "stablehlo.broadcast_in_dim", "stablehlo.subtract", "stablehlo.while"
_VIEWS = frozenset({"stablehlo.reshape", "stablehlo.transpose", "stablehlo.optimization_barrier", "sdy.sharding_constraint"})


def hoisted_casts(structure: Structure) -> frozenset[int]:
    """Operations that narrow a slice of a program argument in a loop; of several loops that cast one stack, the first one's."""
    found: dict[tuple[int, str], int] = {}
    for index, op in enumerate(structure.ops):
        if op.kind == _CAST and structure.regions[op.region].parent >= 0 and _narrows(structure, index):
            stack = _stack(structure, op.operands[0])
            if stack is not None:
                found.setdefault((stack, structure.values[op.results[0]].dtype), index)
    return frozenset(found.values())


def _narrows(structure: Structure, cast: int) -> bool:
    op = structure.ops[cast]
    before, after = structure.values[op.operands[0]], structure.values[op.results[0]]
    return "float" in before.dtype and itemsize(after.dtype) < itemsize(before.dtype)


def _stack(structure: Structure, value: int) -> int | None:
    """The program argument that a value is a slice of, taken in a loop."""
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
    """Broadcast constants that a loop starts with and writes whole."""
    found = set()
    for op in structure.ops:
        if op.kind == _UPDATE and structure.regions[op.region].parent >= 0 and not _is_computed(structure, op.operands[2]):
            start = _start(structure, op.operands[0])
            if start is not None and structure.ops[structure.values[start].maker].kind == _REPEAT:
                found.add(start)
    return frozenset(found)


def _start(structure: Structure, value: int) -> int | None:
    """The initial value of a value carried by a loop, if an operation makes it."""
    record = structure.values[value]
    if record.maker >= 0 or record.region == 0:
        return None
    loop = structure.ops[structure.regions[record.region].parent]
    if loop.kind != _LOOP or record.result >= len(loop.operands):
        return None
    start = loop.operands[record.result]
    return start if structure.values[start].maker >= 0 else None


def _is_computed(structure: Structure, place: int) -> bool:
    """Whether an index is more than a loop's counter, counted from the end where it is negative."""
    pending, seen = [place], {place}
    while pending:
        born = structure.values[pending.pop()].maker
        if born >= 0:
            if structure.ops[born].kind == _LESS:
                return True
            others = [each for each in structure.ops[born].operands if each not in seen]  # one reached in many ways is visited once
            pending.extend(others)
            seen.update(others)
    return False
