"""Determines which values take memory, and until when.

Fusion is modeled to first order: an elementwise value with one use, a broadcast and an iota are computed inside their
user and never stored; their operands then live until that user. The same holds, for each of their users, for slices,
and for cheap operations on slices of one value: for instance the maximum over a window, of which only the windows'
operand is stored.
"""

import math
from collections.abc import Container, Sequence

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
_UPDATE = "stablehlo.dynamic_update_slice"
_FUSING = _FUSIBLE | {"stablehlo.reduce", _UPDATE, "stablehlo.concatenate"}
_ALIASING = frozenset({"stablehlo.optimization_barrier", "stablehlo.reduce_precision", "sdy.data_flow_edge", "sdy.sharding_constraint"})
_DOT = "stablehlo.dot_general"
_BROADCAST = "stablehlo.broadcast_in_dim"
_QUICK = frozenset({"stablehlo.add", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.compare", "stablehlo.select"})
_SLICING = frozenset({"stablehlo.dynamic_slice", "stablehlo.gather", "stablehlo.slice"})
_SCALARS = 256  # a constant with more elements is an array the function closed over, and takes memory


Users = dict[int, list[int]]  # value -> ids of the operations that read it


def mark_stored(structure: Structure, donated: Container[int]) -> None:
    """Mark values that are never stored, and extend the lifetimes of their operands; `donated`: main's donated arguments."""
    for op in structure.ops:
        op.updates_in_place = op.kind == _UPDATE and not _is_kept_argument(structure, op.operands[0], donated)
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
    value = structure.values[op.results[slot]]
    if op.kind in _ALIASING or (op.kind == "stablehlo.pad" and not op.crossing_dims):  # a pad by nothing
        value.alias = op.operands[slot]
        source = structure.values[op.operands[slot]]
        source.last_use = max(source.last_use, value.last_use)
    elif op.updates_in_place:
        value.alias = op.operands[0]
        if value.shape == structure.values[op.operands[1]].shape:
            _make_in_place(structure, op)
    elif op.kind == "stablehlo.dynamic_slice" and value.shape == structure.values[op.operands[0]].shape:
        value.alias = op.operands[0]  # all of a stack of one: a loop of a single iteration, which compilers unroll
        structure.values[op.operands[0]].last_use = max(structure.values[op.operands[0]].last_use, value.last_use)


def _is_kept_argument(structure: Structure, value: int, donated: Container[int]) -> bool:
    source = resolve_view(structure, value)
    return source in structure.arguments and structure.values[source].result not in donated


def _make_in_place(structure: Structure, op: Op) -> None:
    """Make a value that overwrites a whole stack of one directly in the stack's memory."""
    update = op.operands[1]
    while (maker := structure.values[update].maker) >= 0 and structure.ops[maker].kind == "stablehlo.reshape":
        update = structure.ops[maker].operands[0]
    update_value = structure.values[update]
    if update_value.maker >= 0 and update_value.region == op.region and update_value.alias is None:
        update_value.alias = op.operands[0]


def _is_made_in_its_users(structure: Structure, op: Op, result: int, users: Users) -> bool:
    readers = [structure.ops[user] for user in users.get(result, [])]
    if any(user.region != op.region for user in readers):
        return False
    inside = bool(op.custom_kernel) and bool(readers) and all(user.custom_kernel == op.custom_kernel for user in readers)
    return inside or _is_fused(structure, op, result, readers) or (op.kind == _DOT and _adds_to_argument(structure, result, users))


def _is_fused(structure: Structure, op: Op, result: int, using: Sequence[Op]) -> bool:
    is_array = op.kind in CONSTANTS and math.prod(structure.values[result].shape) > _SCALARS
    if not op.custom_kernel and any(user.custom_kernel for user in using) and not _is_given_to_kernels(structure, op):
        return False
    into_one = len(using) == 1 and using[0].kind in _FUSING
    into_dots = op.kind == "stablehlo.transpose" and bool(using) and all(user.kind == _DOT for user in using)
    return (op.kind in _CHEAP and not is_array) or (op.kind in _FUSIBLE and (into_one or into_dots))


def _is_given_to_kernels(structure: Structure, op: Op) -> bool:
    """Return whether a hand-written kernel takes a value as a view or a broadcast scalar: nothing else fuses into it."""
    is_array_broadcast = op.kind == _BROADCAST and math.prod(structure.values[op.operands[0]].shape) > _SCALARS
    return op.kind in _CHEAP | {"stablehlo.slice", "stablehlo.transpose"} and not is_array_broadcast


def _find_slices(structure: Structure) -> dict[int, int]:
    """The source value of each slice, and of each cheap operation on slices of one value."""
    source_of: dict[int, int] = {}
    for op in structure.ops:
        if op.kind == "stablehlo.slice":
            source_of[op.results[0]] = source_of.get(op.operands[0], op.operands[0])
        elif op.kind in _QUICK:
            sources = {source_of.get(operand, -1) for operand in op.operands}
            if len(sources) == 1 and -1 not in sources:
                source_of[op.results[0]] = sources.pop()
    return source_of


def _is_fused_by_all(structure: Structure, op: Op, result: int, users: Users) -> bool:
    readers = [structure.ops[user] for user in users.get(result, [])]
    return bool(readers) and all(user.region == op.region and user.kind in _FUSING for user in readers)


def _mark_unstored(structure: Structure, op: Op, result: int) -> None:
    """Mark a value as not stored, and extend the lifetimes of its operands to its own."""
    value = structure.values[result]
    value.stored = False
    for operand in op.operands:
        source = structure.values[operand]
        if source.region == op.region:
            source.last_use = max(source.last_use, value.last_use)


def _adds_to_argument(structure: Structure, value: int, users: Users) -> bool:
    """Return whether a dot only adds to an argument of main, in its own kernel: a sum over micro-batches."""
    while len(readers := users.get(value, [])) == 1:
        op = structure.ops[readers[0]]
        if op.kind == "stablehlo.add" and readers[0] not in structure.optimizer_additions:
            left, right = op.operands
            other = structure.values[right if left == value else left]
            return other.maker < 0 and other.region == 0
        if op.kind not in ("stablehlo.transpose", "stablehlo.convert", "stablehlo.reshape"):
            return False
        value = op.results[0]
    return False


def _reuse_operands(structure: Structure) -> None:
    """Let a hand-written kernel's result reuse an operand's memory: a fused loss's gradient that of the logits."""
    read: dict[tuple[str, int], dict[int, None]] = {}
    values = structure.values
    for op in structure.ops:
        if not op.custom_kernel:
            continue
        kernel_operands = read.setdefault((op.custom_kernel, op.region), {})
        kernel_operands.update(dict.fromkeys(_buffer_of(values, operand) for operand in op.operands))
        for value in (values[result] for result in op.results):
            if not value.stored or value.alias is not None:
                continue
            free = (operand for operand in kernel_operands if _can_be_overwritten(structure, operand, op))
            matches = (operand for operand in free if (values[operand].shape, values[operand].dtype) == (value.shape, value.dtype))
            if (reused := next(matches, None)) is not None:
                value.alias = reused
                values[reused].last_use = max(values[reused].last_use, value.last_use)


def _buffer_of(values: list[TracedValue], index: int) -> int:
    while (alias := values[index].alias) is not None:
        index = alias
    return index


def _can_be_overwritten(structure: Structure, operand: int, op: Op) -> bool:
    """Return whether a kernel's operand is a buffer that another kernel made and that is not read later."""
    value = structure.values[operand]
    is_buffer = value.maker >= 0 and value.stored and value.region == op.region
    return is_buffer and value.last_use <= op.position and structure.ops[value.maker].custom_kernel != op.custom_kernel


# Views share the memory of another value: a reshape, a transpose, a slice, the result of a barrier.

PASSING = frozenset({"stablehlo.optimization_barrier", "sdy.data_flow_edge", "sdy.sharding_constraint"})
DYNAMIC_SLICE = "stablehlo.dynamic_slice"
VIEWING = PASSING | {"stablehlo.reshape", "stablehlo.transpose", DYNAMIC_SLICE}


def resolve_view(structure: Structure, value: int) -> int:
    """The value whose memory a value is a view of."""
    while (maker := structure.values[value].maker) >= 0 and structure.ops[maker].kind in VIEWING:
        value = structure.ops[maker].operands[0]
    return value


def uses_of(structure: Structure) -> list[int]:
    """The number of operations that read each value, also through its views."""
    uses = [0] * len(structure.values)
    for op in reversed(structure.ops):
        is_view = op.kind in VIEWING and len(op.results) == 1
        for operand in set(op.operands):
            uses[operand] += uses[op.results[0]] if is_view else 1
    return uses


# Stacks that a loop writes one iteration at a time: the residuals and stacked results of a `lax.scan`.
#
# In the program a stack is a buffer of zeros passed to the loop, and the loop's result; neither names its content.

_SAME = ("stablehlo.reshape", "stablehlo.convert", "stablehlo.broadcast_in_dim", "stablehlo.transpose")


def find_stacked(structure: Structure) -> dict[int, int]:
    """Stacks written by loops, before and after their loop, with the operation that makes the rows."""
    makers: dict[int, int] = {}
    for loop, body in structure.body_of.items():
        arguments = [value for value in structure.regions[body].values if structure.values[value].maker < 0]
        slots = zip(arguments, returned_values(structure, body), strict=False)
        for slot, (argument, returned) in enumerate(slots):
            written = _written_into(structure, argument, returned)
            maker = -1 if written is None else _maker(structure, body, written)
            op = structure.ops[loop]
            if maker >= 0 and slot < len(op.results):
                makers |= {op.results[slot]: maker, op.operands[slot]: maker}
    return makers


def _written_into(structure: Structure, argument: int, handed_on: int) -> int | None:
    """The value that the body writes into its argument before returning it; `None` if it does something else."""
    maker = structure.values[handed_on].maker
    op = structure.ops[maker] if maker >= 0 else None
    return op.operands[1] if op and op.kind == _UPDATE and op.operands[0] == argument else None


def _maker(structure: Structure, body: int, value: int) -> int:
    """The operation that computes a value, looking through reshapes, casts and the loop's carry, or -1."""
    while (maker := structure.values[value].maker) >= 0 and structure.ops[maker].kind in _SAME:
        value = structure.ops[maker].operands[0]
    if maker >= 0:
        return maker
    arguments = [number for number in structure.regions[body].values if structure.values[number].maker < 0]
    returned = dict(zip(arguments, returned_values(structure, body), strict=False))
    return structure.values[returned[value]].maker if value in returned else -1
