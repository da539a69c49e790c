"""Reads Shardy's answer: the sharding of every value, and every collective with its payload."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jax.extend.mlir import ir

from workbench.core.sharding import axis_size, base_axis
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.propagation.halos import Halos
from workbench.propagation.library_calls import is_done_whole
from workbench.propagation.module.mlir_context import main_function, producer
from workbench.propagation.module.operation_kinds import CONTROL_FLOW, DOTS, gathers_for_print
from workbench.propagation.module.prepare_module import ID, SKIPS_LINKS
from workbench.propagation.module.shardy_attributes import Dims, axis_names, dtype_name, local_bytes, local_shape
from workbench.propagation.module.varying_axes import SENDS, sending_axes
from workbench.propagation.prepared_program import load_prepared
from workbench.propagation.propagate import propagate, propagate_to_results
from workbench.propagation.propagated_module import PropagationAnswer
from workbench.propagation.reductions import Reductions, verify_partial_sums
from workbench.propagation.reshard_edges import REDUCTIONS, Edge, group_chains, kinds_of, largest_move_bytes
from workbench.propagation.shardy_collectives import KINDS, InsertedCollective, axes_of
from workbench.propagation.structure.operation_work import is_top_k
from workbench.propagation.structure.program_structure import Op, Structure
from workbench.propagation.variadic_reductions import is_variadic_reduce
from workbench.propagation.xla_backends import TWO_BYTE_FLOATS, Backend, adds_real_products, adjust_sent_bytes, backend_of, widening_factor

_ORDER_SENSITIVE_KINDS = frozenset(KINDS) - {"sdy.all_gather", *REDUCTIONS}  # the position in a chain distinguishes them
_UNARY = ("stablehlo.convert", "stablehlo.reshape", "stablehlo.reduce")
_READING_THROUGH = {"stablehlo.transpose": DOTS, "stablehlo.reverse": {"stablehlo.convolution"}}
"""Operations that XLA merges into the operations that read them (`algebraic_simplifier.cc`)."""


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

    Raises `LayoutError` for a value that the plan leaves unreduced but that is not a partial sum.
    """
    structure = load_prepared(plan.program).structure
    backend = backend_of(hardware)
    return _Collector(plan, structure, backend).collect(propagate(plan, backend))


def read_result_dims(plan: Plan) -> list[Dims]:
    """The sharding of each result of main, as in `partition`, but faster."""
    structure = load_prepared(plan.program).structure
    module = propagate_to_results(plan)  # which its main function does not keep alive
    return _read_results(main_function(module), plan, PropagationAnswer(structure, [None] * len(structure.values)))


def _read_results(main: ir.Operation, plan: Plan, answer: PropagationAnswer) -> list[Dims]:
    ranks = [len(tensor.shape) for tensor in plan.program.results]
    attrs = ir.ArrayAttr(main.attributes["res_attrs"])
    shardings = []
    for rank, attr in zip(ranks, attrs, strict=True):
        entries = ir.DictAttr(attr)
        shardings.append(answer.parse_shardings(entries["sdy.sharding"])[0][:rank] if "sdy.sharding" in entries else ((),) * rank)
    return shardings


def _is_read(value: ir.Value) -> bool:
    """Whether anything reads a value of a `shard_map`; what it only returns is read if its result is."""
    readers = [(use.owner.operation, use.operand_number) for use in value.uses]
    return any(reader.name != "sdy.return" or any(True for _ in reader.parent.results[number].uses) for reader, number in readers)


def _is_gathered(value: ir.Value) -> bool:
    maker = producer(value)
    return maker is not None and maker.name == "sdy.all_gather"


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
        for value, attr in zip(self._structure.arguments, attrs, strict=True):
            entries = ir.DictAttr(attr)
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
        for item in block.operations:
            op = item.operation
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
            if record.unsplit_dims and not self._backend.splits_every_batch and self._is_split_where_whole(op, record):
                self._gather_whole(op, op.operands[0], region)
                self._whole.append(index)
                if record.work.flops:
                    self._flops[index] = record.work.flops
            elif record.work.flops:
                self._flops[index] = self._local_flops(op, index)
            elif is_top_k(op) and not self._backend.splits_every_batch and any(dims[record.operands[0]] or ()):
                self._whole.append(index)  # gathered before (`insert_dot_reshards`)
            elif is_done_whole(op) and _is_gathered(op.operands[0]):
                self._whole.append(index)
            elif op.name == "stablehlo.fft" and not self._backend.transforms_by_dots and self._answer.dims_of(op.operands[0])[-1]:
                self._add_transform(op, index, region)
            elif op.name == "stablehlo.reverse":
                self._add_mirroring(op, index, region)
            elif op.name in SENDS:
                self._add_own_collective(op, index, region)
            elif gathers_for_print(op):
                for value in op.operands:
                    self._gather_whole(op, value, region)
            elif op.name in CONTROL_FLOW:
                self._collect_regions(op, index, shardings)
        self._collect_inserted(inserted, len(ops) - 1, region)

    def _is_split_where_whole(self, op: ir.Operation, record: Op) -> bool:
        """Whether the first operand is sharded along a dimension that XLA does not partition, which makes it gather all of it."""
        dims = self._answer.dims_of(op.operands[0])
        return any(dims[dim] for dim in record.unsplit_dims)

    def _gather_whole(self, op: ir.Operation, value: ir.Value, region: int) -> None:
        """Record that an operation makes XLA gather one of its operands: one dimension after the other, the last one first."""
        index = op.attributes[ID].value
        record = self._structure.ops[index]
        lives = record.position, record.position, (self._structure.heights[index],)
        made_in = region if self._backend.gathers_in_each_turn else self._answer.region_of(value, region)
        source = self._answer.producer_of(value)
        dims = list(self._answer.dims_of(value))
        for dim in reversed([number for number, axes in enumerate(dims) if axes]):
            axes, dims[dim] = dims[dim], ()
            size = local_bytes(value.type, tuple(dims), self._mesh) * widening_factor(self._backend, value)
            self._reshards.append(
                InsertedCollective("all-gather", axes, size, size, index, made_in, source, False, *lives, sent_by_operation=True)
            )

    def _add_transform(self, op: ir.Operation, index: int, region: int) -> None:
        """Record what XLA sends for an FFT in parts: an exchange, and each device's part and its number once around all devices."""
        dims, record = self._answer.dims_of(op.operands[0]), self._structure.ops[index]
        lives, turns = (record.position, record.position, (self._structure.heights[index],)), self._structure.regions[region].runs_per_step
        part, parts = local_bytes(op.operands[0].type, dims, self._mesh), math.prod(axis_size(axis, self._mesh) for axis in dims[-1])
        for kind, size, times in (("all-to-all", part, 1), ("collective-permute", part, parts), ("collective-permute", 8, parts)):
            sent = InsertedCollective(kind, dims[-1], size, size, index, region, index, False, *lives, sent_by_operation=True)
            self._reshards.append(replace(sent, times=times * turns))

    def _add_mirroring(self, op: ir.Operation, index: int, region: int) -> None:
        """Record that the devices along a reversed dimension exchange their parts, which are then reversed (`HandleReverse`)."""
        dims, record = self._answer.dims_of(op.results[0]), self._structure.ops[index]
        shape = self._structure.values[record.results[0]].shape
        axes = tuple(axis for dim in record.crossing_dims for axis in dims[dim])
        is_even = all(shape[dim] % math.prod(axis_size(axis, self._mesh) for axis in dims[dim]) == 0 for dim in record.crossing_dims)
        if axes and is_even:
            size = local_bytes(op.operands[0].type, dims, self._mesh) * widening_factor(self._backend, op.operands[0])
            lives = record.position, record.position, (self._structure.heights[index],)
            sent = InsertedCollective("collective-permute", axes, size, size, index, region, index, False, *lives, sent_by_operation=True)
            self._reshards.append(sent)
            self._halos.operand_dims[index] = (dims,)

    def _add_own_collective(self, op: ir.Operation, index: int, region: int) -> None:
        """Record what a collective of the program's own, in a `shard_map`, sends."""
        record, axes = self._structure.ops[index], sending_axes(op)
        if not axes:
            return
        kind, lives = SENDS[op.name], (record.position, record.position, (self._structure.heights[index],))
        for operand, result in zip(op.operands, op.results, strict=True):
            if not _is_read(result):
                continue
            whole = result if kind == "all-gather" else operand
            size = local_bytes(whole.type, self._answer.dims_of(whole), self._mesh)
            _, payload = adjust_sent_bytes(self._backend, op, kind, size, size)
            self._reshards.append(InsertedCollective(kind, axes, 0, payload, index, region, index, False, *lives, sent_by_operation=True))

    def _is_sharded_along_windows(self, record: Op) -> bool:
        """Return whether an operation may read across a shard boundary: a fast check, mostly false."""
        return any(any(self._dims[value] or ()) for value in (*record.operands[:2], record.results[0]))

    def _collect_regions(self, op: ir.Operation, index: int, shardings: tuple[Dims, ...]) -> None:
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
        """Record Shardy's operations; XLA computes equal collectives of one value once."""
        for chain in group_chains(inserted):
            moves, (origin, order) = list(self._list_collectives(chain, before, region)), self._value_key(chain)
            new = []
            for op, kind, dims, reshard in moves:
                if not self._is_repeated((origin, kind, tuple(dims[dim] for dim in order), region), reshard):
                    new.append(reshard)
                    self._add_reshards(op, reshard)
            if chain[0].name not in REDUCTIONS and (new or not moves):
                self._edges.append(self._make_edge(chain, new, before, region))

    def _add_reshards(self, op: ir.Operation, reshard: InsertedCollective) -> None:
        if not self._reductions.is_added_before_reduction(op, reshard):
            self._reshards += self._reductions.split_reduction(op, self._hoist_out_of_loop(op, reshard))

    def _hoist_out_of_loop(self, op: ir.Operation, reshard: InsertedCollective) -> InsertedCollective:
        loop = self._structure.regions[reshard.region].parent
        return replace(reshard, region=self._structure.ops[loop].region) if self._reductions.is_reduced_after_loop(op) else reshard

    def _is_repeated(self, key: tuple[Any, ...], reshard: InsertedCollective) -> bool:
        first = self._first_by_key.setdefault(key, reshard)
        if first is reshard or not self._is_reusable(first, reshard):
            return False
        first.last_use = max(first.last_use, reshard.last_use)
        return True

    def _value_key(self, chain: Sequence[ir.Operation]) -> tuple[Any, Sequence[int]]:
        """A key of equal values, and the dimensions in the key value's order; looks through transposes and reverses."""
        value, uses = self._answer.skip_trivial_reverses(chain[0].operands[0]), [use.owner for use in chain[-1].results[0].uses]
        readers, skipping_readers = {user.name for user in uses}, tuple(user for user in uses if SKIPS_LINKS in user.attributes)
        order: Sequence[int] = range(ir.RankedTensorType(value.type).rank)
        if not self._backend.merges_equal_values:
            return (value, skipping_readers), order
        while readers and (owner := producer(value)) is not None and readers <= _READING_THROUGH.get(owner.name, frozenset()):
            if owner.name == "stablehlo.transpose":
                permutation = list(ir.DenseI64ArrayAttr(owner.attributes["permutation"]))
                order = [order[permutation.index(dim)] for dim in range(len(permutation))]
            value = owner.operands[0]
        return (*_unary_chain_key(value), skipping_readers), order

    def _make_edge(self, chain: list[ir.Operation], moves: list[InsertedCollective], before: int, region: int) -> Edge:
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
        """Return whether a gathered value is still in memory for a second use; dots may have freed it."""
        reader = self._structure.ops[again.before]
        if first.kind != "all-gather" or reader.kind not in DOTS:
            return True
        if self._backend.regathers_for_widening_dots and self._is_widening_dot(reader):
            return False
        span = self._backend.gather_reuse_distance
        return span is None or min(first.user_heights) <= max(again.user_heights) + 1 + span

    def _is_widening_dot(self, dot: Op) -> bool:
        values = self._structure.values
        return values[dot.results[0]].dtype == "float32" and any(values[operand].dtype in TWO_BYTE_FLOATS for operand in dot.operands)

    def _list_collectives(
        self, chain: Sequence[ir.Operation], before: int, region: int
    ) -> Iterator[tuple[ir.Operation, Any, Dims, InsertedCollective]]:
        """The collectives of a chain, each with a kind and a sharding that equal ones share; intermediates are freed."""
        collectives = [op for op in chain if op.name in KINDS]
        for number, op in enumerate(collectives):
            after = self._answer.parse_shardings(op.attributes["out_sharding"])[0]
            if op.name == "sdy.all_gather":
                steps = list(self._list_gathers(op, after, before, region))
            else:
                steps = [(after, self._make_reshard(op, after, before, region))]
            kind = (op.name, number) if op.name in _ORDER_SENSITIVE_KINDS else op.name
            for dims, collective in steps:
                is_last = op == chain[-1] and collective is steps[-1][1]
                yield op, kind, dims, collective if is_last else replace(collective, last_use=collective.first_use)

    def _list_gathers(self, op: ir.Operation, after: Dims, before: int, region: int) -> Iterator[tuple[Dims, InsertedCollective]]:
        """One all-gather per dimension, last first as in XLA, or one for all; each with the sharding after it."""
        source = op.operands[0]
        dims = list(self._answer.dims_of(source))
        plain = self._answer.locate_collective(source, op, before, region)
        gathered = [(dim, axes) for dim in range(len(dims) - 1, -1, -1) if (axes := dims[dim][len(after[dim]) :])]
        parts = [[item] for item in gathered]
        if self._backend.folds_gathers and len(gathered) > 1 and not self._may_be_windowed(op, dict(gathered), before):
            parts = [gathered]
        for part in parts:
            for dim, _ in part:
                dims[dim] = after[dim]
            axes = tuple(axis for _, item in part for axis in item)
            if len(part) > 1:
                axes = tuple(sorted(axes, key=lambda axis: self._mesh.names.index(base_axis(axis))))
            size = local_bytes(source.type, tuple(dims), self._mesh)
            local, payload = adjust_sent_bytes(self._backend, op, "all-gather", size, size)
            made_in = region if self._backend.gathers_in_each_turn else plain.region
            yield tuple(dims), replace(plain, kind="all-gather", region=made_in, axes=axes, local_bytes=local, payload=payload)

    def _may_be_windowed(self, op: ir.Operation, gathered: Mapping[int, tuple[str, ...]], before: int) -> bool:
        """Return whether a dot may be windowed along a gathered dimension (`windowed_dots`), gathered separately then."""
        dot = self._structure.dots.get(before)
        use = next((item for item in op.results[0].uses if item.owner.name == "stablehlo.dot_general"), None)
        if dot is None or use is None:
            return False
        side = use.operand_number
        other = self._answer.dims_of(use.owner.operands[1 - side])
        free = dot.dims.columns if side == 0 else dot.dims.rows
        rows = {other[item[1 - side]] for item in free}
        return any(gathered.get(item[side], ()) in rows - {()} for item in dot.dims.summed)

    def _make_reshard(self, op: ir.Operation, after: Dims, before: int, region: int) -> InsertedCollective:
        kind = KINDS[op.name][0]
        source = op.operands[0]
        inside = self._answer.dims_of(source)
        axes = axes_of(op, inside, after)
        whole = self._reductions.value_sent(op) if kind == "all-reduce" else source
        local = payload = local_bytes(whole.type, after if whole.type == source.type else self._answer.dims_of(whole), self._mesh)
        if kind == "all-to-all":  # of a dimension that does not divide evenly, XLA sends the padding
            payload = max(local, local_bytes(source.type, inside, self._mesh))
        if kind == "reduce-scatter":
            payload = local * math.prod(axis_size(axis, self._mesh) for axis in axes)
            if (maker := producer(source)) is not None and adds_real_products(self._backend, maker):
                kind, local = "all-reduce", payload
        if kind == "all-reduce" and is_variadic_reduce(producer(source)):
            kind, payload = "all-gather", local * math.prod(axis_size(axis, self._mesh) for axis in axes)
        local, payload = adjust_sent_bytes(self._backend, op, kind, local, payload)
        return replace(self._answer.locate_collective(source, op, before, region), kind=kind, axes=axes, local_bytes=local, payload=payload)

    def _local_flops(self, op: ir.Operation, index: int) -> int:
        """FLOP of a dot on one device: its shard of the result times its shard of the contraction."""
        record = self._structure.ops[index]
        result = self._structure.values[record.results[0]]
        out = math.prod(local_shape(result.shape, self._dims[record.results[0]] or (), self._mesh))
        whole = math.prod(result.shape) or 1
        inside = self._answer.dims_of(op.operands[record.work.contracted_of])
        parts = math.prod(axis_size(axis, self._mesh) for dim in record.work.contracted for axis in inside[dim])
        return record.work.flops * out // whole // parts


def _unary_chain_key(value: ir.Value) -> tuple[Any, ...]:
    """A key that equal values share: the value before casts and reshapes, and these."""
    steps = []
    owner = producer(value)
    while owner is not None and owner.name in _UNARY and len(owner.results) == 1:
        stated = [owner.attributes[name] for name in ("dimensions", "sdy.sharding") if name in owner.attributes]
        reducer = [item.operation.name for region in owner.regions for item in region.blocks[0].operations]
        steps.append((owner.name, owner.results[0].type, *stated, *reducer))
        value = owner.operands[0]
        owner = producer(value)
    return (value, *steps)
