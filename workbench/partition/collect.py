"""Reading Shardy's answer: where every value lies, and every collective with what it moves."""

import math
from dataclasses import dataclass, replace
from typing import Any

from jax.extend.mlir import ir

from workbench.partition.attributes import Dims, local_bytes, local_shape, read_shardings
from workbench.partition.context import main_function, producer
from workbench.partition.factors import rule_of
from workbench.partition.operations import CONTROL_FLOW
from workbench.partition.prepare import ID
from workbench.partition.program import prepared
from workbench.partition.propagate import propagate
from workbench.partition.reshards import KINDS, Reshard, axes_of
from workbench.partition.structure import Structure
from workbench.plan import Plan
from workbench.sharding import axis_size


@dataclass(slots=True)
class Partitioned:
    """Shardy's answer to a plan, by the numbers of the program's structure."""

    structure: Structure
    dims: list[Dims | None]  # of each value; None where an operation was dropped as dead
    results: list[Dims]  # of each result of main
    reshards: list[Reshard]
    local_flops: dict[int, int]  # of each product, one execution


def partition(plan: Plan) -> Partitioned:
    """Propagate the plan and read the answer."""
    structure = prepared(plan.program).structure
    return _Collector(plan, structure).collect(propagate(plan))


class _Collector:
    def __init__(self, plan: Plan, structure: Structure) -> None:
        self._plan, self._structure, self._mesh = plan, structure, plan.mesh
        self._dims: list[Dims | None] = [None] * len(structure.values)
        self._reshards: list[Reshard] = []
        self._first: dict[tuple[Any, ...], Reshard] = {}
        self._flops: dict[int, int] = {}
        self._attributes: dict[ir.Attribute, tuple[Dims, ...]] = {}

    def collect(self, module: ir.Operation) -> Partitioned:
        main = main_function(module)
        attrs = ir.ArrayAttr(main.attributes["arg_attrs"])
        for value, each in zip(self._structure.arguments, attrs, strict=True):
            entries = ir.DictAttr(each)
            self._dims[value] = self._read(entries["sdy.sharding"])[0]
        self._block(main.regions[0].blocks[0], 0)
        results = self._result_dims(main)
        return Partitioned(self._structure, self._dims, results, self._reshards, self._flops)

    def _result_dims(self, main: ir.Operation) -> list[Dims]:
        ranks = [len(tensor.shape) for tensor in self._plan.program.results]
        attrs = ir.ArrayAttr(main.attributes["res_attrs"])
        found = []
        for rank, each in zip(ranks, attrs, strict=True):
            entries = ir.DictAttr(each)
            found.append(self._read(entries["sdy.sharding"])[0][:rank] if "sdy.sharding" in entries else ((),) * rank)
        return found

    def _block(self, block: ir.Block, region: int) -> None:
        ops, values, dims = self._structure.ops, self._structure.values, self._dims
        waiting: list[ir.Operation] = []
        for each in block.operations:
            op = each.operation
            attributes = op.attributes
            try:
                index = attributes[ID].value
            except KeyError:  # not of the program: Shardy inserted it
                waiting.append(op)
                continue
            record = ops[index]
            if waiting:
                self._note(waiting, index, region)
                waiting = []
            shardings = self._read(attributes["sdy.sharding"]) if "sdy.sharding" in attributes else ()
            for i, result in enumerate(record.results):
                dims[result] = shardings[i] if shardings else ((),) * len(values[result].shape)
            if record.work.flops:
                self._flops[index] = self._local_flops(op, index)
            elif op.name in CONTROL_FLOW:
                self._enter(op, index, shardings)
        self._note(waiting, len(ops) - 1, region)

    def _enter(self, op: ir.Operation, index: int, shardings: tuple[Dims, ...]) -> None:
        """Loop bodies: their arguments lie as the loop's results do."""
        number = next(i for i, region in enumerate(self._structure.regions) if region.parent == index)
        for offset, region in enumerate(op.regions):
            for value in self._structure.regions[number + offset].values:
                record = self._structure.values[value]
                if record.born < 0:
                    self._dims[value] = (
                        shardings[record.result] if shardings and op.name == "stablehlo.while" else ((),) * len(record.shape)
                    )
            for block in region.blocks:
                self._block(block, number + offset)

    def _read(self, attribute: ir.Attribute) -> tuple[Dims, ...]:
        """One sharding, or one a result; each attribute is read once, for MLIR keeps one of a kind."""
        if attribute not in self._attributes:
            self._attributes[attribute] = read_shardings(attribute)
        return self._attributes[attribute]

    def _note(self, waiting: list[ir.Operation], before: int, region: int) -> None:
        """Note what Shardy inserted. XLA computes the same collective of the same value once, and keeps it for the second use."""
        for op in waiting:
            if op.name not in KINDS:
                continue
            reshard = self._reshard(op, before, region)
            key = (op.operands[0], op.name, op.attributes["out_sharding"], region)
            if (first := self._first.setdefault(key, reshard)) is not reshard:
                first.last_use = max(first.last_use, reshard.last_use)
            elif reshard.kind == "all-reduce":
                self._reshards += (replace(reshard, axes=axes) for axes in self._reduced_together(op, reshard.axes))
            else:
                self._reshards.append(reshard)

    def _reshard(self, op: ir.Operation, before: int, region: int) -> Reshard:
        kind = KINDS[op.name][0]
        after = self._read(op.attributes["out_sharding"])[0]
        source = op.operands[0]
        inside = self._dims_of(source)
        local = local_bytes(source.type, after, self._mesh)
        axes = axes_of(op, inside, after)
        payload = max(local, local_bytes(source.type, inside, self._mesh)) if kind in ("reduce-scatter", "all-gather") else local
        if kind == "all-reduce" and _is_variadic_reduce(producer(source)):
            kind, payload = "all-gather", local * math.prod(axis_size(axis, self._mesh) for axis in axes)
        if kind == "reduce-scatter":
            payload = local * math.prod(axis_size(axis, self._mesh) for axis in axes)
        readings = [self._reading(use.owner) for use in op.results[0].uses]
        first = min((at for at, _ in readings), default=self._structure.ops[before].position)
        last = max((until for _, until in readings), default=first)
        frees_source = len(list(source.uses)) == 1
        # XLA moves the collective of a loop-invariant value out of the loop.
        made_in = self._region_of(source, region)
        return Reshard(kind, axes, local, payload, before, made_in, self._producer(source), frees_source, first, last)

    def _reduced_together(self, op: ir.Operation, axes: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The axes of an all-reduce, apart for each dimension that is summed: XLA's partitioner makes one all-reduce a dimension."""
        source = producer(op.operands[0])
        if source is None or len(axes) < 2 or (rule := rule_of(source)) is None:
            return [axes]
        groups: dict[tuple[str, ...], None] = {}
        for operand, mapping in zip(source.operands, rule.operands, strict=True):
            for dim, factors in zip(self._dims_of(operand), mapping, strict=True):
                summed = tuple(axis for axis in dim if axis in axes)
                if summed and set(factors) & set(rule.reduction):
                    groups[summed] = None
        return list(groups) if sorted(axis for group in groups for axis in group) == sorted(axes) else [axes]

    def _reading(self, op: Any) -> tuple[int, int]:
        """Where an operation reads, and until when it keeps what it reads: till its last reader's place if it is fused into that."""
        while ID not in op.operation.attributes:  # a collective of a collective
            users = list(op.operation.results[0].uses)
            if not users:
                return (self._structure.ops[-1].position,) * 2
            op = users[0].owner
        record = self._structure.ops[op.operation.attributes[ID].value]
        fused = [self._structure.values[result].last_use for result in record.results if not self._structure.values[result].stored]
        return record.position, max((record.position, *fused))

    def _region_of(self, value: ir.Value, region: int) -> int:
        """The region a value is made in, seen from `region`: further out if the loop captures it."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return 0 if owner.owner.operation.name == "func.func" else region
        made_by = self._producer(value)
        return region if made_by is None else self._structure.ops[made_by].region

    def _producer(self, value: ir.Value) -> int | None:
        """The operation of the program that made a value, looking through collectives."""
        owner = producer(value)
        while owner is not None and ID not in owner.attributes:
            owner = producer(owner.operands[0])
        return None if owner is None else int(owner.attributes[ID].value)

    def _dims_of(self, value: ir.Value) -> Dims:
        """Where a value of the partitioned module lies: read off the operation that makes it, or the argument it is."""
        owner = producer(value)
        rank = ir.RankedTensorType(value.type).rank
        if owner is not None:
            if "out_sharding" in owner.attributes:
                return self._read(owner.attributes["out_sharding"])[0]
            if "sdy.sharding" in owner.attributes:
                return self._read(owner.attributes["sdy.sharding"])[ir.OpResult(value).result_number]
            return ((),) * rank
        number = ir.BlockArgument(value).arg_number
        parent = value.owner.owner.operation
        if parent.name == "func.func":
            return self._dims[self._structure.arguments[number]] or ((),) * rank
        if "sdy.sharding" in parent.attributes and parent.name == "stablehlo.while":
            return self._read(parent.attributes["sdy.sharding"])[number]
        return ((),) * rank

    def _local_flops(self, op: ir.Operation, index: int) -> int:
        """The share of a product one device computes: its part of the result times its part of the contraction."""
        record = self._structure.ops[index]
        result = self._structure.values[record.results[0]]
        out = math.prod(local_shape(result.shape, self._dims[record.results[0]] or (), self._mesh))
        whole = math.prod(result.shape) or 1
        inside = self._dims_of(op.operands[record.work.contracted_of])
        parts = math.prod(axis_size(axis, self._mesh) for dim in record.work.contracted for axis in inside[dim])
        return record.work.flops * out // whole // parts


def _is_variadic_reduce(op: ir.Operation | None) -> bool:
    """An argmax, say: XLA has no all-reduce of pairs, and gathers each device's candidates."""
    return op is not None and op.name == "stablehlo.reduce" and len(op.results) > 1
