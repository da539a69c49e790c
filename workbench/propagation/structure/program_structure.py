"""The structure that the partitioner's answer is read against: a prepared program's values, their lifetimes, its loops (see
`read_structure`).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench.propagation.structure.choose_dot_shardings import DotFacts
from workbench.propagation.structure.operation_work import OperationWork
from workbench.propagation.structure.windows import OperandAccess


@dataclass(slots=True)
class TracedValue:
    """One value: a result, or an argument of main or of a loop body. Positions are places in the program as traced."""

    shape: tuple[int, ...]
    dtype: str
    maker: int  # the id of the operation that makes it; -1 for an argument
    result: int  # which result, or which argument
    region: int
    last_use: int = -1  # a position
    reads: int = 0
    stored: bool = True
    alias: int | None = None  # the value whose memory it takes over
    on_host: bool = False  # see `read_structure`


@dataclass(slots=True)
class Region:
    """Main or a loop body: how often it runs a step, and the operation it belongs to."""

    parent: int
    runs_per_step: int
    values: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Op:
    """An operation's unchanging facts, for one execution."""

    kind: str
    region: int
    position: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    work: OperationWork
    crossing_dims: tuple[int, ...]  # dimensions of the first result (see `operation_work.shifted_dims`)
    trips_known: bool = True
    trips_stated: int | None = None  # by the plan's layout, of a loop whose trip count is not known
    is_recomputed: bool = False  # a dot that rematerialisation computes again
    placement: str = ""  # the memory it moves its operand to (see `read_structure`)
    custom_kernel: str = ""  # the hand-written kernel it is a part of (see `kernel_instances`)
    keeps_operand_precision: bool = False  # a dot that keeps its operands' precision (see `operation_work.is_exact`)
    lowers_to_select: bool = False  # a scatter that is a selection (see `operation_work.selects`)
    runs_row_by_row: bool = False  # a scatter that runs a row at a time (see `operation_work.is_serial`)
    windows: OperandAccess | None = None  # through which it reads
    varies_along: tuple[str, ...] = ()  # of a dot in a `shard_map`: the manual axes along which devices compute different parts
    unsplit_dims: tuple[int, ...] = ()  # of its first operand (see `operation_work.unsplit_dims`)


@dataclass(slots=True)
class Structure:
    """All operations by id, all values, all regions."""

    ops: list[Op] = field(default_factory=list)
    values: list[TracedValue] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    arguments: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()
    body_of: dict[int, int] = field(default_factory=dict)  # while operation -> its body's region
    control_flow: list[int] = field(default_factory=list)  # ids of loops and branches
    crossing_ops: list[int] = field(default_factory=list)  # ids of operations with shifted dimensions
    reshapes: list[int] = field(default_factory=list)  # ids of reshapes
    first_results: list[int] = field(default_factory=list)  # the first result of each operation that has one
    first_result_shapes: list[tuple[int, ...]] = field(default_factory=list)  # of these
    ops_without_rule: list[int] = field(default_factory=list)  # ids of operations that Shardy has no rule for
    kinds: frozenset[str] = frozenset()  # of the operations
    has_constraints: bool = False  # whether the function itself constrains a value
    optimizer_additions: set[int] = field(default_factory=set)  # ids of the optimiser's additions
    heights: list[int] = field(default_factory=list)  # of each operation: the longest chain of users after it in its region
    dots: dict[int, DotFacts] = field(default_factory=dict)  # by id
    order: tuple[int, ...] = ()  # the ids of all operations, each behind what it reads, those of a hand-written kernel together
    kernel_constants: frozenset[int] = frozenset()  # values that hand-written kernels compute of nothing (see `kernel_instances`)


def operations_at_places(structure: Structure, places: Sequence[int]) -> list[int | None]:
    """The operations at places of the program as traced; `None` for a place that is not known (-1).

    Where the planner dropped an operation, that is the one before it.
    """
    by_position = sorted((op.position, number) for number, op in enumerate(structure.ops))
    positions = [position for position, _ in by_position]
    return [by_position[max(bisect_right(positions, place) - 1, 0)][1] if place >= 0 else None for place in places]


# What a loop carries and never changes: constants of a `lax.scan`, and the stacks it takes slices of.


def unchanged_slots(structure: Structure, loop: int) -> frozenset[int]:
    """The places among a loop's operands whose value its body hands on as it is."""
    body = structure.body_of[loop]
    arguments = [each for each in structure.regions[body].values if structure.values[each].maker < 0]
    handed_on = zip(arguments, returned_values(structure, body), strict=False)
    return frozenset(slot for slot, (argument, value) in enumerate(handed_on) if argument == value)


def returned_values(structure: Structure, body: int) -> tuple[int, ...]:
    """What the body of a loop hands on to its next iteration."""
    last = max((index for index, op in enumerate(structure.ops) if op.region == body), default=None)
    return () if last is None else structure.ops[last].operands


def unchanged_arguments(structure: Structure) -> frozenset[int]:
    """The arguments of loops' bodies that stand for such values."""
    found: set[int] = set()
    for loop, body in structure.body_of.items():
        arguments = [each for each in structure.regions[body].values if structure.values[each].maker < 0]
        found.update(arguments[slot] for slot in unchanged_slots(structure, loop))
    return frozenset(found)


# Rotations, `jnp.roll`: two slices of one value, put together again the other way around.
#
# XLA's partitioner knows them (`PartitionConcatenate`, `RotateRight`): what a device gets of a dimension that is split comes from its
# neighbour, and neither slice is ever laid out, and padded, by itself. As planned, what is sent is counted at the slices; that is all of it
# where each shard is one element, as in a ring of blocks or a pipeline's shifting buffer.


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
