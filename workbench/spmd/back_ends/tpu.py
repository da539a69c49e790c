"""What XLA:TPU makes of the partitioned program before it runs: the habits that change what is sent, each a rewrite of its own.

Each was read off modules that libtpu compiled; the pass of XLA is named where it is public. They go by the flow of data in the partitioned
module, so that nothing here knows a model or a layout.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from workbench.mesh import Mesh
from workbench.sharding import base_axis
from workbench.spmd.back_ends.flow import MOVES, moved_from, source_of
from workbench.spmd.back_ends.loops import hoist, sum_behind
from workbench.spmd.collectives import Found, Users, operations_named
from workbench.spmd.module import Computation, Instruction
from workbench.spmd.shapes import Array

KEPT_FOR = 100
"""Operations that a gathered value may wait for its next reader before it is gathered again (`schedule_aware_collective_cse.cc`)."""

LANES = 128
"""Elements of a row in a vector register."""

_PASSES_ON = (  # these are of the precision of what they read (`bfloat16_support.cc`)
    *("bitcast", "broadcast", "copy", "dynamic-slice", "get-tuple-element", "maximum", "minimum", "pad", "reshape"),
    *("reverse", "select", "slice", "transpose", "all-gather", "all-to-all", "collective-permute"),
)
_SCALINGS = ("add", "divide", "multiply", "subtract")
"""By one number they are done before the reshape that a gather is for (`reshape_mover.cc`), and so before the gather."""

_PRODUCTS = ("dot", "convolution")
_GATHERS = ("all-gather", "all-to-all", "collective-permute")

Rewrite = Callable[[Sequence[Found], Mesh], Sequence[Found]]


def rewrite_for_tpu(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """The collectives that XLA:TPU makes of those that the partitioner made, sums as sums (`scatter` has those that are scattered)."""
    for rewrite in REWRITES:
        found = rewrite(found, mesh)
    return found


def fold_reductions(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """A sum along one set of axes of a sum along another is one along both (`all_reduce_folder.cc`)."""
    return _fold(found, mesh, "all-reduce")


def fold_gathers(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """What is gathered along one set of axes and then along another is gathered along both at once."""
    return _fold(found, mesh, "all-gather")


def _fold(found: Sequence[Found], mesh: Mesh, kind: str) -> Sequence[Found]:
    """Two of a kind one behind the other, the first read by the second alone, as one."""
    firsts = {(id(each.computation), each.instruction.name): each for each in found if each.collective.kind == kind}
    folded: dict[tuple[int, str], Found] = {}
    gone: set[tuple[int, str]] = set()
    for key, each in firsts.items():
        source = source_of(each, alone=True)
        if source is None or (inner := (key[0], source.name)) not in firsts or len(each.instruction.operands) > 1:
            continue
        first = folded.get(inner, firsts[inner])
        axes = sorted({*first.collective.axes, *each.collective.axes}, key=lambda axis: (mesh.names.index(base_axis(axis)), axis))
        merged = replace(each.collective, axes=tuple(axes), made_by=first.collective.made_by)
        folded[key] = each._replace(collective=merged)
        gone.add(inner)
    keys = [(id(each.computation), each.instruction.name) for each in found]
    return [folded.get(key, each) for key, each in zip(keys, found, strict=True) if key not in gone]


def add_first(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """Two sums along the same axes that are only added are added first and reduced together (`all_reduce_reassociate.cc`), also where each
    device adds the slices of them that it keeps."""
    del mesh
    sums = {(id(each.computation), each.instruction.name): each for each in found if each.collective.kind == "all-reduce"}
    gone: set[int] = set()
    for each in {id(each.computation): each for each in found}.values():
        for value in each.computation.values():
            if value.opcode == "add" and (pair := _added(each, value, sums)):
                gone.add(id(pair[1]))
                sums[id(each.computation), value.name] = pair[0]
    return [each for each in found if id(each) not in gone]


def _added(where: Found, value: Instruction, sums: Mapping[tuple[int, str], Found]) -> tuple[Found, Found] | None:
    """The two collectives that make what is added here, if they are alike and nothing else reads them."""
    sides = [_summand(where, where.computation[name]) for name in value.operands]
    known = [sums.get((id(where.computation), side.name)) for side in sides if side is not None]
    if len(known) != len(value.operands) or known[0] is None or known[1] is None or known[0] is known[1]:
        return None
    one, other = known[0].collective, known[1].collective
    return (known[0], known[1]) if (one.axes, one.payload, one.count) == (other.axes, other.payload, other.count) else None


def _summand(where: Found, value: Instruction) -> Instruction | None:
    """What an addition adds, moved about at most: what a scatter adds to a sum is added behind all others (`algebraic_simplifier.cc`)."""
    moves = (*MOVES, "dynamic-slice")
    side = moved_from(where.computation, where.users, value, alone=True, moves=moves)
    if side is None or side.opcode != "add" or len(where.users[side.name]) > 1:
        return side
    summands = [moved_from(where.computation, where.users, where.computation[name], alone=True) for name in side.operands]
    rest = [name for name, each in zip(side.operands, summands, strict=True) if each is None or each.opcode != "scatter"]
    return moved_from(where.computation, where.users, where.computation[rest[0]], alone=True, moves=moves) if len(rest) == 1 else side


def gather_again(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """A value that several read is gathered once for those that are near each other, and again for one that comes much later.

    XLA:TPU gathers for each reader, and then merges (`schedule_aware_collective_cse.cc`); the gathers found here are of all readers.
    """
    del mesh
    heights: dict[int, Mapping[str, int]] = {}
    done: set[tuple[object, ...]] = set()
    result: list[Found] = []
    alike: dict[tuple[object, ...], list[Found]] = {}
    for each in found:
        alike.setdefault(_sameness(each), []).append(each)
    for each in found:
        key = _sameness(each)
        if each.collective.kind != "all-gather":
            result.append(each)
        elif key not in done:
            done.add(key)
            height = heights.setdefault(id(each.computation), _heights(each.computation, each.users))
            result += _runs(alike[key], height)
    return result


def _sameness(found: Found) -> tuple[object, ...]:
    """Gathers with the same are of one value, along the same axes, into the same shape."""
    source = source_of(found, alone=False)
    size = found.instruction.arrays[0].dims if found.instruction.arrays else ()
    return (
        id(found.computation),
        found.collective.kind,
        source.name if source else "",
        found.collective.axes,
        found.collective.result,
        tuple(sorted(size)),
    )


def _runs(gathers: Sequence[Found], height: Mapping[str, int]) -> list[Found]:
    """One gather for the first reader and those that lie near, and one for each of the others: XLA compares with the first alone."""
    order = {name: number for number, name in enumerate(gathers[0].computation)}
    readers = {name: gather for gather in gathers for name in _readers(gather.users, gather.instruction)}
    runs: list[Found] = []
    lowest = -1
    for name in sorted(readers, key=order.__getitem__):
        if runs and lowest <= height[name] + 1 + KEPT_FOR:
            lowest = min(lowest, height[name])
            continue
        lowest = height[name] if not runs else lowest
        gather, names = readers[name], operations_named(gathers[0].computation[name].op_name)
        runs.append(gather._replace(collective=replace(gather.collective, read_by=next(iter(names), gather.collective.read_by))))
    return runs or [gathers[0]]


def _readers(users: Users, value: Instruction) -> list[str]:
    """What reads a value, moves left out."""
    return [name for user in users.get(value.name, ()) for name in (_readers(users, user) if user.opcode in MOVES else (user.name,))]


def _heights(computation: Computation, users: Users) -> Mapping[str, int]:
    """How much comes behind each instruction, as XLA counts it: one more for each user, the latest first."""
    height: dict[str, int] = {}
    for name in reversed(list(computation)):
        own = 0
        for user in reversed(users.get(name, ())):
            own = max(own, height.get(user.name, 0)) + 1
        height[name] = own
    return height


def permute_once(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """A border that a convolution and the gradient of its weights read is sent once."""
    del mesh
    sent: set[tuple[object, ...]] = set()
    kept: list[Found] = []
    for each in found:
        users = each.users.get(each.instruction.name, ())
        if each.collective.kind == "collective-permute" and any(_is_convolved(each.users, user) for user in users):
            key = id(each.computation), each.instruction.operands, str(each.instruction.fields.source_target_pairs)
            if key in sent:
                continue
            sent.add(key)
        kept.append(each)
    return kept


def _is_convolved(users: Users, value: Instruction) -> bool:
    """Whether a value is a part with its borders, masked or not, for convolutions alone."""
    readers = users.get(value.name, ())
    is_each = (each.opcode == "convolution" or (each.opcode == "select" and _is_convolved(users, each)) for each in readers)
    return value.opcode in ("concatenate", "select") and bool(readers) and all(is_each)


def reduce_short_rows(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """A gather of parts of one dimension that do not fill the lanes of a vector becomes a sum: each device adds its part to zeros."""
    del mesh
    return [each._replace(collective=replace(each.collective, kind="all-reduce")) if _is_short_row(each) else each for each in found]


def _is_short_row(found: Found) -> bool:
    operand = found.computation[found.instruction.operands[found.number]]
    dims = operand.arrays[0].dims if operand.arrays else ()
    return found.collective.kind == "all-gather" and len(dims) == 1 and dims[0] % LANES > 0


def narrow(found: Sequence[Found], mesh: Mesh) -> Sequence[Found]:
    """Four-byte floats that only products read, which round them to two bytes, are sent so (`bfloat16_propagation.cc`); what was widened
    just before it is sent is sent as it was."""
    del mesh
    known: dict[tuple[int, str], bool] = {}
    return [_narrowed(each, known) if each.collective.kind in _GATHERS else each for each in found]


def _narrowed(found: Found, known: dict[tuple[int, str], bool]) -> Found:
    operand = found.computation[found.instruction.operands[found.number]]
    if len(operand.arrays) != 1:
        return found
    bits = operand.arrays[0].bits
    source = source_of(found, alone=False)
    narrow = bits
    if source is not None and source.opcode == "convert" and _is_exact_as(given := found.computation[source.operands[0]].arrays[0]):
        narrow = min(narrow, max(given.bits, 8))
    if operand.arrays[0].element == "f32" and is_read_rounded(found.computation, found.users, found.instruction, known):
        narrow = min(narrow, 16)
    sent = found.collective
    return found._replace(collective=replace(sent, payload=sent.payload * narrow // bits, result=sent.result * narrow // bits))


def _is_exact_as(given: Array) -> bool:
    """Whether a value is sent as it was before it was widened; whole numbers are sent as the floats that they became."""
    return given.element == "pred" or given.element.startswith(("f", "bf"))


def is_read_rounded(computation: Computation, users: Users, value: Instruction, known: dict[tuple[int, str], bool]) -> bool:
    """Whether all that read a value round it to two bytes."""
    key = id(computation), value.name
    if key not in known:
        known[key] = False
        readers = users.get(value.name, ())
        known[key] = bool(readers) and not value.is_root and all(_rounds(computation, users, each, known) for each in readers)
    return known[key]


def _rounds(computation: Computation, users: Users, user: Instruction, known: dict[tuple[int, str], bool]) -> bool:
    if user.opcode in _PRODUCTS:
        return not any(user.fields.precision_config.operand_precision)
    if user.opcode == "convert":
        return user.arrays[0].element == "bf16"
    passes = user.opcode in _PASSES_ON or _is_convolved(users, user) or (user.opcode in _SCALINGS and _is_by_scalars(computation, user))
    return passes and is_read_rounded(computation, users, user, known)


def _is_by_scalars(computation: Computation, user: Instruction) -> bool:
    """Whether an operation reads one array, and else what is one number for all of its elements."""
    others = [computation[name] for name in user.operands]
    return sum(each.opcode != "broadcast" or bool(computation[each.operands[0]].arrays[0].dims) for each in others) == 1


REWRITES: tuple[Rewrite, ...] = (
    *(hoist, fold_reductions, add_first, sum_behind, fold_gathers),
    *(gather_again, permute_once, narrow, reduce_short_rows),
)
