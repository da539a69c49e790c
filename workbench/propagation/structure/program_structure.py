"""The structure that the partitioner's answer is read against: a prepared program's values, their lifetimes, its loops (see
`read_structure`)."""

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
    on_host: bool = False  # see `host_values`


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
    is_recomputed: bool = False  # a dot that rematerialisation computes again
    placement: str = ""  # the memory it moves its operand to (see `host_values`)
    custom_kernel: str = ""  # the hand-written kernel it is a part of (see `kernel_instances`)
    keeps_operand_precision: bool = False  # a dot that keeps its operands' precision (see `operation_work.is_exact`)
    lowers_to_select: bool = False  # a scatter that is a selection (see `operation_work.selects`)
    runs_row_by_row: bool = False  # a scatter that runs a row at a time (see `operation_work.is_serial`)
    windows: OperandAccess | None = None  # through which it reads


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
    kernel_constants: frozenset[int] = frozenset()  # values that hand-written kernels compute of nothing (see `kernel_constants`)


def operations_at_places(structure: Structure, places: Sequence[int]) -> list[int | None]:
    """The operations at places of the program as traced; `None` for a place that is not known (-1).

    Where the planner dropped an operation, that is the one before it.
    """
    by_position = sorted((op.position, number) for number, op in enumerate(structure.ops))
    positions = [position for position, _ in by_position]
    return [by_position[max(bisect_right(positions, place) - 1, 0)][1] if place >= 0 else None for place in places]
