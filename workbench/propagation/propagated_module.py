"""Lookups in the partitioned module: a value's sharding, maker and readers, and the program's operations among the
inserted ones.
"""

from typing import Any

from jax.extend.mlir import ir

from workbench.propagation.module.mlir_context import producer
from workbench.propagation.module.prepare_module import ID
from workbench.propagation.module.shardy_attributes import Dims, read_shardings
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.program_structure import Structure


class PropagationAnswer:
    """The module after Shardy's passes, read against the program's structure; `dims` are filled as values are read."""

    def __init__(self, structure: Structure, dims: list[Dims | None]) -> None:
        self._structure, self._dims = structure, dims
        self._attributes: dict[ir.Attribute, tuple[Dims, ...]] = {}

    def parse_shardings(self, attribute: ir.Attribute) -> tuple[Dims, ...]:
        """One sharding, or one for each result; each attribute is parsed once, as MLIR shares equal ones."""
        if attribute not in self._attributes:
            self._attributes[attribute] = read_shardings(attribute)
        return self._attributes[attribute]

    def dims_of(self, value: ir.Value) -> Dims:
        owner = producer(value)
        rank = ir.RankedTensorType(value.type).rank
        if owner is not None:
            if "out_sharding" in owner.attributes:
                return self.parse_shardings(owner.attributes["out_sharding"])[0]
            if "sdy.sharding" in owner.attributes:
                return self.parse_shardings(owner.attributes["sdy.sharding"])[ir.OpResult(value).result_number]
            return ((),) * rank
        number = ir.BlockArgument(value).arg_number
        parent = value.owner.owner.operation
        if parent.name == "func.func":
            return self._dims[self._structure.arguments[number]] or ((),) * rank
        if "sdy.sharding" in parent.attributes and parent.name == "stablehlo.while":
            return self.parse_shardings(parent.attributes["sdy.sharding"])[number]
        return ((),) * rank

    def producer_of(self, value: ir.Value) -> int | None:
        """The program's operation that made a value, looking through collectives."""
        owner = producer(self._before_collectives(value))
        return None if owner is None else int(owner.attributes[ID].value)

    def result_of(self, value: ir.Value) -> int:
        """The index of a value among its producer's results, or main's arguments, looking through collectives."""
        value = self._before_collectives(value)
        return int(self.argument_of(value) or 0) if producer(value) is None else int(ir.OpResult(value).result_number)

    def _before_collectives(self, value: ir.Value) -> ir.Value:
        while (owner := producer(value)) is not None and ID not in owner.attributes:
            value = owner.operands[0]
        return value

    def argument_of(self, value: ir.Value) -> int | None:
        value = self._before_collectives(value)
        owner = producer(value)
        is_argument = owner is None and value.owner.owner.operation.name == "func.func"
        return ir.BlockArgument(value).arg_number if is_argument else None

    def skip_trivial_reverses(self, value: ir.Value) -> ir.Value:
        """The value before reverses along dimensions of size 1 (gradients of 1 x 1 convolutions), which XLA ignores."""
        owner = producer(value)
        while owner is not None and owner.name == "stablehlo.reverse":
            shape, source = ir.RankedTensorType(value.type).shape, owner.operands[0]
            has_effect = any(shape[dim] > 1 for dim in ir.DenseI64ArrayAttr(owner.attributes["dimensions"]))
            if has_effect or self.dims_of(source) != self.dims_of(value):
                break
            value = source
            owner = producer(value)
        return value

    def reader_of(self, op: Any) -> int | None:
        """The program's operation that reads at `op`, looking through collectives."""
        while ID not in op.operation.attributes:
            users = list(op.operation.results[0].uses)
            if not users:
                return None
            op = users[0].owner
        return int(op.operation.attributes[ID].value)

    def _use_span(self, reader: int | None) -> tuple[int, int]:
        """The position of a reader, and that up to which its operands live: the last reader's if it is fused into that."""
        if reader is None:
            return (self._structure.ops[-1].position,) * 2
        record = self._structure.ops[reader]
        unstored_uses = [self._structure.values[result].last_use for result in record.results if not self._structure.values[result].stored]
        return record.position, max((record.position, *unstored_uses))

    def region_of(self, value: ir.Value, region: int) -> int:
        """The region a value is made in, as seen from `region`: an outer one if the loop captures it."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return 0 if owner.owner.operation.name == "func.func" else region
        made_by = self.producer_of(value)
        return region if made_by is None else self._structure.ops[made_by].region

    def locate_collective(self, source: ir.Value, last: ir.Operation, before: int, region: int) -> InsertedCollective:
        """The position and lifetime of a collective that reads `source` and whose result is that of `last`."""
        readers = [self.reader_of(use.owner) for use in last.results[0].uses]
        readings = [self._use_span(reader) for reader in readers]
        heights = tuple(self._structure.heights[reader] for reader in readers if reader is not None)
        first_use = min((start for start, _ in readings), default=self._structure.ops[before].position)
        last_use = max((end for _, end in readings), default=first_use)
        frees_source = len(list(source.uses)) == 1
        # XLA moves the collective of a loop-invariant value out of the loop.
        made_in = self.region_of(source, region)
        maker, result = self.producer_of(source), self.result_of(source)
        lives = first_use, last_use, heights or (0,)
        return InsertedCollective("", (), 0, 0, before, made_in, maker, frees_source, *lives, result=result)
