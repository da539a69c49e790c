"""What the partitioner's answer is read against: the values of a prepared program, their lifetimes and their loops. Made once a program.

Fusion is modelled as the compilers do it to first order: an elementwise value with one use, and one that only repeats or counts, is
computed inside its user and never stored; what it reads then lives until that user.
"""

import math
from dataclasses import dataclass, field

from jax.extend.mlir import ir

from workbench.partition.attributes import dtype_name
from workbench.partition.capture import is_open
from workbench.partition.context import main_function
from workbench.partition.hlo_form import ORDER
from workbench.partition.host import mark_host_values, placement_of
from workbench.partition.inline import CALLER
from workbench.partition.location import readable_path, scope_of
from workbench.partition.loops import trip_count
from workbench.partition.marks import marked_kernel
from workbench.partition.operations import CONSTANTS, CONTROL_FLOW, ELEMENTWISE
from workbench.partition.own_communication import Own, own_of
from workbench.partition.work import Work, shifted_dims, work_of

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
_SLICING = frozenset({"stablehlo.dynamic_slice", "stablehlo.gather", "stablehlo.slice"})
_NEED_NO_RULE = frozenset({*CONTROL_FLOW, *CONSTANTS, "stablehlo.iota", "stablehlo.return", "func.return"})  # and those of Shardy itself
_SCALARS = 256  # a constant of more elements is an array the function closed over, and takes memory


@dataclass(slots=True)
class Value:
    """One value: a result, or an argument of main or of a loop body. Positions are places in the program as traced."""

    shape: tuple[int, ...]
    dtype: str
    born: int  # the id of the operation that makes it; -1 for an argument
    result: int  # which result, or which argument
    region: int
    last_use: int = -1  # a position
    reads: int = 0
    stored: bool = True
    alias: int | None = None  # the value whose memory it takes over
    on_host: bool = False  # see `host`


@dataclass(slots=True)
class Region:
    """Main or a loop body: how often it runs a step, and the operation it belongs to."""

    parent: int
    times: int
    values: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Op:
    """An operation's unchanging facts, for one execution."""

    kind: str
    region: int
    position: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    work: Work
    shifted: tuple[int, ...]  # dimensions of the first result (see `work.shifted_dims`)
    trips_known: bool = True
    again: bool = False  # a product that rematerialisation computes again
    placement: str = ""  # the memory it moves its operand to (see `host`)
    kernel: str = ""  # the hand-written kernel it is a part of (see `kernels`)
    own: Own | None = None  # what it may send by itself (see `own_communication`)


@dataclass(slots=True)
class Structure:
    """All operations by id, all values, all regions."""

    ops: list[Op] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    arguments: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()
    body_of: dict[int, int] = field(default_factory=dict)  # while operation -> its body's region
    control_flow: list[int] = field(default_factory=list)  # ids of loops and branches
    shifting: list[int] = field(default_factory=list)  # ids of operations with shifted dimensions
    reshapes: list[int] = field(default_factory=list)  # ids of reshapes
    firsts: list[int] = field(default_factory=list)  # the first result of each operation that has one
    shapes: list[tuple[int, ...]] = field(default_factory=list)  # of these
    ruleless: list[int] = field(default_factory=list)  # ids of operations that Shardy has no rule for
    kinds: frozenset[str] = frozenset()  # of the operations
    constrains: bool = False  # whether the function itself constrains a value
    updates: set[int] = field(default_factory=set)  # ids of the optimiser's additions
    heights: list[int] = field(default_factory=list)  # of each operation: the longest chain of users after it in its region
    kernels: int = 0  # operations that store their results, in a step: the others are fused into them


def read_structure(module: ir.Module) -> Structure:
    """Walk a prepared module once."""
    reader = _Reader()
    main = main_function(module.operation)
    block = main.regions[0].blocks[0]
    reader.structure.regions.append(Region(-1, 1))
    reader.structure.arguments = tuple(reader.new_value(value, -1, i, 0) for i, value in enumerate(block.arguments))
    reader.read_block(block, 0)
    reader.structure.returned = reader.returned
    mark_host_values(reader.structure)
    _mark_fusion(reader.structure)
    reader.structure.reshapes = [number for number, op in enumerate(reader.structure.ops) if op.kind == "stablehlo.reshape"]
    reader.structure.firsts = [op.results[0] for op in reader.structure.ops if op.results]
    reader.structure.shapes = [reader.structure.values[value].shape for value in reader.structure.firsts]
    reader.structure.kinds = frozenset(op.kind for op in reader.structure.ops)
    reader.structure.heights = _heights(reader.structure)
    reader.structure.kernels = _count_kernels(reader.structure)
    return reader.structure


class _Reader:
    def __init__(self) -> None:
        self.structure = Structure()
        self.returned: tuple[int, ...] = ()
        self._position = 0
        self._ids: dict[ir.Value, int] = {}
        self._products_outside = 0
        self._read_by: set[tuple[int, str]] = set()  # a value, and a kernel that reads it
        self._types: dict[ir.Type, tuple[tuple[int, ...], str]] = {}

    def new_value(self, value: ir.Value, born: int, result: int, region: int) -> int:
        index = self._ids[value] = len(self.structure.values)
        shape, dtype = self._type(value.type)
        self.structure.values.append(Value(shape, dtype, born, result, region))
        self.structure.regions[region].values.append(index)
        return index

    def _type(self, kind: ir.Type) -> tuple[tuple[int, ...], str]:
        if kind not in self._types:
            ranked = isinstance(kind, ir.RankedTensorType)
            self._types[kind] = (
                (tuple(ir.RankedTensorType(kind).shape), dtype_name(str(ir.RankedTensorType(kind).element_type)))
                if ranked
                else ((), "bool")
            )
        return self._types[kind]

    def read_block(self, block: ir.Block, region: int) -> None:
        for each in block.operations:
            op = each.operation
            index = len(self.structure.ops)
            operands = tuple(self._ids[value] for value in op.operands)
            self.returned = operands
            if ORDER in op.attributes:  # else it was made beside the operation before it
                self._position = ir.IntegerAttr(op.attributes[ORDER]).value
            work, kernel = self._in_kernel(op)
            record = Op(op.name, region, self._position, operands, (), work, shifted_dims(op), kernel=kernel)
            record.placement, record.own = placement_of(op), own_of(op)
            record.again = work.flops > 0 and "rematted_computation" in scope_of(op.location)
            self.structure.ops.append(record)
            if op.name == "stablehlo.add" and readable_path(scope_of(op.location)).startswith("optimizer/"):
                self.structure.updates.add(index)
            for operand in set(operands):
                self._use(operand, index)
            record.results = tuple(self.new_value(value, index, i, region) for i, value in enumerate(op.results))
            if record.shifted or (record.own is not None and op.name == "stablehlo.custom_call"):
                self.structure.shifting.append(index)
            if op.name == "sdy.sharding_constraint" and not is_open(op):
                self.structure.constrains = True
            if "sdy.sharding_rule" not in op.attributes and op.name not in _NEED_NO_RULE and not op.name.startswith("sdy."):
                self.structure.ruleless.append(index)
            if op.name in CONTROL_FLOW:
                self.structure.control_flow.append(index)
                self._read_regions(op, index, record)

    def _read_regions(self, op: ir.Operation, index: int, record: Op) -> None:
        trips = trip_count(op) if op.name == "stablehlo.while" else 1
        record.trips_known = trips is not None
        outer = self.structure.regions[record.region].times
        for i, region in enumerate(op.regions):
            number = len(self.structure.regions)
            self.structure.regions.append(Region(index, outer * (1 if trips is None else trips)))
            if op.name == "stablehlo.while" and i == 1:
                self.structure.body_of[index] = number
            for block in region.blocks:
                for k, value in enumerate(block.arguments):
                    self.new_value(value, -1, k, number)
                self.read_block(block, number)

    def _use(self, value: int, user: int) -> None:
        """A use inside a loop is a use by the loop, where the value was made outside it."""
        record = self.structure.values[value]
        region = self.structure.ops[user].region
        while region != record.region and region > 0:
            user = self.structure.regions[region].parent
            region = self.structure.ops[user].region
        record.last_use = max(record.last_use, self.structure.ops[user].position)
        kernel = self.structure.ops[user].kernel
        if not kernel or (value, kernel) not in self._read_by:  # a kernel reads what it needs once
            self._read_by.add((value, kernel))
            record.reads += 1

    def _in_kernel(self, op: ir.Operation) -> tuple[Work, str]:
        """The work of an operation, and the hand-written kernel it is a part of, which may do less of it. A product outside ends a kernel:
        the same scope afterwards is another one."""
        caller = ir.StringAttr(op.attributes[CALLER]).value if CALLER in op.attributes else ""
        path = "/".join(word for word in (caller, scope_of(op.location)) if word)
        found, work = marked_kernel(path), work_of(op)
        if found is None:
            self._products_outside += work.flops > 0
            return work, ""
        name, share = found
        scope = readable_path(path).partition(f"{name}/")[0] + name
        return work._replace(flops=int(work.flops * share)), f"{scope}#{self._products_outside}"


def _heights(structure: Structure) -> list[int]:
    """A use inside a loop is a use by the loop."""
    heights = [0] * len(structure.ops)
    made_by = {result: index for index, op in enumerate(structure.ops) for result in op.results}
    for index in range(len(structure.ops) - 1, -1, -1):
        op = structure.ops[index]
        for source in {made_by[operand] for operand in op.operands if operand in made_by}:
            user = index
            while structure.ops[user].region != structure.ops[source].region:
                user = structure.regions[structure.ops[user].region].parent
            heights[source] = max(heights[source], heights[user] + 1)
    return heights


def _adds_to_argument(structure: Structure, value: int, users: dict[int, list[int]]) -> bool:
    """Whether a product is only turned, converted and added to an argument of main: a sum over micro-batches, made in the product's own
    kernel, where the argument lies."""
    while len(using := users.get(value, [])) == 1:
        op = structure.ops[using[0]]
        if op.kind == "stablehlo.add" and using[0] not in structure.updates:
            other = structure.values[op.operands[op.operands[0] == value]]
            return other.born < 0 and other.region == 0
        if op.kind not in ("stablehlo.transpose", "stablehlo.convert", "stablehlo.reshape"):
            return False
        value = op.results[0]
    return False


def _count_kernels(structure: Structure) -> int:
    values = structure.values
    stored = (op for op in structure.ops if any(values[result].stored and values[result].alias is None for result in op.results))
    return sum(structure.regions[op.region].times for op in stored)


def _mark_fusion(structure: Structure) -> None:
    """Which values are never stored, and how long what they read must live; from the last operation to the first."""
    users: dict[int, list[int]] = {}
    for index, op in enumerate(structure.ops):
        for operand in set(op.operands):
            users.setdefault(operand, []).append(index)
    for index in range(len(structure.ops) - 1, -1, -1):
        op = structure.ops[index]
        if op.kind == "stablehlo.reduce_precision":  # a mark: who reads it reads what it marks
            users[op.operands[0]].remove(index)
            users[op.operands[0]] += users.get(op.results[0], [])
        for slot, result in enumerate(op.results):
            value = structure.values[result]
            using = users.get(result, [])
            if op.kind in _ALIASING:
                value.alias = op.operands[slot]
                structure.values[op.operands[slot]].last_use = max(structure.values[op.operands[slot]].last_use, value.last_use)
            elif op.kind == "stablehlo.dynamic_update_slice":
                value.alias = op.operands[0]
            is_array = op.kind in CONSTANTS and math.prod(value.shape) > _SCALARS
            into_one = len(using) == 1 and structure.ops[using[0]].kind in _FUSING
            into_products = bool(using) and all(structure.ops[user].kind == "stablehlo.dot_general" for user in using)
            folded = op.kind == "stablehlo.transpose" and into_products
            fused = (op.kind in _CHEAP and not is_array) or (op.kind in _FUSIBLE and (into_one or folded))
            inside = bool(op.kernel) and bool(using) and all(structure.ops[user].kernel == op.kernel for user in using)
            adds_up = op.kind == "stablehlo.dot_general" and _adds_to_argument(structure, result, users)
            if (fused or inside or adds_up) and all(structure.ops[user].region == op.region for user in using):
                value.stored = False
                for operand in op.operands:
                    source = structure.values[operand]
                    if source.region == op.region:
                        source.last_use = max(source.last_use, value.last_use)
            if op.kind in _SLICING:
                structure.values[op.operands[0]].reads -= 1  # reads only what it returns
    for body in structure.body_of.values():
        for index in structure.regions[body].values:
            if structure.values[index].born < 0:
                structure.values[index].stored = False  # lives in the loop's own buffers
    _write_over_operands(structure)


def _write_over_operands(structure: Structure) -> None:
    """A hand-written kernel's result takes the place of an operand of its shape and type that no one reads afterwards: the gradient of a
    fused loss lies where the logits did."""
    read: dict[tuple[str, int], dict[int, None]] = {}
    values = structure.values
    for op in structure.ops:
        if not op.kernel:
            continue
        mine = read.setdefault((op.kernel, op.region), {})
        mine.update(dict.fromkeys(_buffer_of(values, operand) for operand in op.operands))
        for value in (values[result] for result in op.results):
            if not value.stored or value.alias is not None:
                continue
            free = (operand for operand in mine if _can_be_overwritten(structure, operand, op))
            alike = (operand for operand in free if (values[operand].shape, values[operand].dtype) == (value.shape, value.dtype))
            if (place := next(alike, None)) is not None:
                value.alias = place
                values[place].last_use = max(values[place].last_use, value.last_use)


def _buffer_of(values: list[Value], index: int) -> int:
    while (alias := values[index].alias) is not None:
        index = alias
    return index


def _can_be_overwritten(structure: Structure, operand: int, op: Op) -> bool:
    """Whether a kernel's operand is a buffer that another kernel made and that dies here."""
    value = structure.values[operand]
    is_buffer = value.born >= 0 and value.stored and value.region == op.region
    return is_buffer and value.last_use <= op.position and structure.ops[value.born].kernel != op.kernel
