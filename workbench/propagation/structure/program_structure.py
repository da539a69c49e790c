"""The structure of a prepared program, against which the partitioner's answer is read: values, lifetimes, loops (see
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
    """A value: an operation's result, or an argument of main or a loop body. Positions are those in the traced program."""

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
    """Main or a loop body: its runs per step and the operation it belongs to."""

    parent: int
    runs_per_step: int
    values: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Op:
    """An operation's layout-independent facts, for one execution."""

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
    updates_in_place: bool = False  # an update, but of an argument that is not donated: the compiler copies that first
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
    optimizer_additions: set[int] = field(default_factory=set)  # ids of the optimizer's additions
    heights: list[int] = field(default_factory=list)  # of each operation: the longest chain of users after it in its region
    dots: dict[int, DotFacts] = field(default_factory=dict)  # by id
    order: tuple[int, ...] = ()  # the ids of all operations, each behind what it reads, those of a hand-written kernel together
    kernel_constants: frozenset[int] = frozenset()  # values that hand-written kernels compute of nothing (see `kernel_instances`)


def operations_at_places(structure: Structure, places: Sequence[int]) -> list[int | None]:
    """The operations at traced positions (for dropped ones, those before); `None` for an unknown position (-1)."""
    by_position = sorted((op.position, number) for number, op in enumerate(structure.ops))
    positions = [position for position, _ in by_position]
    return [by_position[max(bisect_right(positions, place) - 1, 0)][1] if place >= 0 else None for place in places]


# Loop invariants: constants of a `lax.scan`, and its stacked inputs.


def invariant_slots(structure: Structure, loop: int) -> frozenset[int]:
    """The operand positions of a loop whose value its body returns unchanged."""
    body = structure.body_of[loop]
    arguments = [value_number for value_number in structure.regions[body].values if structure.values[value_number].maker < 0]
    pairs = zip(arguments, returned_values(structure, body), strict=False)
    return frozenset(slot for slot, (argument, value) in enumerate(pairs) if argument == value)


def returned_values(structure: Structure, body: int) -> tuple[int, ...]:
    """The values that the body of a loop returns to its next iteration."""
    last = max((index for index, op in enumerate(structure.ops) if op.region == body), default=None)
    return () if last is None else structure.ops[last].operands


def invariant_arguments(structure: Structure) -> frozenset[int]:
    """The arguments of loop bodies that are loop-invariant."""
    invariants: set[int] = set()
    for loop, body in structure.body_of.items():
        arguments = [value for value in structure.regions[body].values if structure.values[value].maker < 0]
        invariants.update(arguments[slot] for slot in invariant_slots(structure, loop))
    return frozenset(invariants)


# Rotations, `jnp.roll`: two slices of one value, concatenated in the other order.
#
# XLA's partitioner handles them (`PartitionConcatenate`, `RotateRight`): along a sharded dimension a device receives from its
# neighbor, and neither slice is sharded and padded separately. As planned, the payload is counted at the slices; that is exact
# if each shard is one element, as in a ring of blocks or a pipeline's shifting buffer.


_SLICE, _CONCATENATE = "stablehlo.slice", "stablehlo.concatenate"


def find_rotations(structure: Structure) -> frozenset[int]:
    """The ids of concatenations that are rotations, and of their slices."""
    rotations: set[int] = set()
    for index in structure.crossing_ops:
        op = structure.ops[index]
        if op.kind == _CONCATENATE and (len(op.operands), len(op.crossing_dims)) == (2, 1):
            makers = [structure.values[operand].maker for operand in op.operands]
            if _is_rotation(structure, op, makers):
                rotations |= {index, *makers}
    return frozenset(rotations)


def _is_rotation(structure: Structure, op: Op, makers: list[int]) -> bool:
    """Return whether the first operand is the end of a value, and the second the rest before it."""
    if min(makers) < 0:
        return False
    slices = [structure.ops[maker] for maker in makers]
    if any(part.kind != _SLICE or part.windows is None for part in slices) or slices[0].operands != slices[1].operands:
        return False
    (dim,) = op.crossing_dims
    end, start = (part.windows.dims[dim] for part in slices if part.windows is not None)
    size = structure.values[slices[0].operands[0]].shape[dim]
    whole = structure.values[op.results[0]].shape == structure.values[slices[0].operands[0]].shape
    return whole and (end.high, start.low) == (0, 0) and start.count(size) == -end.low and {end.stride, start.stride} == {1}
