"""What a loop writes into a stack, an iteration at a time: what a `lax.scan` keeps for its backward pass, or returns, is such a stack.

In the program the stack is a buffer of zeros that the loop is given, and the loop's result; neither says what it holds.
"""

from workbench.propagation.structure.loop_invariants import returned_values
from workbench.propagation.structure.program_structure import Structure

_SAME = ("stablehlo.reshape", "stablehlo.convert", "stablehlo.broadcast_in_dim", "stablehlo.transpose")


def find_stacked(structure: Structure) -> dict[int, int]:
    """Values that are such stacks, before and after their loop, with the operation that makes what is written into them."""
    found: dict[int, int] = {}
    for loop, body in structure.body_of.items():
        arguments = [each for each in structure.regions[body].values if structure.values[each].maker < 0]
        slots = zip(arguments, returned_values(structure, body), strict=False)
        for slot, (argument, handed_on) in enumerate(slots):
            written = _written_into(structure, argument, handed_on)
            maker = -1 if written is None else _maker(structure, body, written)
            op = structure.ops[loop]
            if maker >= 0 and slot < len(op.results):
                found |= {op.results[slot]: maker, op.operands[slot]: maker}
    return found


def _written_into(structure: Structure, argument: int, handed_on: int) -> int | None:
    """What the body writes into a part of its argument to hand it on; `None` where it does something else."""
    maker = structure.values[handed_on].maker
    op = structure.ops[maker] if maker >= 0 else None
    return op.operands[1] if op and op.kind == "stablehlo.dynamic_update_slice" and op.operands[0] == argument else None


def _maker(structure: Structure, body: int, value: int) -> int:
    """The operation that computes a value, in whatever shape and type it is written; what the loop carries is named by what makes it for
    the next iteration. -1 where none does."""
    while (maker := structure.values[value].maker) >= 0 and structure.ops[maker].kind in _SAME:
        value = structure.ops[maker].operands[0]
    if maker >= 0:
        return maker
    arguments = [each for each in structure.regions[body].values if structure.values[each].maker < 0]
    handed_on = dict(zip(arguments, returned_values(structure, body), strict=False))
    return structure.values[handed_on[value]].maker if value in handed_on else -1
