"""The way of a value through a partitioned computation, past what only moves it."""

from workbench.spmd.collectives import Found, Users
from workbench.spmd.module import Computation, Instruction

MOVES = ("bitcast", "copy", "reshape", "transpose", "get-tuple-element")


def source_of(found: Found, *, alone: bool) -> Instruction | None:
    """What made the value that a collective sends, moves left out; `alone`: only where nothing else reads it on the way."""
    return moved_from(found.computation, found.users, found.computation[found.instruction.operands[found.number]], alone=alone)


def moved_from(
    computation: Computation, users: Users, value: Instruction, *, alone: bool, moves: tuple[str, ...] = MOVES
) -> Instruction | None:
    """The same of a value."""
    while True:
        if alone and len(users[value.name]) > 1:
            return None
        if value.opcode not in moves or not value.operands:
            return value
        value = computation[value.operands[0]]
