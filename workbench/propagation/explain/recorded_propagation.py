"""Shardy's records of its propagation: at which step which axis propagated over which operation, and the final
shardings.

Runs the plan's passes up to propagation with `debug-propagation-edge-sharding`, in a separate process (`recorder`).
Shardy keys the records by the addresses of operations and erases unused ones as it goes, so that a record could land on
the wrong operation: unused operations are erased beforehand, in the same way, which changes no sharding. Origins follow
from the edges. `debug-sharding-origins` stays off: it names another origin where origins conflict, and it aborts the
process where a constrained value has no other user.
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
_KEEPS_RULES = "keep-sharding-rules=true"  # not needed: rules are read from the program
_STEP = re.compile(r"\{step-(\d+) = \[((?:\{[^{}]*\}(?:, )?)*)\]\}")
_EDGE = re.compile(r'\{"([^"]+)"(:\(\d+\)\d+)? = (operand|result)-(\d+) -> \[([^\]]*)\]\}')


class Slot(NamedTuple):
    """An operand or result of an operation, by index."""

    is_result: bool
    position: int


class PropagationRecord(NamedTuple):
    """One propagation of `axis` from one slot of an operation to others; `step` counts from 0."""

    step: int
    axis: str
    source: Slot
    targets: tuple[Slot, ...]


class FinalSharding(NamedTuple):
    """A value's sharding after propagation: axes and closedness of each dimension, and explicitly replicated axes."""

    dims: Dims
    closed: tuple[bool, ...]
    replicated: tuple[str, ...] = ()


class InsertedOperation(NamedTuple):
    """An operation that the plan inserted after `operand`, whose other readers then read `result`."""

    kind: str
    operand: int
    result: int


@dataclass(slots=True)
class RecordedPropagation:
    """Shardy's records, with values numbered as in the program's structure, followed by inserted values and main's
    results.

    `records` has as keys the operation's number in the structure, `("inserted", result)`, or `("result", 0)` for main's
    return of a single tensor.
    """

    structure: Structure
    final_shardings: dict[int, FinalSharding] = field(default_factory=dict)
    records: dict[Any, tuple[PropagationRecord, ...]] = field(default_factory=dict)
    inserted: list[InsertedOperation] = field(default_factory=list)
    results: tuple[int, ...] = ()
    groups: dict[int, list[int]] = field(default_factory=dict)  # by their ids: values of one sharding group


def record_propagation(plan: Plan) -> RecordedPropagation:
    """Propagate a plan in a separate process with all steps recorded; raises `PartitionError` if that fails."""
    module = annotated_module(plan)
    try:
        answer = recorder().ask(",".join(recording_passes(plan)), module_bytes(module))
    except RefusedError as error:
        raise refusal_error(str(error)) from None
    return _RecordingReader(load_prepared(plan.program).structure, read_recording(answer)).read_records()


def recording_passes(plan: Plan) -> Iterator[str]:
    """The plan's passes up to propagation, with records, after a pass that erases unused operations."""
    for pass_text in propagating_passes(plan):
        name, _, options = pass_text.partition("{")
        words = [word for word in options.rstrip("}").split() if word != _KEEPS_RULES]
        if name == _RECORDED[-1]:
            yield _ERASING
        yield f"{name}{{{' '.join((*words, _DEBUG))}}}" if name in _RECORDED else pass_text


class _RecordingReader:
    def __init__(self, structure: Structure, recording: Recording) -> None:
        self._structure, self._recording = structure, recording
        self._recorded = RecordedPropagation(structure)
        self._next = len(structure.values)
        self._inserted: list[int] = []  # results of inserted operations

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
            if len(self._recorded.results) == 1:  # with several results Shardy records all edges on the first
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
        if maker == -1:
            return self._structure.arguments[position]
        return self._inserted[position] if maker == -2 else self._structure.ops[maker].results[position]

    def _note_shardings(self, values: tuple[int, ...], sharding: int) -> None:
        if sharding != NONE:
            self._recorded.final_shardings.update(zip(values, _read_final_shardings(self._recording.texts[sharding]), strict=False))

    def _add_records(self, key: Any, edges: int) -> None:
        if edges != NONE and (records := _records(self._recording.texts[edges])):
            self._recorded.records[key] = records


@functools.lru_cache(maxsize=4096)
def _read_final_shardings(text: str) -> tuple[FinalSharding, ...]:
    attribute = ir.Attribute.parse(text, context())
    shardings = sdy.TensorShardingPerValueAttr(attribute).shardings if sdy.TensorShardingPerValueAttr.isinstance(attribute) else [attribute]
    return tuple(
        FinalSharding(
            dims,
            tuple(sdy.DimensionShardingAttr(dim).is_closed for dim in sdy.TensorShardingAttr(sharding).dimension_shardings),
            axis_names(text.partition("replicated=")[2].partition("}")[0]) if "replicated=" in (text := str(sharding)) else (),
        )
        for dims, sharding in zip(read_shardings(attribute), shardings, strict=True)
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
        (name + part, Slot(side == "result", int(position)), tuple(_slot(target) for target in targets.split(", ")))
        for name, part, side, position, targets in _EDGE.findall(text)
    )


def _slot(text: str) -> Slot:
    side, _, position = text.partition("-")
    return Slot(side == "result", int(position))
