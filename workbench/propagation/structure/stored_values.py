"""Which values take memory, and until when.

Fusion is modelled as the compilers do it, to first order: an elementwise value with one use, a broadcast and an iota are computed inside
their user and never stored; what they read then lives until that user. So are, in each of their users, slices, and what is quickly computed
from slices of one value: the maximum over a window, say, of which only the windows' operand is kept.
"""

import math
from collections.abc import Sequence

from workbench.propagation.module.operation_kinds import CONSTANTS, ELEMENTWISE
from workbench.propagation.structure.program_structure import Op, Structure, TracedValue, returned_values

_CHEAP = frozenset(
    {"stablehlo.broadcast_in_dim", "stablehlo.iota", "stablehlo.constant", "sdy.constant", "stablehlo.reshape", "sdy.data_flow_edge"}
)
_FUSIBLE = ELEMENTWISE | {
    "stablehlo.broadcast_in_dim",
    "stablehlo.iota",
    "stablehlo.transpose",
    "stablehlo.reshape",
    "stablehlo.slice",
    "stablehlo.pad",
}
_FUSING = _FUSIBLE | {"stablehlo.reduce", "stablehlo.dynamic_update_slice", "stablehlo.concatenate"}
_ALIASING = frozenset({"stablehlo.optimization_barrier", "stablehlo.reduce_precision", "sdy.data_flow_edge", "sdy.sharding_constraint"})
_DOT = "stablehlo.dot_general"
_BROADCAST = "stablehlo.broadcast_in_dim"
_QUICK = frozenset({"stablehlo.add", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.compare", "stablehlo.select"})
_SLICING = frozenset({"stablehlo.dynamic_slice", "stablehlo.gather", "stablehlo.slice"})
_SCALARS = 256  # a constant of more elements is an array the function closed over, and takes memory


Users = dict[int, list[int]]  # of each value: the ids of the operations that read it


def mark_stored(structure: Structure) -> None:
    """Mark the values that are never stored, and extend the lives of what they read; from the last operation to the first."""
    users: Users = {}
    for index, op in enumerate(structure.ops):
        for operand in set(op.operands):
            users.setdefault(operand, []).append(index)
    windows = _find_slices(structure)
    for index in range(len(structure.ops) - 1, -1, -1):
        op = structure.ops[index]
        if op.kind == "stablehlo.reduce_precision":  # a mark: its readers read what it marks
            users[op.operands[0]].remove(index)
            users[op.operands[0]] += users.get(op.results[0], [])
        for slot, result in enumerate(op.results):
            _alias_operand(structure, op, slot)
            is_window = result in windows and _is_fused_by_all(structure, op, result, users)
            if is_window or _is_made_in_its_users(structure, op, result, users):
                _mark_unstored(structure, op, result)
            if op.kind in _SLICING:
                structure.values[op.operands[0]].reads -= 1  # reads only what it returns
    for body in structure.body_of.values():
        for index in structure.regions[body].values:
            if structure.values[index].maker < 0:
                structure.values[index].stored = False  # lives in the loop's own buffers
    for index in structure.kernel_constants:
        structure.values[index].stored = False
    _reuse_operands(structure)


def _alias_operand(structure: Structure, op: Op, slot: int) -> None:
    """Mark a result that shares an operand's memory."""
    value = structure.values[op.results[slot]]
    if op.kind in _ALIASING or (op.kind == "stablehlo.pad" and not op.crossing_dims):  # a pad by nothing
        value.alias = op.operands[slot]
        source = structure.values[op.operands[slot]]
        source.last_use = max(source.last_use, value.last_use)
    elif op.kind == "stablehlo.dynamic_update_slice":
        value.alias = op.operands[0]
        if value.shape == structure.values[op.operands[1]].shape:
            _make_in_place(structure, op)
    elif op.kind == "stablehlo.dynamic_slice" and value.shape == structure.values[op.operands[0]].shape:
        value.alias = op.operands[0]  # all of a stack of one: a loop of a single iteration, which compilers unroll
        structure.values[op.operands[0]].last_use = max(structure.values[op.operands[0]].last_use, value.last_use)


def _make_in_place(structure: Structure, op: Op) -> None:
    """A value that overwrites all of a stack of one is made in the stack's memory."""
    update = op.operands[1]
    while (born := structure.values[update].maker) >= 0 and structure.ops[born].kind == "stablehlo.reshape":
        update = structure.ops[born].operands[0]
    made = structure.values[update]
    if made.maker >= 0 and made.region == op.region and made.alias is None:
        made.alias = op.operands[0]


def _is_made_in_its_users(structure: Structure, op: Op, result: int, users: Users) -> bool:
    using = [structure.ops[user] for user in users.get(result, [])]
    if any(user.region != op.region for user in using):
        return False
    inside = bool(op.custom_kernel) and bool(using) and all(user.custom_kernel == op.custom_kernel for user in using)
    return inside or _is_fused(structure, op, result, using) or (op.kind == _DOT and _adds_to_argument(structure, result, users))


def _is_fused(structure: Structure, op: Op, result: int, using: Sequence[Op]) -> bool:
    is_array = op.kind in CONSTANTS and math.prod(structure.values[result].shape) > _SCALARS
    if not op.custom_kernel and any(user.custom_kernel for user in using) and not _is_given_to_kernels(structure, op):
        return False
    into_one = len(using) == 1 and using[0].kind in _FUSING
    into_dots = op.kind == "stablehlo.transpose" and bool(using) and all(user.kind == _DOT for user in using)
    return (op.kind in _CHEAP and not is_array) or (op.kind in _FUSIBLE and (into_one or into_dots))


def _is_given_to_kernels(structure: Structure, op: Op) -> bool:
    """Whether a hand-written kernel is given a value without that it is in memory: as a view, or as a number it repeats itself. The
    compiler fuses nothing else into such a kernel."""
    is_spread = op.kind == _BROADCAST and math.prod(structure.values[op.operands[0]].shape) > _SCALARS
    return op.kind in _CHEAP | {"stablehlo.slice", "stablehlo.transpose"} and not is_spread


def _find_slices(structure: Structure) -> dict[int, int]:
    """Values that are slices of one other value, or quickly computed from such alone: which other."""
    found: dict[int, int] = {}
    for op in structure.ops:
        if op.kind == "stablehlo.slice":
            found[op.results[0]] = found.get(op.operands[0], op.operands[0])
        elif op.kind in _QUICK:
            read = {found.get(operand, -1) for operand in op.operands}
            if len(read) == 1 and -1 not in read:
                found[op.results[0]] = read.pop()
    return found


def _is_fused_by_all(structure: Structure, op: Op, result: int, users: Users) -> bool:
    using = [structure.ops[user] for user in users.get(result, [])]
    return bool(using) and all(user.region == op.region and user.kind in _FUSING for user in using)


def _mark_unstored(structure: Structure, op: Op, result: int) -> None:
    """Mark a value as not stored; what it is made of lives until it is read."""
    value = structure.values[result]
    value.stored = False
    for operand in op.operands:
        source = structure.values[operand]
        if source.region == op.region:
            source.last_use = max(source.last_use, value.last_use)


def _adds_to_argument(structure: Structure, value: int, users: Users) -> bool:
    """Whether a dot is only transposed, converted and added to an argument of main: a sum over micro-batches, made in the dot's own kernel,
    in the argument's memory."""
    while len(using := users.get(value, [])) == 1:
        op = structure.ops[using[0]]
        if op.kind == "stablehlo.add" and using[0] not in structure.optimizer_additions:
            left, right = op.operands
            other = structure.values[right if left == value else left]
            return other.maker < 0 and other.region == 0
        if op.kind not in ("stablehlo.transpose", "stablehlo.convert", "stablehlo.reshape"):
            return False
        value = op.results[0]
    return False


def _reuse_operands(structure: Structure) -> None:
    """A hand-written kernel's result reuses the memory of an operand of its shape and type that no one reads afterwards: the gradient of a
    fused loss that of the logits."""
    read: dict[tuple[str, int], dict[int, None]] = {}
    values = structure.values
    for op in structure.ops:
        if not op.custom_kernel:
            continue
        mine = read.setdefault((op.custom_kernel, op.region), {})
        mine.update(dict.fromkeys(_buffer_of(values, operand) for operand in op.operands))
        for value in (values[result] for result in op.results):
            if not value.stored or value.alias is not None:
                continue
            free = (operand for operand in mine if _can_be_overwritten(structure, operand, op))
            alike = (operand for operand in free if (values[operand].shape, values[operand].dtype) == (value.shape, value.dtype))
            if (place := next(alike, None)) is not None:
                value.alias = place
                values[place].last_use = max(values[place].last_use, value.last_use)


def _buffer_of(values: list[TracedValue], index: int) -> int:
    while (alias := values[index].alias) is not None:
        index = alias
    return index


def _can_be_overwritten(structure: Structure, operand: int, op: Op) -> bool:
    """Whether a kernel's operand is a buffer that another kernel made and that is not read later."""
    value = structure.values[operand]
    is_buffer = value.maker >= 0 and value.stored and value.region == op.region
    return is_buffer and value.last_use <= op.position and structure.ops[value.maker].custom_kernel != op.custom_kernel


# Views: values in the memory of others: a reshape, a transpose, a slice, what only passes a barrier.

PASSING = frozenset({"stablehlo.optimization_barrier", "sdy.data_flow_edge", "sdy.sharding_constraint"})
DYNAMIC_SLICE = "stablehlo.dynamic_slice"
VIEWING = PASSING | {"stablehlo.reshape", "stablehlo.transpose", DYNAMIC_SLICE}


def resolve_view(structure: Structure, value: int) -> int:
    """The value whose memory a value is a view of."""
    while (born := structure.values[value].maker) >= 0 and structure.ops[born].kind in VIEWING:
        value = structure.ops[born].operands[0]
    return value


def uses_of(structure: Structure) -> list[int]:
    """How many operations read each value, through views of it."""
    uses = [0] * len(structure.values)
    for op in reversed(structure.ops):
        view = op.kind in VIEWING and len(op.results) == 1
        for operand in set(op.operands):
            uses[operand] += uses[op.results[0]] if view else 1
    return uses


# What a loop writes into a stack, an iteration at a time: what a `lax.scan` keeps for its backward pass, or returns, is such a stack.
#
# In the program the stack is a buffer of zeros that the loop is given, and the loop's result; neither says what it holds.

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
