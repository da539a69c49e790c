"""Walks a prepared module once per program, and records every operation, value and loop by number."""

from jax.extend.mlir import ir

from workbench.core.path_patterns import stated_trip_count
from workbench.core.tensor import itemsize
from workbench.propagation.module.function_calls import scope_in_call
from workbench.propagation.module.hlo_form import ORDER
from workbench.propagation.module.loops import is_open, trip_count
from workbench.propagation.module.mlir_context import main_function
from workbench.propagation.module.operation_kinds import CONSTANTS, CONTROL_FLOW, is_print
from workbench.propagation.module.shardy_attributes import dtype_name
from workbench.propagation.module.source_location import marked_kernel, readable_path, scope_of, source_of
from workbench.propagation.module.varying_axes import marked_axes
from workbench.propagation.structure.choose_dot_shardings import DotFacts
from workbench.propagation.structure.kernel_instances import separate_kernels
from workbench.propagation.structure.operation_work import (
    OperationWork,
    is_exact,
    is_serial,
    read_dot_dims,
    selects,
    shifted_dims,
    unsplit_dims,
    work_of,
)
from workbench.propagation.structure.program_structure import Op, Region, Structure, TracedValue
from workbench.propagation.structure.stored_values import mark_stored
from workbench.propagation.structure.windows import windows_of

# Operations that need no sharding rule: Shardy gives the results of control flow and of barriers data-flow edges
# (`isDataFlowOp`). Shardy's own operations are not listed.
_NEED_NO_RULE = frozenset(
    {*CONTROL_FLOW, *CONSTANTS, "stablehlo.optimization_barrier", "stablehlo.iota", "stablehlo.return", "func.return"}
)


def _needs_no_rule(op: ir.Operation) -> bool:
    return op.name in _NEED_NO_RULE or op.name.startswith("sdy.") or is_print(op)


def read_structure(module: ir.Module, turns: tuple[tuple[str, int], ...] = (), donated: frozenset[int] = frozenset()) -> Structure:
    """The structure of a prepared module; `turns`: stated trip counts of data-dependent loops; `donated`: main's donated arguments."""
    reader = _StructureReader(turns)
    main = main_function(module.operation)
    block = main.regions[0].blocks[0]
    reader.structure.regions.append(Region(-1, 1))
    reader.structure.arguments = tuple(reader.new_value(value, -1, i, 0) for i, value in enumerate(block.arguments))
    reader.read_block(block, 0)
    reader.structure.returned = reader.returned
    separate_kernels(reader.structure)
    _count_reads(reader.structure)
    mark_host_values(reader.structure)
    mark_stored(reader.structure, donated)
    reader.structure.reshapes = [number for number, op in enumerate(reader.structure.ops) if op.kind == "stablehlo.reshape"]
    reader.structure.first_results = [op.results[0] for op in reader.structure.ops if op.results]
    reader.structure.first_result_shapes = [reader.structure.values[value].shape for value in reader.structure.first_results]
    reader.structure.kinds = frozenset(op.kind for op in reader.structure.ops)
    reader.structure.heights = _measure_heights(reader.structure)
    return reader.structure


class _StructureReader:
    def __init__(self, turns: tuple[tuple[str, int], ...]) -> None:
        self.structure, self._turns = Structure(), turns
        self.returned: tuple[int, ...] = ()
        self._position = 0
        self._ids: dict[ir.Value, int] = {}
        self._types: dict[ir.Type, tuple[tuple[int, ...], str]] = {}

    def new_value(self, value: ir.Value, born: int, result: int, region: int) -> int:
        index = self._ids[value] = len(self.structure.values)
        shape, dtype = self._shape_and_dtype(value.type)
        self.structure.values.append(TracedValue(shape, dtype, born, result, region))
        self.structure.regions[region].values.append(index)
        return index

    def _shape_and_dtype(self, kind: ir.Type) -> tuple[tuple[int, ...], str]:
        if kind not in self._types:
            ranked = isinstance(kind, ir.RankedTensorType)
            self._types[kind] = (
                (tuple(ir.RankedTensorType(kind).shape), dtype_name(str(ir.RankedTensorType(kind).element_type)))
                if ranked
                else ((), "bool")
            )
        return self._types[kind]

    def read_block(self, block: ir.Block, region: int) -> None:
        for item in block.operations:
            op = item.operation
            index = len(self.structure.ops)
            operands = tuple(self._ids[value] for value in op.operands)
            self.returned = operands
            if ORDER in op.attributes:  # otherwise it was created next to the previous operation
                self._position = ir.IntegerAttr(op.attributes[ORDER]).value
            work, kernel = self._work_in_kernel(op, operands)
            record = Op(op.name, region, self._position, operands, (), work, shifted_dims(op), custom_kernel=kernel)
            record.placement, record.windows, record.unsplit_dims = placement_of(op), windows_of(op), unsplit_dims(op)
            record.lowers_to_select, record.runs_row_by_row, record.keeps_operand_precision = (
                selects(op),
                is_serial(op),
                work.flops > 0 and is_exact(op),
            )
            record.is_recomputed = work.flops > 0 and "rematted_computation" in scope_of(op.location)
            self.structure.ops.append(record)
            if op.name == "stablehlo.add" and readable_path(scope_of(op.location)).startswith("optimizer/"):
                self.structure.optimizer_additions.add(index)
            for operand in set(operands):
                self._note_use(operand, index)
            if work.flops:
                record.varies_along = marked_axes(op)
                self._read_dot(op, index, operands)
            record.results = tuple(self.new_value(value, index, i, region) for i, value in enumerate(op.results))
            if record.crossing_dims:
                self.structure.crossing_ops.append(index)
            if op.name == "sdy.sharding_constraint" and not is_open(op):
                self.structure.has_constraints = True
            if "sdy.sharding_rule" not in op.attributes and not _needs_no_rule(op):
                self.structure.ops_without_rule.append(index)
            if op.name in CONTROL_FLOW:
                self.structure.control_flow.append(index)
                self._read_regions(op, index, record)

    def _read_dot(self, op: ir.Operation, index: int, operands: tuple[int, ...]) -> None:
        if (mapping := read_dot_dims(op)) is not None:
            values = [self.structure.values[item] for item in operands]
            shapes, dtypes = zip(*((item.shape, item.dtype) for item in values), self._shape_and_dtype(op.result.type), strict=True)
            self.structure.dots[index] = DotFacts(mapping, shapes, tuple(map(itemsize, dtypes)))

    def _read_regions(self, op: ir.Operation, index: int, record: Op) -> None:
        trips = trip_count(op) if op.name == "stablehlo.while" else 1
        record.trips_known = trips is not None
        if trips is None:
            record.trips_stated = trips = stated_trip_count(self._turns, readable_path(scope_in_call(op)), source_of(op.location))
        outer = self.structure.regions[record.region].runs_per_step
        for i, region in enumerate(op.regions):
            number = len(self.structure.regions)
            self.structure.regions.append(Region(index, outer * (1 if trips is None else trips)))
            if op.name == "stablehlo.while" and i == 1:
                self.structure.body_of[index] = number
            for block in region.blocks:
                for k, value in enumerate(block.arguments):
                    self.new_value(value, -1, k, number)
                self.read_block(block, number)

    def _note_use(self, value: int, user: int) -> None:
        """Record a use; a use inside a loop is a use by the loop if the value was made outside it."""
        record = self.structure.values[value]
        region = self.structure.ops[user].region
        while region != record.region and region > 0:
            user = self.structure.regions[region].parent
            region = self.structure.ops[user].region
        record.last_use = max(record.last_use, self.structure.ops[user].position)

    def _work_in_kernel(self, op: ir.Operation, operands: tuple[int, ...]) -> tuple[OperationWork, str]:
        """The work of an operation, and the scope of its hand-written kernel, which may do only a fraction of it."""
        path, work = scope_in_call(op), work_of(op)
        if op.name == "sdy.data_flow_edge":  # has another path than the value it passes on
            maker = self.structure.values[operands[0]].maker
            return work, self.structure.ops[maker].custom_kernel if maker >= 0 else ""
        mark = marked_kernel(path)
        if mark is None:
            return work, ""
        name, share = mark
        return work._replace(flops=int(work.flops * share)), readable_path(path).partition(f"{name}/")[0] + name


def _count_reads(structure: Structure) -> None:
    """Count the operations that read each value; a hand-written kernel reads an input once."""
    seen: set[tuple[int, str]] = set()
    for op in structure.ops:
        for operand in set(op.operands):
            if not op.custom_kernel or (operand, op.custom_kernel) not in seen:
                seen.add((operand, op.custom_kernel))
                structure.values[operand].reads += 1


def _measure_heights(structure: Structure) -> list[int]:
    """For each operation the length of the longest chain of uses after it; a use inside a loop is a use by the loop."""
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


# Values in host memory: values offloaded by a checkpoint policy, the buffers a loop stacks them in, and arguments that are only fetched.

PLACING = "annotate_device_placement"
_FRONTEND, _PLACE = "mhlo.frontend_attributes", "_xla_buffer_placement"
_MOVING = frozenset(  # kinds whose result is in the memory of their first operand
    {
        "stablehlo.reshape",
        "stablehlo.transpose",
        "stablehlo.slice",
        "stablehlo.dynamic_slice",
        "sdy.data_flow_edge",
        "sdy.sharding_constraint",
    }
)


def placement_of(op: ir.Operation) -> str:
    """The memory an operation moves its operand to, `pinned_host` or `device`; empty for an operation that computes."""
    if op.name != "stablehlo.custom_call" or ir.StringAttr(op.attributes["call_target_name"]).value != PLACING:
        return ""
    return ir.StringAttr(ir.DictAttr(op.attributes[_FRONTEND])[_PLACE]).value


def mark_host_values(structure: Structure) -> None:
    """Mark values in host memory, from each transfer on, through slices and loops that stack them."""
    if not any(op.placement for op in structure.ops):
        return
    values = structure.values
    before = -1
    while before != (now := sum(value.on_host for value in values)):  # nested loops take several passes
        before = now
        for index, op in enumerate(structure.ops):
            if op.placement:
                values[op.results[0]].on_host = "host" in op.placement
                source = values[op.operands[0]]
                if "host" in op.placement and source.maker < 0 and source.region == 0 and source.reads == 1:
                    source.on_host = True  # an argument in host memory: `tracing.update_from_host`
            elif op.kind == "stablehlo.dynamic_update_slice":
                values[op.results[0]].on_host = any(values[item].on_host for item in op.operands[:2])
            elif op.kind in _MOVING or op.kind == "stablehlo.optimization_barrier":
                for operand, result in zip(op.operands, op.results, strict=False):
                    values[result].on_host = values[operand].on_host
            elif index in structure.body_of:
                _mark_loop(structure, index)


def _mark_loop(structure: Structure, loop: int) -> None:
    """Mark a loop's host results also as its carried values, and as its start if nothing else reads that."""
    op, body, values = structure.ops[loop], structure.body_of[loop], structure.values
    arguments = [index for index in structure.regions[body].values if values[index].maker < 0]
    returned = next(item for item in reversed(structure.ops) if item.region == body).operands
    for slot, result in enumerate(op.results):
        start = values[op.operands[slot]]
        if values[returned[slot]].on_host or start.on_host:
            values[result].on_host = values[arguments[slot]].on_host = True
            start.on_host = start.on_host or start.reads == 1
