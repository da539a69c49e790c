"""Reading Shardy's answer: the sharding of every value, and every collective with what it moves."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jax.extend.mlir import ir

from workbench.core.sharding import axis_size, base_axis
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.propagation.halos import Halos
from workbench.propagation.module.mlir_context import main_function, producer
from workbench.propagation.module.operation_kinds import CONTROL_FLOW, DOTS
from workbench.propagation.module.prepare_module import ID, SKIPS_LINKS
from workbench.propagation.module.shardy_attributes import Dims, axis_names, dtype_name, local_bytes, local_shape
from workbench.propagation.prepared_program import load_prepared
from workbench.propagation.propagate import propagate, propagate_to_results
from workbench.propagation.propagated_module import PropagationAnswer
from workbench.propagation.reductions import Reductions, verify_partial_sums
from workbench.propagation.reshard_edges import REDUCTIONS, Edge, group_chains, kinds_of, largest_move_bytes
from workbench.propagation.shardy_collectives import KINDS, InsertedCollective, axes_of
from workbench.propagation.structure.program_structure import Op, Structure
from workbench.propagation.variadic_reductions import is_variadic_reduce
from workbench.propagation.xla_backends import TWO_BYTE_FLOATS, Backend, adjust_sent_bytes, backend_of

_ORDER_SENSITIVE_KINDS = frozenset(KINDS) - {"sdy.all_gather", *REDUCTIONS}  # on the way to a sharding, others may lead there, too
_UNARY = ("stablehlo.convert", "stablehlo.reshape")
_READING_THROUGH = {"stablehlo.transpose": DOTS, "stablehlo.reverse": {"stablehlo.convolution"}}
"""What XLA makes a part of the operations that read it (`algebraic_simplifier.cc`)."""


@dataclass(slots=True)
class Propagated:
    """Shardy's answer to a plan; values and operations are numbered as in the program's structure."""

    structure: Structure
    dims: list[Dims | None]  # of each value; None where an operation was dropped as dead
    results: list[Dims]  # of each result of main
    reshards: list[InsertedCollective]
    edges: list[Edge]
    local_flops: dict[int, int]  # of each dot, one execution
    halo_operand_dims: dict[int, tuple[Dims, ...]]  # of operations that send by themselves: how they read operands
    unpartitioned: tuple[int, ...] = ()  # operations that every device does whole (see `operation_work.unsplit_dims`)


def partition(plan: Plan, hardware: Hardware | None = None) -> Propagated:
    """Propagate the plan, and read the answer as the compiler of `hardware` would execute it.

    Raises `LayoutError` for a value that the plan wants as a partial sum and that is none.
    """
    structure = load_prepared(plan.program).structure
    return _Collector(plan, structure, backend_of(hardware)).collect(propagate(plan))


def read_result_dims(plan: Plan) -> list[Dims]:
    """The sharding of each result of main, as `partition` has it, without the answer to the rest."""
    structure = load_prepared(plan.program).structure
    module = propagate_to_results(plan)  # which its main function does not keep alive
    return _read_results(main_function(module), plan, PropagationAnswer(structure, [None] * len(structure.values)))


def _read_results(main: ir.Operation, plan: Plan, answer: PropagationAnswer) -> list[Dims]:
    ranks = [len(tensor.shape) for tensor in plan.program.results]
    attrs = ir.ArrayAttr(main.attributes["res_attrs"])
    found = []
    for rank, each in zip(ranks, attrs, strict=True):
        entries = ir.DictAttr(each)
        found.append(answer.parse_shardings(entries["sdy.sharding"])[0][:rank] if "sdy.sharding" in entries else ((),) * rank)
    return found


class _Collector:
    def __init__(self, plan: Plan, structure: Structure, backend: Backend) -> None:
        self._plan, self._structure, self._mesh, self._backend = plan, structure, plan.mesh, backend
        self._dims: list[Dims | None] = [None] * len(structure.values)
        self._answer = PropagationAnswer(structure, self._dims)
        self._reshards: list[InsertedCollective] = []
        self._edges: list[Edge] = []
        self._manual: dict[int, tuple[str, ...]] = {}  # of a region: the mesh axes that are manual in it
        self._first_by_key: dict[tuple[Any, ...], InsertedCollective] = {}
        self._flops: dict[int, int] = {}
        self._whole: list[int] = []
        self._halos = Halos(structure, self._mesh, backend, self._answer)
        self._reductions = Reductions(self._mesh, backend, self._answer)

    def collect(self, module: ir.Operation) -> Propagated:
        main = main_function(module)
        attrs = ir.ArrayAttr(main.attributes["arg_attrs"])
        for value, each in zip(self._structure.arguments, attrs, strict=True):
            entries = ir.DictAttr(each)
            self._dims[value] = self._answer.parse_shardings(entries["sdy.sharding"])[0]
        self._collect_block(main.regions[0].blocks[0], 0)
        verify_partial_sums(module, self._plan, self._answer)
        results = _read_results(main, self._plan, self._answer)
        return Propagated(
            self._structure, self._dims, results, self._reshards, self._edges, self._flops, self._halos.operand_dims, tuple(self._whole)
        )

    def _collect_block(self, block: ir.Block, region: int) -> None:
        ops, values, dims = self._structure.ops, self._structure.values, self._dims
        inserted: list[ir.Operation] = []
        for each in block.operations:
            op = each.operation
            attributes = op.attributes
            try:
                index = attributes[ID].value
            except KeyError:  # not of the program: Shardy inserted it
                inserted.append(op)
                continue
            record = ops[index]
            stated = "out_shardings" if op.name == "sdy.manual_computation" else "sdy.sharding"
            shardings = self._answer.parse_shardings(attributes[stated]) if stated in attributes else ()
            for i, result in enumerate(record.results):
                dims[result] = shardings[i] if shardings else ((),) * len(values[result].shape)
            if inserted:
                self._collect_inserted(inserted, index, region)
                inserted = []
            if record.windows is not None and self._is_sharded_along_windows(record):
                self._reshards += self._halos.reshards(op, index, region, record.windows)
            if record.unsplit_dims and not self._backend.splits_every_batch and (axes := self._splitting_axes(op, record)):
                self._gather_whole(op, index, region, axes)
            elif record.work.flops:
                self._flops[index] = self._local_flops(op, index)
            elif op.name in CONTROL_FLOW:
                self._collect_regions(op, index, shardings)
        self._collect_inserted(inserted, len(ops) - 1, region)

    def _splitting_axes(self, op: ir.Operation, record: Op) -> tuple[str, ...]:
        """The axes along which the first operand would be gathered: all, if one of them splits what XLA does not partition."""
        dims = self._answer.dims_of(op.operands[0])
        return tuple(axis for dim in dims for axis in dim) if any(dims[dim] for dim in record.unsplit_dims) else ()

    def _gather_whole(self, op: ir.Operation, index: int, region: int, axes: tuple[str, ...]) -> None:
        """Record an operation that every device does whole."""
        record, value = self._structure.ops[index], op.operands[0]
        size = local_bytes(value.type, ((),) * len(self._answer.dims_of(value)), self._mesh)
        local, payload = adjust_sent_bytes(self._backend, op, "all-gather", size, size)
        lives = record.position, record.position, (self._structure.heights[index],)
        made_in, source = self._answer.region_of(value, region), self._answer.producer_of(value)
        self._reshards.append(
            InsertedCollective("all-gather", axes, local, payload, index, made_in, source, False, *lives, sent_by_operation=True)
        )
        self._whole.append(index)
        if record.work.flops:
            self._flops[index] = record.work.flops

    def _is_sharded_along_windows(self, record: Op) -> bool:
        """Whether an operation may read across a shard boundary, quickly: most dimensions with windows are not sharded."""
        return any(any(self._dims[value] or ()) for value in (*record.operands[:2], record.results[0]))

    def _collect_regions(self, op: ir.Operation, index: int, shardings: tuple[Dims, ...]) -> None:
        """Loop bodies: their arguments have the shardings of the loop's results."""
        number = next(i for i, region in enumerate(self._structure.regions) if region.parent == index)
        manual = self._manual.get(self._structure.ops[index].region, ())
        if op.name == "sdy.manual_computation":
            manual += axis_names(str(op.attributes["manual_axes"]))
        for offset, region in enumerate(op.regions):
            self._manual[number + offset] = manual
            for value in self._structure.regions[number + offset].values:
                record = self._structure.values[value]
                if record.maker < 0:
                    self._dims[value] = (
                        shardings[record.result] if shardings and op.name == "stablehlo.while" else ((),) * len(record.shape)
                    )
            for block in region.blocks:
                self._collect_block(block, number + offset)

    def _collect_inserted(self, inserted: list[ir.Operation], before: int, region: int) -> None:
        """Record what Shardy inserted. XLA computes the same collective of the same value once, and keeps it for the second use."""
        for chain in group_chains(inserted):
            moves, is_new, (origin, order) = list(self._list_collectives(chain, before, region)), False, self._value_key(chain)
            for op, kind, lies, reshard in moves:
                if not self._is_repeated((origin, kind, tuple(lies[dim] for dim in order), region), reshard):
                    is_new = True
                    self._add_reshards(op, reshard)
            if chain[0].name not in REDUCTIONS and (is_new or not moves):
                self._edges.append(self._make_edge(chain, [reshard for *_, reshard in moves], before, region))

    def _add_reshards(self, op: ir.Operation, reshard: InsertedCollective) -> None:
        if not self._reductions.is_added_first(op, reshard):
            self._reshards += self._reductions.split_reduction(op, self._hoist_out_of_loop(op, reshard))

    def _hoist_out_of_loop(self, op: ir.Operation, reshard: InsertedCollective) -> InsertedCollective:
        loop = self._structure.regions[reshard.region].parent
        return replace(reshard, region=self._structure.ops[loop].region) if self._reductions.is_reduced_behind_loop(op) else reshard

    def _is_repeated(self, key: tuple[Any, ...], reshard: InsertedCollective) -> bool:
        first = self._first_by_key.setdefault(key, reshard)
        if first is reshard or not self._is_reusable(first, reshard):
            return False
        first.last_use = max(first.last_use, reshard.last_use)
        return True

    def _value_key(self, chain: Sequence[ir.Operation]) -> tuple[Any, Sequence[int]]:
        """A key that equal values share, and its dimensions in the order of that one's. A dot reads a transposed value, and a convolution a
        reversed one, as it was before."""
        value, uses = self._answer.skip_trivial_reverses(chain[0].operands[0]), [use.owner for use in chain[-1].results[0].uses]
        readers, own = {each.name for each in uses}, tuple(each for each in uses if SKIPS_LINKS in each.attributes)
        order: Sequence[int] = range(ir.RankedTensorType(value.type).rank)
        if not self._backend.merges_equal_values:
            return (value, own), order
        while readers and (owner := producer(value)) is not None and readers <= _READING_THROUGH.get(owner.name, frozenset()):
            if owner.name == "stablehlo.transpose":
                permutation = list(ir.DenseI64ArrayAttr(owner.attributes["permutation"]))
                order = [order[permutation.index(dim)] for dim in range(len(permutation))]
            value = owner.operands[0]
        return (*_unary_chain_key(value), own), order

    def _make_edge(self, chain: list[ir.Operation], moves: list[InsertedCollective], before: int, region: int) -> Edge:
        """The resharding that a chain of inserted operations performs."""
        source, last = chain[0].operands[0], chain[-1]
        ranked = ir.RankedTensorType(source.type)
        readers = tuple(dict.fromkeys(reader for use in last.results[0].uses if (reader := self._answer.reader_of(use.owner)) is not None))
        return Edge(
            tuple(ranked.shape),
            dtype_name(str(ranked.element_type)),
            self._answer.dims_of(source),
            self._answer.parse_shardings(last.attributes["out_sharding"])[0],
            kinds_of(chain),
            region,
            self._answer.producer_of(source),
            self._answer.argument_of(source),
            readers or (before,),
            tuple(moves),
            largest_move_bytes(moves, self._mesh),
            bool(self._manual.get(region, ())),
        )

    def _is_reusable(self, first: InsertedCollective, again: InsertedCollective) -> bool:
        """Whether a gathered value is still in memory when it is needed again; values that dots read may have been freed."""
        reader = self._structure.ops[again.before]
        if first.kind != "all-gather" or reader.kind not in DOTS:
            return True
        if self._backend.regathers_for_widening_dots and self._is_widening_dot(reader):
            return False
        span = self._backend.gather_reuse_distance
        return span is None or min(first.user_heights) <= max(again.user_heights) + 1 + span

    def _is_widening_dot(self, dot: Op) -> bool:
        """Whether it is a dot of two-byte floats that sums into four-byte ones."""
        values = self._structure.values
        return values[dot.results[0]].dtype == "float32" and any(values[each].dtype in TWO_BYTE_FLOATS for each in dot.operands)

    def _list_collectives(
        self, chain: Sequence[ir.Operation], before: int, region: int
    ) -> Iterator[tuple[ir.Operation, Any, Dims, InsertedCollective]]:
        """The collectives of a chain, each with a kind and a sharding that equal ones of one value share. Results that only feed the next
        collective, or are sliced, live for a moment only."""
        collectives = [op for op in chain if op.name in KINDS]
        for number, op in enumerate(collectives):
            after = self._answer.parse_shardings(op.attributes["out_sharding"])[0]
            if op.name == "sdy.all_gather":
                found = list(self._list_gathers(op, after, before, region))
            else:
                found = [(after, self._make_reshard(op, after, before, region))]
            kind = (op.name, number) if op.name in _ORDER_SENSITIVE_KINDS else op.name
            for lies, each in found:
                is_last = op == chain[-1] and each is found[-1][1]
                yield op, kind, lies, each if is_last else replace(each, last_use=each.first_use)

    def _list_gathers(self, op: ir.Operation, after: Dims, before: int, region: int) -> Iterator[tuple[Dims, InsertedCollective]]:
        """One all-gather for each dimension, the last one first, as in XLA's partitioner, or one for all; with the value's sharding after
        it."""
        source = op.operands[0]
        lies = list(self._answer.dims_of(source))
        plain = self._answer.locate_collective(source, op, before, region)
        gathered = [(dim, axes) for dim in range(len(lies) - 1, -1, -1) if (axes := lies[dim][len(after[dim]) :])]
        parts = [[each] for each in gathered]
        if self._backend.folds_gathers and len(gathered) > 1 and not self._may_be_windowed(op, dict(gathered), before):
            parts = [gathered]
        for part in parts:
            for dim, _ in part:
                lies[dim] = after[dim]
            axes = tuple(axis for _, each in part for axis in each)
            if len(part) > 1:
                axes = tuple(sorted(axes, key=lambda axis: self._mesh.names.index(base_axis(axis))))
            size = local_bytes(source.type, tuple(lies), self._mesh)
            local, payload = adjust_sent_bytes(self._backend, op, "all-gather", size, size)
            yield tuple(lies), replace(plain, kind="all-gather", axes=axes, local_bytes=local, payload=payload)

    def _may_be_windowed(self, op: ir.Operation, gathered: Mapping[int, tuple[str, ...]], before: int) -> bool:
        """Whether a dot may take its operand apart along a gathered dimension that it sums over, for the other operand's rows are sharded
        as that dimension is (see `windowed_dots`): that one is then gathered by itself."""
        dot = self._structure.dots.get(before)
        use = next((each for each in op.results[0].uses if each.owner.name == "stablehlo.dot_general"), None)
        if dot is None or use is None:
            return False
        side = use.operand_number
        other = self._answer.dims_of(use.owner.operands[1 - side])
        free = dot.dims.columns if side == 0 else dot.dims.rows
        rows = {other[each[1 - side]] for each in free}
        return any(gathered.get(each[side], ()) in rows - {()} for each in dot.dims.summed)

    def _make_reshard(self, op: ir.Operation, after: Dims, before: int, region: int) -> InsertedCollective:
        kind = KINDS[op.name][0]
        source = op.operands[0]
        inside = self._answer.dims_of(source)
        axes = axes_of(op, inside, after)
        local = payload = local_bytes(source.type, after, self._mesh)
        if kind == "reduce-scatter":
            payload = local * math.prod(axis_size(axis, self._mesh) for axis in axes)
        if kind == "all-reduce" and is_variadic_reduce(producer(source)):
            kind, payload = "all-gather", local * math.prod(axis_size(axis, self._mesh) for axis in axes)
        local, payload = adjust_sent_bytes(self._backend, op, kind, local, payload)
        return replace(self._answer.locate_collective(source, op, before, region), kind=kind, axes=axes, local_bytes=local, payload=payload)

    def _local_flops(self, op: ir.Operation, index: int) -> int:
        """FLOP of a dot on one device: its part of the result times its part of the contraction."""
        record = self._structure.ops[index]
        result = self._structure.values[record.results[0]]
        out = math.prod(local_shape(result.shape, self._dims[record.results[0]] or (), self._mesh))
        whole = math.prod(result.shape) or 1
        inside = self._answer.dims_of(op.operands[record.work.contracted_of])
        parts = math.prod(axis_size(axis, self._mesh) for dim in record.work.contracted for axis in inside[dim])
        return record.work.flops * out // whole // parts


def _unary_chain_key(value: ir.Value) -> tuple[Any, ...]:
    """A key that equal values share: what a value is cast and reshaped from, and how."""
    steps = []
    owner = producer(value)
    while owner is not None and owner.name in _UNARY:
        sharding = [owner.attributes[name] for name in ("sdy.sharding",) if name in owner.attributes]
        steps.append((owner.name, owner.results[0].type, *sharding))
        value = owner.operands[0]
        owner = producer(value)
    return (value, *steps)
