"""Shardy's own records of how it propagated (Y21): at which step which axis was handed on over which operation, and where all lies then.

The passes are those of a plan, up to the propagation, with `debug-propagation-edge-sharding` switched on; the verifier is off (a `while`
with such records does not pass it). Whose an axis is follows from the edges. `debug-sharding-origins`, which would tell, stays off: it
names another one where origins conflict, and it aborts the process where a constrained value has no other user.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import sdy

from workbench.partition.attributes import Dims, axis_names, read_shardings
from workbench.partition.context import main_function, producer
from workbench.partition.operations import CONTROL_FLOW
from workbench.partition.prepare import ID
from workbench.partition.program import prepared
from workbench.partition.propagate import propagate
from workbench.partition.structure import Structure
from workbench.plan import Plan

_RECORDED = ("sdy-apply-sharding-constraints", "sdy-user-priority-propagate")
_DEBUG = "debug-propagation-edge-sharding=true"
_STEP = re.compile(r"\{step-(\d+) = \[((?:\{[^{}]*\}(?:, )?)*)\]\}")
_EDGE = re.compile(r'\{"([^"]+)"(:\(\d+\)\d+)? = (operand|result)-(\d+) -> \[([^\]]*)\]\}')


class Slot(NamedTuple):
    """An operand or a result of an operation, by its place."""

    is_result: bool
    place: int


class Record(NamedTuple):
    """`axis` went from one slot of an operation to others, at a step that counts from 0."""

    step: int
    axis: str
    source: Slot
    targets: tuple[Slot, ...]


class Lying(NamedTuple):
    """Where a value lies after propagation: its axes, which dimensions are closed, which axes are kept out."""

    dims: Dims
    closed: tuple[bool, ...]
    replicated: tuple[str, ...] = ()


class Inserted(NamedTuple):
    """An operation that the plan put in and the program does not have: behind `operand`, of which all others read `result` instead."""

    kind: str
    operand: int
    result: int


@dataclass(slots=True)
class Recorded:
    """What Shardy did, by the numbers of the program's structure; what the plan inserted and the results of main are numbered on.

    `records` are by operation: its number in the structure, or `("inserted", its result)`, `("result", place)` for what main returns.
    """

    structure: Structure
    lying: dict[int, Lying] = field(default_factory=dict)
    records: dict[Any, tuple[Record, ...]] = field(default_factory=dict)
    inserted: list[Inserted] = field(default_factory=list)
    results: tuple[int, ...] = ()
    groups: dict[int, list[int]] = field(default_factory=dict)  # by their ids: values that lie alike


def record(plan: Plan) -> Recorded:
    """Propagate a plan with all records. Raises `PartitionError` with Shardy's words."""
    module = propagate(plan, _with_records)
    return _Reader(prepared(plan.program).structure).read(module)


def _with_records(passes: tuple[str, ...]) -> Iterator[str]:
    for each in passes:
        name, _, options = each.partition("{")
        yield f"{name}{{{' '.join(word for word in (options.rstrip('}'), _DEBUG) if word)}}}" if name in _RECORDED else each
        if name == _RECORDED[-1]:
            return


class _Reader:
    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._found = Recorded(structure)
        self._next = len(structure.values)
        self._numbers: dict[ir.Operation, int] = {}  # of what was inserted
        self._known: dict[ir.Attribute, tuple[Lying, ...]] = {}

    def read(self, module: ir.Operation) -> Recorded:
        main = main_function(module)
        for value, each in zip(self._structure.arguments, ir.ArrayAttr(main.attributes["arg_attrs"]), strict=True):
            self._lay((value,), ir.DictAttr(each), "sdy.sharding")
        self._block(main.regions[0].blocks[0])
        self._found.results = tuple(self._number() for _ in self._structure.returned)
        for place, (value, each) in enumerate(zip(self._found.results, ir.ArrayAttr(main.attributes["res_attrs"]), strict=True)):
            entries = ir.DictAttr(each)
            self._lay((value,), entries, "sdy.sharding")
            self._note(("result", place), entries, "sdy.propagation_edges")
        return self._found

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _block(self, block: ir.Block) -> None:
        for each in block.operations:
            op = each.operation
            attributes = op.attributes
            try:
                index = attributes[ID].value
            except KeyError:
                self._insert(op)
                continue
            record = self._structure.ops[index]
            if op.name == "sdy.sharding_group":
                self._found.groups.setdefault(ir.IntegerAttr(attributes["group_id"]).value, []).append(record.operands[0])
            if not self._lay(record.results, attributes, "sdy.sharding"):
                self._lay(record.results, attributes, "sharding")  # of a constraint, of a data flow edge
            self._note(index, attributes, "sdy.propagation_edges")
            if op.name in CONTROL_FLOW:
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner)

    def _insert(self, op: ir.Operation) -> None:
        operand = self._operand(op)
        if op.name == "sdy.sharding_group":
            self._found.groups.setdefault(ir.IntegerAttr(op.attributes["group_id"]).value, []).append(operand)
            return
        number = self._numbers[op] = self._number()
        self._found.inserted.append(Inserted(op.name, operand, number))
        self._lay((number,), op.attributes, "sharding" if "sharding" in op.attributes else "sdy.sharding")
        self._note(("inserted", number), op.attributes, "sdy.propagation_edges")

    def _operand(self, op: ir.Operation) -> int:
        """The number of the value that an inserted operation reads."""
        maker = producer(op.operands[0])
        if maker is None:
            return self._structure.arguments[ir.BlockArgument(op.operands[0]).arg_number]
        if ID not in maker.attributes:
            return self._numbers[maker]
        return self._structure.ops[maker.attributes[ID].value].results[ir.OpResult(op.operands[0]).result_number]

    def _lay(self, values: tuple[int, ...], attributes: Any, name: str) -> bool:
        """Note where values lie, if it is said; an attribute is looked up once, which is what takes the time here."""
        try:
            attribute = attributes[name]
        except KeyError:
            return False
        if attribute not in self._known:
            self._known[attribute] = _lying(attribute)
        self._found.lying.update(zip(values, self._known[attribute], strict=False))
        return True

    def _note(self, key: Any, attributes: Any, name: str) -> None:
        try:
            text = str(attributes[name])
        except KeyError:
            return
        if records := _records(text):
            self._found.records[key] = records


def _lying(attribute: ir.Attribute) -> tuple[Lying, ...]:
    each_value = (
        sdy.TensorShardingPerValueAttr(attribute).shardings if sdy.TensorShardingPerValueAttr.isinstance(attribute) else [attribute]
    )
    return tuple(
        Lying(
            dims,
            tuple(sdy.DimensionShardingAttr(dim).is_closed for dim in sdy.TensorShardingAttr(each).dimension_shardings),
            axis_names(text.partition("replicated=")[2].partition("}")[0]) if "replicated=" in (text := str(each)) else (),
        )
        for dims, each in zip(read_shardings(attribute), each_value, strict=True)
    )


def _records(text: str) -> tuple[Record, ...]:
    return tuple(Record(int(step), axis, source, targets) for step, edges in _STEP.findall(text) for axis, source, targets in _edges(edges))


@functools.lru_cache(maxsize=4096)
def _edges(text: str) -> tuple[tuple[str, Slot, tuple[Slot, ...]], ...]:
    """
    >>> _edges('{"x":(1)2 = operand-0 -> [operand-1, result-0]}')
    (('x:(1)2', Slot(is_result=False, place=0), (Slot(is_result=False, place=1), Slot(is_result=True, place=0))),)
    """
    return tuple(
        (name + part, Slot(side == "result", int(place)), tuple(_slot(each) for each in targets.split(", ")))
        for name, part, side, place, targets in _EDGE.findall(text)
    )


def _slot(text: str) -> Slot:
    side, _, place = text.partition("-")
    return Slot(side == "result", int(place))
