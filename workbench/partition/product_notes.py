"""While Shardy's answer is read: what products send that XLA takes apart in its own way, and how much of them each device computes."""

import ast
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend.mlir import ir

from workbench.mesh import Mesh
from workbench.partition.answer import Answer
from workbench.partition.attributes import Dims
from workbench.partition.backend import HALVES, Backend
from workbench.partition.edges import SLICE, Edge
from workbench.partition.prepare import ID
from workbench.partition.product_ways import ProductFacts, nearest
from workbench.partition.reshards import Reshard
from workbench.partition.structure import Structure
from workbench.partition.work import is_exact
from workbench.partition.xla_products import RESULT, Product, Sent
from workbench.partition.xla_reshard import Step
from workbench.partition.xla_tiles import ordered
from workbench.sharding import base_axis

APART = "wb_apart"  # the mark of such a product
LIES = "wb_lies"  # of any other that an operand is gathered for: where its tensors lie without that


@functools.lru_cache(maxsize=4096)
def written(lies: tuple[Dims, ...]) -> str:
    """For an attribute of MLIR, and `_read` back."""
    return repr(lies)


@functools.lru_cache(maxsize=4096)
def _read(text: str) -> tuple[Dims, ...]:
    found: tuple[Dims, ...] = ast.literal_eval(text)
    return found


@dataclass(slots=True)
class ProductNotes:
    """Notes of one plan; `mesh` is its mesh."""

    structure: Structure
    mesh: Mesh
    backend: Backend
    answer: Answer

    def sends(self, op: ir.Operation, index: int, region: int) -> Iterator[tuple[tuple[Any, ...] | None, Reshard]]:
        """The collectives of product `index`, each with a name that equal moves of one value share; `None` of a result's."""
        made: list[list[Any]] = [[], []]  # of either operand, so far
        for sent in self._folded(self._way(op, index).sent):
            if sent.operand == RESULT:
                yield None, self._of_result(sent, index, region)
                continue
            made[sent.operand].append((sent.step.kind, sent.step.axes, sent.step.payload))
            yield self._of_operand(sent, op, index, region, tuple(made[sent.operand]))

    def names(self, chain: Sequence[ir.Operation]) -> list[tuple[Any, ...]]:
        """What the gathers of a chain are called that one product reads: XLA keeps a gathered value for another that goes the same way, and
        gathers it again for one that groups devices otherwise. None where no product reads it alone."""
        uses = list(chain[-1].results[0].uses)
        reader = uses[0].owner.operation if len(uses) == 1 else None
        if reader is None or LIES not in reader.attributes or self.backend.merges_alike:
            return []
        facts, lies = self.structure.products[reader.attributes[ID].value], _read(ir.StringAttr(reader.attributes[LIES]).value)
        way = facts.way(lies, self.mesh)
        found = [_name(each, lies[each.operand]) for each in way.sent if each.operand == uses[0].operand_number] if way else []
        return found if len(found) == len(chain) else []

    def edges(self, op: ir.Operation, index: int, region: int, moves: Sequence[Reshard]) -> Iterator[Edge]:
        """The reshardings of a product's operands, to where Shardy would have them; `moves` are the collectives that were noted."""
        facts, way = self.structure.products[index], self._way(op, index)
        lies = tuple(self.answer.dims_of(value) for value in (*op.operands, op.results[0]))
        for number, (value, after) in enumerate(zip(op.operands, nearest(facts.mapping, lies)[:RESULT], strict=True)):
            steps = tuple(each.step for each in way.sent if each.operand == number)
            if not steps:
                continue
            mine = tuple(each for each in moves if not each.own and each.source == self.answer.producer_of(value))
            record = self.structure.values[self.structure.ops[index].operands[number]]
            target = after if after != lies[number] else ((),) * len(after)
            source, argument = self.answer.producer_of(value), self.answer.argument_of(value)
            places = region, source, argument, (index,), mine, _held(steps, facts.itemsizes[number])
            yield Edge(record.shape, record.dtype, lies[number], target, tuple(step.kind for step in steps), *places)

    def flops(self, op: ir.Operation, index: int) -> int:
        """Of one device."""
        return int(self.structure.ops[index].work.flops * self._way(op, index).share)

    def _way(self, op: ir.Operation, index: int) -> Product:
        facts = self.structure.products[index]
        lies = (*(self.answer.dims_of(value) for value in op.operands), self.answer.dims_of(op.results[0]))
        found = facts.way(lies, self.mesh)
        assert found is not None, "only products that XLA takes apart are marked"
        return found

    def _folded(self, sent: tuple[Sent, ...]) -> Iterator[Sent]:
        """All-reduces of one value after each other are one where the back end makes them so."""
        waiting: Sent | None = None
        for each in sent:
            is_sum = self.backend.folds_reductions and each.operand == RESULT and each.step.kind == "all-reduce"
            if waiting is not None and is_sum and each.step.payload == waiting.step.payload:
                axes = ordered((*waiting.step.axes, *each.step.axes), self.mesh)
                waiting = waiting._replace(step=waiting.step._replace(axes=axes))
                continue
            if waiting is not None:
                yield waiting
            waiting = each if is_sum else None
            if not is_sum:
                yield each
        if waiting is not None:
            yield waiting

    def _of_result(self, sent: Sent, index: int, region: int) -> Reshard:
        value = self.structure.values[self.structure.ops[index].results[0]]
        return self._reshard(sent, self._itemsize(index, RESULT, value.dtype), index, region, index, index)

    def _of_operand(self, sent: Sent, op: ir.Operation, index: int, region: int, made: tuple[Any, ...]) -> tuple[tuple[Any, ...], Reshard]:
        value = op.operands[sent.operand]
        dtype = self.structure.values[self.structure.ops[index].operands[sent.operand]].dtype
        itemsize = self._itemsize(index, sent.operand, dtype)
        if self.backend.narrows_products and dtype == "float32" and not is_exact(op):
            itemsize /= 2
        outside, source = self.answer.region_of(value, region), self.answer.producer_of(value)
        lies = self.answer.dims_of(value)
        name = _name_by_what_is_sent(made, lies) if self.backend.merges_alike else _name(sent, lies)
        return (value, *name, outside), self._reshard(sent, itemsize, index, outside, source, None)

    def _itemsize(self, index: int, tensor: int, dtype: str) -> float:
        facts: ProductFacts = self.structure.products[index]
        return 4.0 if self.backend.widens_halves and dtype in HALVES else facts.itemsizes[tensor]

    def _reshard(self, sent: Sent, itemsize: float, index: int, region: int, source: int | None, own: int | None) -> Reshard:
        position, height = self.structure.ops[index].position, self.structure.heights[index]
        held, payload = (math.ceil(count * itemsize) for count in (sent.step.after, sent.step.payload))
        axes = sent.step.axes
        return Reshard(
            sent.step.kind, axes, held, payload, index, region, source, False, position, position, (height,), own=own is not None
        )


def _held(steps: Sequence[Step], itemsize: float) -> int:
    sizes = (step.before + max(step.payload, step.after) for step in steps if step.kind != SLICE)
    return math.ceil(max(sizes, default=0) * itemsize)


def _name(sent: Sent, lies: Dims) -> tuple[Any, ...]:
    """Equal for equal moves of one value, those that something else than a product reads too."""
    if sent.whole:
        return "sdy.all_gather", tuple(() if dim in sent.whole else axes for dim, axes in enumerate(lies))
    return ("to", *sent.target) if sent.target else ("product", sent.key)


def _name_by_what_is_sent(made: tuple[Any, ...], lies: Dims) -> tuple[Any, ...]:
    """Where the compiler finds that two moves are alike, however it came to them. As a gather that something else reads, if it is one."""
    kind, axes, _ = made[0]
    whole = [dim for dim, each in enumerate(lies) if {base_axis(axis) for axis in each} & set(axes)]
    if len(made) == 1 and kind == "all-gather" and sorted(base_axis(axis) for dim in whole for axis in lies[dim]) == sorted(axes):
        return "sdy.all_gather", tuple(() if dim in whole else each for dim, each in enumerate(lies))
    return "sent", made
