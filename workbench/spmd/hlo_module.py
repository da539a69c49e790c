"""An HLO module, read from its serialised form: computations, instructions, and how often each instruction runs.

For the module that XLA's partitioner left and for any compiled program: `executable.hlo_modules()[0].as_serialized_hlo_module_proto()`.
Shapes are read in `hlo_shapes.py`, groups of devices in `device_groups.py`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

from workbench.propagation.module.source_location import TURNS
from workbench.spmd import hlo_pb2
from workbench.spmd.hlo_shapes import Array, Shape, arrays, read_shape

# One instruction of an HLO module, and the computation it stands in.


@dataclass(frozen=True, eq=False)
class HloInstruction:
    """One instruction. `operands` and `called` are names: of instructions of its own computation, of computations of the module.

    `fields` is the message itself, for what only few kinds of instruction have.
    """

    fields: hlo_pb2.Instruction
    operands: tuple[str, ...]
    called: tuple[str, ...]
    is_root: bool = False

    @cached_property
    def name(self) -> str:
        return self.fields.name

    @cached_property
    def opcode(self) -> str:
        return self.fields.opcode

    @cached_property
    def op_name(self) -> str:
        """The named scope and primitive it comes from, as JAX wrote it; empty if the compiler added it."""
        return self.fields.metadata.op_name

    @cached_property
    def shape(self) -> Shape:
        return read_shape(self.fields.shape)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays of its result."""
        return arrays(self.shape)

    @cached_property
    def bytes(self) -> int:
        """Bytes of its result on one device, without padding."""
        return sum(each.bytes for each in self.arrays)

    @property
    def element(self) -> int:
        """The index of a `get-tuple-element`."""
        return self.fields.tuple_index

    @cached_property
    def backend_config(self) -> Mapping[str, Any]:
        """The compiler's own notes, where they are JSON; else nothing."""
        try:
            found = json.loads(self.fields.backend_config or b"{}")
        except ValueError:  # of a custom call: any text
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def whole_number(self) -> int | None:
        """The value of a constant, if it is a single whole number."""
        literal = self.fields.literal
        if self.opcode != "constant" or literal.shape.dimensions:
            return None
        return next((int(each[0]) for each in (literal.s32s, literal.s64s, literal.u32s, literal.u64s) if each), None)


Computation = Mapping[str, HloInstruction]


def parameter_of(computation: Computation, number: int) -> HloInstruction | None:
    """A computation's parameter by its number; `None` where the computation does not have it."""
    return next((each for each in computation.values() if each.opcode == "parameter" and each.fields.parameter_number == number), None)


def root_of(computation: Computation) -> HloInstruction | None:
    return next((each for each in computation.values() if each.is_root), None)


_CALLERS = ("call", "fusion", "async-start", "custom-call")


class InstructionVisit(NamedTuple):
    """An instruction that runs `runs` times a step: in the body or condition `loop` (empty outside of loops), inside the fusion or
    asynchronous call `within` (the outermost), if any."""

    computation: Computation
    instruction: HloInstruction
    runs: int
    loop: str
    within: HloInstruction | None


@dataclass(frozen=True, eq=False)
class HloModule:
    """The computations of a program by name, each with its instructions by name, and which of them is the entry."""

    fields: hlo_pb2.Module
    computations: Mapping[str, Computation]
    entry: str

    @property
    def name(self) -> str:
        return self.fields.name

    def visits(self) -> Iterator[InstructionVisit]:
        """Every instruction that one run of the program reaches, and from where."""
        return self._visits(self.entry, 1, "", None)

    def _visits(self, name: str, count: int, loop: str, within: HloInstruction | None) -> Iterator[InstructionVisit]:
        computation = self.computations[name]
        for instruction in computation.values():
            yield InstructionVisit(computation, instruction, count, loop, within)
            is_loop, is_wrapper = instruction.opcode == "while", instruction.opcode in ("fusion", "async-start")
            for callee, times in self._callees(instruction):
                inner = (within or instruction) if is_wrapper else within
                yield from self._visits(callee, count * times, callee if is_loop else loop, inner)

    def callees(self, instruction: HloInstruction) -> tuple[str, ...]:
        """Names of the computations that the instruction runs; not those that combine single elements."""
        return tuple(name for name, _ in self._callees(instruction))

    def _callees(self, instruction: HloInstruction) -> Iterator[tuple[str, int]]:
        """Computations the instruction runs, and how often. For a conditional all branches: which one runs is not known."""
        if instruction.opcode == "while":
            trips = self.trip_count(instruction)
            yield from ((name, trips) for name in instruction.called)
        elif instruction.opcode in _CALLERS or instruction.opcode == "conditional":
            yield from ((name, 1) for name in instruction.called)

    def printed_opcode(self, instruction: HloInstruction) -> str:
        """The opcode in HLO text: `slice-start` for an `async-start` that runs a slice, `slice-done` for the `async-done` that awaits
        it."""
        started = instruction
        while started.opcode in ("async-update", "async-done"):
            started = self.home_of(started)[started.operands[0]]
        root = root_of(self.computations[started.called[0]]) if started.opcode == "async-start" else None
        return root.opcode + instruction.opcode.removeprefix("async") if root else instruction.opcode

    def trip_count(self, loop: HloInstruction) -> int:
        """How often a `while` runs: as XLA proved, else as its counter says if that alone ends it, else as the layout says, else 1."""
        known = known_trip_count(loop)  # first: finding a loop's home takes a pass over all instructions
        known = counted_trips(self.computations, self.home_of(loop), loop) if known is None else known
        return (stated_trips(loop) or 1) if known is None else known

    def home_of(self, instruction: HloInstruction) -> Computation:
        """The computation that contains an instruction."""
        return self.computations[self._homes[id(instruction)]]

    @cached_property
    def _homes(self) -> Mapping[int, str]:
        return {id(each): name for name, computation in self.computations.items() for each in computation.values()}


def read_module(serialized: bytes) -> HloModule:
    """Parse a serialised `HloModuleProto`. Instructions are in scheduled order, else in an order in which operands come first."""
    return module_from(hlo_pb2.Module.FromString(serialized))


def module_from(fields: hlo_pb2.Module) -> HloModule:
    """The same, from the message itself."""
    names = {each.id: each.name for each in fields.computations}
    computations = {each.name: _read_computation(each, names, fields.schedule) for each in fields.computations}
    return HloModule(fields, computations, names.get(fields.entry_computation_id, fields.entry_computation_name))


def _read_computation(fields: hlo_pb2.Computation, computations: Mapping[int, str], schedule: hlo_pb2.Schedule) -> Computation:
    names = {each.id: each.name for each in fields.instructions}
    found = {
        each.name: HloInstruction(
            each,
            tuple([names[operand] for operand in each.operand_ids]),
            tuple([computations[called] for called in each.called_computation_ids]),
            each.id == fields.root_id,
        )
        for each in fields.instructions
    }
    order = schedule.sequences[fields.id].instruction_ids if fields.id in schedule.sequences else ()
    return {names[number]: found[names[number]] for number in order} if order else found


# How often a loop of an HLO module runs: as XLA proved, or by its counter: where that starts, its step, the limit it is compared with.


def loop_body(loop: HloInstruction) -> str:
    """The name of a loop's body."""
    return loop.called[0]


def loop_condition(loop: HloInstruction) -> str:
    """The name of a loop's condition."""
    return loop.called[1]


def known_trip_count(loop: HloInstruction) -> int | None:
    """How often a `while` runs, as XLA proved; `None` if it did not."""
    known = loop.backend_config.get("known_trip_count", {}).get("n")
    return None if known is None else int(known)


_STATED = re.compile(rf"\b{TURNS}(\d+)")


def stated_trips(loop: HloInstruction) -> int | None:
    """How often a `while` runs by the layout that was written into its program."""
    found = _STATED.search(loop.op_name)
    return int(found[1]) if found else None


def counted_trips(computations: Mapping[str, Computation], home: Computation, loop: HloInstruction) -> int | None:
    """How often a `while` in the computation `home` runs: what its condition and its counter's step amount to; `None` where data may end
    it sooner."""
    condition = computations[loop_condition(loop)]
    numbers = {each.whole_number for each in condition.values()} - {None}
    called = [each for within in condition.values() for name in within.called for each in computations[name].values()]
    if len(numbers) != 1 or any(each.opcode in _JOINING for each in (*condition.values(), *called)):
        return None
    start, step = _counter(computations[loop_body(loop)], home, loop, condition)
    turns = max(ceil(((numbers.pop() or 0) - (start or 0)) / step), 0)
    return turns if turns or start is not None else None  # it counts down from a value that depends on data


_JOINING = ("and", "or", "not", "reduce")  # of a condition that more than a counter decides


def _counter(body: Computation, home: Computation, loop: HloInstruction, condition: Computation) -> tuple[int | None, int]:
    """Where a loop's counter starts, if that is known, and what an iteration adds to it: 1 unless the program says otherwise.

    XLA:TPU unrolls a windowed einsum's body twice and keeps the bound, so that the step is 2.
    """
    indices = {each.element for each in condition.values() if each.opcode == "get-tuple-element"}
    if len(indices) != 1:
        return None, 1
    index = indices.pop()
    start = _element(home, loop, index)
    root = root_of(body)
    added = body.get(root.operands[index]) if root and root.opcode == "tuple" else None
    steps = [number for name in added.operands if (number := body[name].whole_number) is not None] if added else []
    is_sum = added is not None and added.opcode == "add" and len(steps) == 1
    return start.whole_number if start else None, (steps[0] if is_sum and steps[0] > 0 else 1)


def _element(home: Computation, loop: HloInstruction, index: int) -> HloInstruction | None:
    """The instruction that makes one element of a loop's operand, if that is a tuple in the same computation."""
    made = home.get(loop.operands[0])
    return home.get(made.operands[index]) if made and made.opcode == "tuple" else None


# The instructions inside fusions and asynchronous calls: the work of one kernel.

WRAPPERS = ("fusion", "async-start")
MOVES = ("copy-start", "slice-start", "dynamic-slice-start")
"""Copies between a device's memories that run beside other work."""
SLICES = ("dynamic-slice", "slice", "gather")


def body_of(module: HloModule, instruction: HloInstruction) -> Computation | None:
    """The computation that a fusion or an asynchronous call runs; `None` for any other instruction."""
    callees = module.callees(instruction) if instruction.opcode in WRAPPERS else ()
    return module.computations[callees[0]] if callees else None


def instructions_within(module: HloModule, instruction: HloInstruction) -> Iterator[tuple[Computation, HloInstruction]]:
    """All instructions of a fusion or asynchronous call and of those within it, each with its computation."""
    for name in module.callees(instruction) if instruction.opcode in WRAPPERS else ():
        computation = module.computations[name]
        for each in computation.values():
            yield computation, each
            yield from instructions_within(module, each)


def updated_bytes(body: Computation, source: HloInstruction) -> int | None:
    """Bytes of the slice that is written, if the value is an update in place."""
    while source.opcode == "bitcast":
        source = body[source.operands[0]]
    return body[source.operands[1]].bytes if source.opcode == "dynamic-update-slice" else None
