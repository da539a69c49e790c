"""Shardy's own records of how it propagated (Y21): at which step which axis was handed on over which operation, and where all lies then.

The passes are those of a plan, up to the propagation, with `debug-propagation-edge-sharding` switched on, in a process of their own
(`recorder`). Shardy keeps the records by the operations' addresses and erases what nobody reads as it goes, so that it would write some of
them where an operation was: what it would erase is erased before, in the same way, which changes no sharding. Whose an axis is follows from
the edges. `debug-sharding-origins`, which would tell, stays off: it names another one where origins conflict, and it aborts the process
where a constrained value has no other user.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import sdy

from workbench.plan.plan import Plan
from workbench.propagation.explain.recorder import RefusedError, recorder
from workbench.propagation.explain.recording import INSERTED, NONE, Noted, Recording, read_recording
from workbench.propagation.module.attributes import Dims, axis_names, read_shardings
from workbench.propagation.module.context import context, module_bytes
from workbench.propagation.program import prepared
from workbench.propagation.propagate import annotated_module, propagating_passes, refused
from workbench.propagation.structure.structure import Structure

_RECORDED = ("sdy-apply-sharding-constraints", "sdy-user-priority-propagate")
_DEBUG = "debug-propagation-edge-sharding=true"
_ERASING = "canonicalize{enable-patterns=none}"  # folds and erases as the driver of Shardy's patterns does, and rewrites nothing
_KEEPS_RULES = "keep-sharding-rules=true"  # which are read of the program
_STEP = re.compile(r"\{step-(\d+) = \[((?:\{[^{}]*\}(?:, )?)*)\]\}")
_EDGE = re.compile(r'\{"([^"]+)"(:\(\d+\)\d+)? = (operand|result)-(\d+) -> \[([^\]]*)\]\}')


class Slot(NamedTuple):
    """An operand or a result of an operation, by its place."""

    is_result: bool
    place: int


class PropagationRecord(NamedTuple):
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

    `records` are by operation: its number in the structure, or `("inserted", its result)`, `("result", 0)` for what main returns if that is
    one tensor.
    """

    structure: Structure
    lying: dict[int, Lying] = field(default_factory=dict)
    records: dict[Any, tuple[PropagationRecord, ...]] = field(default_factory=dict)
    inserted: list[Inserted] = field(default_factory=list)
    results: tuple[int, ...] = ()
    groups: dict[int, list[int]] = field(default_factory=dict)  # by their ids: values that lie alike


def record(plan: Plan) -> Recorded:
    """Propagate a plan with all records, in the process for that. Raises `PartitionError` with Shardy's words, or if it ends there."""
    module = annotated_module(plan)
    try:
        answer = recorder().ask(",".join(recording_passes(plan)), module_bytes(module))
    except RefusedError as error:
        raise refused(str(error)) from None
    return _OriginReader(prepared(plan.program).structure, read_recording(answer)).read()


def recording_passes(plan: Plan) -> Iterator[str]:
    """The passes of a plan up to the propagation, with their records, and what erases what they would erase before that."""
    for each in propagating_passes(plan):
        name, _, options = each.partition("{")
        words = [word for word in options.rstrip("}").split() if word != _KEEPS_RULES]
        if name == _RECORDED[-1]:
            yield _ERASING
        yield f"{name}{{{' '.join((*words, _DEBUG))}}}" if name in _RECORDED else each


class _OriginReader:
    def __init__(self, structure: Structure, recording: Recording) -> None:
        self._structure, self._recording = structure, recording
        self._found = Recorded(structure)
        self._next = len(structure.values)
        self._inserted: list[int] = []  # the values of what was inserted

    def read(self) -> Recorded:
        for value, sharding in zip(self._structure.arguments, self._recording.arguments, strict=True):
            self._lay((value,), sharding)
        for noted in self._recording.operations:
            if noted.number == INSERTED:
                self._insert(noted)
                continue
            record = self._structure.ops[noted.number]
            if noted.group != NONE:
                self._found.groups.setdefault(noted.group, []).append(record.operands[0])
            self._lay(record.results, noted.sharding)
            self._note(noted.number, noted.edges)
        self._found.results = tuple(self._number() for _ in self._structure.returned)
        for place, (value, (sharding, edges)) in enumerate(zip(self._found.results, self._recording.results, strict=True)):
            self._lay((value,), sharding)
            if len(self._found.results) == 1:  # of several Shardy notes all on the first, whichever it was
                self._note(("result", place), edges)
        return self._found

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _insert(self, noted: Noted) -> None:
        operand = self._operand(*noted.operand)
        if noted.group != NONE:
            self._found.groups.setdefault(noted.group, []).append(operand)
            return
        number = self._number()
        self._inserted.append(number)
        self._found.inserted.append(Inserted(noted.kind, operand, number))
        self._lay((number,), noted.sharding)
        self._note(("inserted", number), noted.edges)

    def _operand(self, maker: int, place: int) -> int:
        """The number of the value that an inserted operation reads."""
        if maker == -1:
            return self._structure.arguments[place]
        return self._inserted[place] if maker == -2 else self._structure.ops[maker].results[place]

    def _lay(self, values: tuple[int, ...], sharding: int) -> None:
        """Note where values lie, if it is said."""
        if sharding != NONE:
            self._found.lying.update(zip(values, _lying(self._recording.texts[sharding]), strict=False))

    def _note(self, key: Any, edges: int) -> None:
        if edges != NONE and (records := _records(self._recording.texts[edges])):
            self._found.records[key] = records


@functools.lru_cache(maxsize=4096)
def _lying(text: str) -> tuple[Lying, ...]:
    attribute = ir.Attribute.parse(text, context())
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


def _records(text: str) -> tuple[PropagationRecord, ...]:
    return tuple(
        PropagationRecord(int(step), axis, source, targets)
        for step, edges in _STEP.findall(text)
        for axis, source, targets in _edges(edges)
    )


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
