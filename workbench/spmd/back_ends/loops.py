"""Collectives in a loop that XLA takes out of it: before it what no turn changes, behind it sums that the turns only add up."""

from collections.abc import Sequence
from dataclasses import replace

from workbench.mesh import Mesh
from workbench.spmd.back_ends.flow import MOVES, moved_from
from workbench.spmd.collectives import Found
from workbench.spmd.module import Computation, Instruction, root_of

_SAME_SIZE = ("all-to-all", "collective-permute")
_PASSED = (*MOVES, "convert")  # between a sum and what it is added to


def hoist(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """What no turn of a loop changes is sent once, before it, unless that makes it larger (`while_loop_invariant_code_motion.cc`)."""
    del mesh
    return [_once(each) if each.collective.kind in _SAME_SIZE and is_invariant(each) else each for each in found]


def _once(found: Found) -> Found:
    sent = found.collective
    return found._replace(collective=replace(sent, count=sent.count // max(found.trips, 1)), trips=1)


def is_invariant(found: Found) -> bool:
    """Whether what a collective in a loop sends is made of nothing but what the loop hands on as it was."""
    root = root_of(found.computation) if found.trips > 1 else None
    if root is None or root.opcode != "tuple":
        return False
    waiting = [found.instruction.operands[found.number]]
    seen: set[str] = set()
    while waiting:
        value = found.computation[waiting.pop()]
        if value.opcode == "get-tuple-element" and found.computation[value.operands[0]].opcode == "parameter":
            if not _is_handed_on(found.computation, root, value):
                return False
        elif value.opcode == "parameter":
            return False
        elif value.name not in seen:
            seen.add(value.name)
            waiting += value.operands
    return True


def _is_handed_on(computation: Computation, root: Instruction, value: Instruction) -> bool:
    after = computation[root.operands[value.element]]
    return after.opcode == "get-tuple-element" and after.element == value.element and after.operands == value.operands


def sum_behind(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """A sum that a loop only adds to one that it carries is made once, behind the loop (`while_loop_all_reduce_code_motion.cc`)."""
    del mesh
    return [_once(each) if each.collective.kind == "all-reduce" and is_added_up(each) else each for each in found]


def is_added_up(found: Found) -> bool:
    """Whether a sum in a loop is read by nothing but the addition to a value that the loop carries, and that only for this."""
    value = found.instruction
    addition = _addition(found, value) if found.trips > 1 and len(value.operands) == 1 else None
    root = root_of(found.computation) if addition is not None else None
    if addition is None or root is None or root.opcode != "tuple":
        return False
    carried = _carried(found, addition)
    after = _passed_on(found, addition, root)
    return carried is not None and after is not None and root.operands.index(after.name) == carried.element


def _addition(found: Found, value: Instruction) -> Instruction | None:
    """The addition to what the loop carries, if nothing else reads the value; sums that are added first are looked through."""
    while (user := _only_user(found, value)) is not None:
        if user.opcode == "add" and _carried(found, user) is not None:
            return user
        if user.opcode not in _PASSED and not (user.opcode == "add" and _adds_sums(found, user)):
            return None
        value = user
    return None


def _adds_sums(found: Found, addition: Instruction) -> bool:
    sides = [_unmoved(found, found.computation[name]) for name in addition.operands]
    return all(side is not None and side.opcode == "all-reduce" for side in sides)


def _carried(found: Found, addition: Instruction) -> Instruction | None:
    """The element of the loop's state that is added to and that nothing else reads."""
    for name in addition.operands:
        side = _unmoved(found, found.computation[name])
        if side is not None and side.opcode == "get-tuple-element" and len(_readings(found.computation, side)) == 1:
            return side
    return None


def _unmoved(found: Found, value: Instruction) -> Instruction | None:
    """What a value was before it was moved or cast; an element of the loop's state is itself."""
    moves = tuple(each for each in _PASSED if each != "get-tuple-element")
    return moved_from(found.computation, found.users, value, alone=True, moves=moves)


def _readings(computation: Computation, element: Instruction) -> list[Instruction]:
    """The instructions that take the same element of the loop's state."""
    same = (element.opcode, element.element, element.operands)
    is_state = computation[element.operands[0]].opcode == "parameter"
    return [each for each in computation.values() if (each.opcode, each.element, each.operands) == same] if is_state else []


def _passed_on(found: Found, value: Instruction, root: Instruction) -> Instruction | None:
    """What the loop's state is given of a value that nothing else reads."""
    while (user := _only_user(found, value)) is not None and user is not root:
        if user.opcode not in _PASSED:
            return None
        value = user
    return value if user is root and root.operands.count(value.name) == 1 else None


def _only_user(found: Found, value: Instruction) -> Instruction | None:
    users = found.users.get(value.name, ())
    return users[0] if len(users) == 1 else None
