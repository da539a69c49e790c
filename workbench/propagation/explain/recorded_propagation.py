"""Shardy's own records of its propagation: at which step which axis propagated over which operation, and the final shardings.

The passes are those of a plan, up to the propagation, with `debug-propagation-edge-sharding` switched on, in a process of their own
(`recorder`). Shardy keys the records by the operations' addresses and erases unused operations as it goes, so that it would write some
records where an operation was: what it would erase is erased before, in the same way, which changes no sharding. Origins follow from the
edges. `debug-sharding-origins` stays off: it names another origin where origins conflict, and it aborts the process where a constrained
value has no other user.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import sdy

from workbench.plan.plan import Plan
from workbench.propagation.explain.recorder_client import RefusedError, recorder
from workbench.propagation.explain.recorder_process import INSERTED, NONE, RecordedOp, Recording, read_recording
from workbench.propagation.module.mlir_context import context, module_bytes
from workbench.propagation.module.shardy_attributes import Dims, axis_names, read_shardings
from workbench.propagation.prepared_program import load_prepared
from workbench.propagation.propagate import annotated_module, propagating_passes, refusal_error
from workbench.propagation.structure.program_structure import Structure

_RECORDED = ("sdy-apply-sharding-constraints", "sdy-user-priority-propagate")
_DEBUG = "debug-propagation-edge-sharding=true"
_ERASING = "canonicalize{enable-patterns=none}"  # folds and erases as the driver of Shardy's patterns does, without rewriting
_KEEPS_RULES = "keep-sharding-rules=true"  # which are read of the program
_STEP = re.compile(r"\{step-(\d+) = \[((?:\{[^{}]*\}(?:, )?)*)\]\}")
_EDGE = re.compile(r'\{"([^"]+)"(:\(\d+\)\d+)? = (operand|result)-(\d+) -> \[([^\]]*)\]\}')


class Slot(NamedTuple):
    """An operand or a result of an operation, by its index."""

    is_result: bool
    position: int


class PropagationRecord(NamedTuple):
    """`axis` propagated from one slot of an operation to others, at a step that counts from 0."""

    step: int
    axis: str
    source: Slot
    targets: tuple[Slot, ...]


class FinalSharding(NamedTuple):
    """A value's sharding after propagation: its axes, which dimensions are closed, which axes are replicated explicitly."""

    dims: Dims
    closed: tuple[bool, ...]
    replicated: tuple[str, ...] = ()


class InsertedOperation(NamedTuple):
    """An operation of the plan that the program does not have: behind `operand`; all other readers read `result` instead."""

    kind: str
    operand: int
    result: int


@dataclass(slots=True)
class RecordedPropagation:
    """What Shardy did, numbered as in the program's structure; inserted values and the results of main are numbered behind it.

    `records` are by operation: its number in the structure, or `("inserted", its result)`, `("result", 0)` for what main returns if that is
    one tensor.
    """

    structure: Structure
    final_shardings: dict[int, FinalSharding] = field(default_factory=dict)
    records: dict[Any, tuple[PropagationRecord, ...]] = field(default_factory=dict)
    inserted: list[InsertedOperation] = field(default_factory=list)
    results: tuple[int, ...] = ()
    groups: dict[int, list[int]] = field(default_factory=dict)  # by their ids: values of one sharding group


def record_propagation(plan: Plan) -> RecordedPropagation:
    """Propagate a plan and record all steps, in a separate process. Raises `PartitionError` with Shardy's message, or if the process
    dies."""
    module = annotated_module(plan)
    try:
        answer = recorder().ask(",".join(recording_passes(plan)), module_bytes(module))
    except RefusedError as error:
        raise refusal_error(str(error)) from None
    return _RecordingReader(load_prepared(plan.program).structure, read_recording(answer)).read_records()


def recording_passes(plan: Plan) -> Iterator[str]:
    """The passes of a plan up to the propagation, with records, and before them the passes that erase what they would erase."""
    for each in propagating_passes(plan):
        name, _, options = each.partition("{")
        words = [word for word in options.rstrip("}").split() if word != _KEEPS_RULES]
        if name == _RECORDED[-1]:
            yield _ERASING
        yield f"{name}{{{' '.join((*words, _DEBUG))}}}" if name in _RECORDED else each


class _RecordingReader:
    def __init__(self, structure: Structure, recording: Recording) -> None:
        self._structure, self._recording = structure, recording
        self._recorded = RecordedPropagation(structure)
        self._next = len(structure.values)
        self._inserted: list[int] = []  # the values of what was inserted

    def read_records(self) -> RecordedPropagation:
        for value, sharding in zip(self._structure.arguments, self._recording.arguments, strict=True):
            self._note_shardings((value,), sharding)
        for recorded_op in self._recording.operations:
            if recorded_op.number == INSERTED:
                self._add_inserted(recorded_op)
                continue
            record = self._structure.ops[recorded_op.number]
            if recorded_op.group != NONE:
                self._recorded.groups.setdefault(recorded_op.group, []).append(record.operands[0])
            self._note_shardings(record.results, recorded_op.sharding)
            self._add_records(recorded_op.number, recorded_op.edges)
        self._recorded.results = tuple(self._new_number() for _ in self._structure.returned)
        for position, (value, (sharding, edges)) in enumerate(zip(self._recorded.results, self._recording.results, strict=True)):
            self._note_shardings((value,), sharding)
            if len(self._recorded.results) == 1:  # of several Shardy notes all on the first, whichever it was
                self._add_records(("result", position), edges)
        return self._recorded

    def _new_number(self) -> int:
        self._next += 1
        return self._next - 1

    def _add_inserted(self, recorded_op: RecordedOp) -> None:
        operand = self._operand_number(*recorded_op.operand)
        if recorded_op.group != NONE:
            self._recorded.groups.setdefault(recorded_op.group, []).append(operand)
            return
        number = self._new_number()
        self._inserted.append(number)
        self._recorded.inserted.append(InsertedOperation(recorded_op.kind, operand, number))
        self._note_shardings((number,), recorded_op.sharding)
        self._add_records(("inserted", number), recorded_op.edges)

    def _operand_number(self, maker: int, position: int) -> int:
        """The number of the value that an inserted operation reads."""
        if maker == -1:
            return self._structure.arguments[position]
        return self._inserted[position] if maker == -2 else self._structure.ops[maker].results[position]

    def _note_shardings(self, values: tuple[int, ...], sharding: int) -> None:
        """Note the shardings of values, if there are any."""
        if sharding != NONE:
            self._recorded.final_shardings.update(zip(values, _read_final_shardings(self._recording.texts[sharding]), strict=False))

    def _add_records(self, key: Any, edges: int) -> None:
        if edges != NONE and (records := _records(self._recording.texts[edges])):
            self._recorded.records[key] = records


@functools.lru_cache(maxsize=4096)
def _read_final_shardings(text: str) -> tuple[FinalSharding, ...]:
    attribute = ir.Attribute.parse(text, context())
    each_value = (
        sdy.TensorShardingPerValueAttr(attribute).shardings if sdy.TensorShardingPerValueAttr.isinstance(attribute) else [attribute]
    )
    return tuple(
        FinalSharding(
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
    (('x:(1)2', Slot(is_result=False, position=0), (Slot(is_result=False, position=1), Slot(is_result=True, position=0))),)
    """
    return tuple(
        (name + part, Slot(side == "result", int(position)), tuple(_slot(each) for each in targets.split(", ")))
        for name, part, side, position, targets in _EDGE.findall(text)
    )


def _slot(text: str) -> Slot:
    side, _, position = text.partition("-")
    return Slot(side == "result", int(position))
