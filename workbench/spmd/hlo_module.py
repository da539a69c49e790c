"""An HLO module parsed from its serialized form: computations, instructions, and the run count of each instruction.

Used for the partitioner's module and for compiled programs:
`executable.hlo_modules()[0].as_serialized_hlo_module_proto()`. Shapes are read in `hlo_shapes.py`, device groups in
`device_groups.py`.
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

# Instructions of an HLO module, and their computations.


@dataclass(frozen=True, eq=False)
class HloInstruction:
    """One instruction: its protobuf message, and names of its operands and called computations."""

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
        """Named scope and primitive of its origin, as written by JAX; empty if the compiler added the instruction."""
        return self.fields.metadata.op_name

    @cached_property
    def shape(self) -> Shape:
        return read_shape(self.fields.shape)

    @property
    def arrays(self) -> tuple[Array, ...]:
        return arrays(self.shape)

    @cached_property
    def bytes(self) -> int:
        """Bytes of its result on one device, without padding."""
        return sum(array.bytes for array in self.arrays)

    @property
    def element(self) -> int:
        return self.fields.tuple_index

    @cached_property
    def backend_config(self) -> Mapping[str, Any]:
        """The compiler's annotations if they are JSON, else an empty mapping."""
        try:
            config = json.loads(self.fields.backend_config or b"{}")
        except ValueError:  # custom calls have any text
            return {}
        return config if isinstance(config, dict) else {}

    @property
    def whole_number(self) -> int | None:
        literal = self.fields.literal
        if self.opcode != "constant" or literal.shape.dimensions:
            return None
        return next((int(values[0]) for values in (literal.s32s, literal.s64s, literal.u32s, literal.u64s) if values), None)


Computation = Mapping[str, HloInstruction]


def parameter_of(computation: Computation, number: int) -> HloInstruction | None:
    """Return a computation's parameter by its number; `None` if it has none."""
    return next(
        (
            instruction
            for instruction in computation.values()
            if instruction.opcode == "parameter" and instruction.fields.parameter_number == number
        ),
        None,
    )


def root_of(computation: Computation) -> HloInstruction | None:
    return next((instruction for instruction in computation.values() if instruction.is_root), None)


_CALLERS = ("call", "fusion", "async-start", "custom-call")


class InstructionVisit(NamedTuple):
    """An instruction that runs `runs` times per step, with its enclosing `loop` and outermost wrapper (`within`)."""

    computation: Computation
    instruction: HloInstruction
    runs: int
    loop: str
    within: HloInstruction | None


@dataclass(frozen=True, eq=False)
class HloModule:
    """Computations of a program by name, each with its instructions by name, and the name of the entry."""

    fields: hlo_pb2.Module
    computations: Mapping[str, Computation]
    entry: str

    @property
    def name(self) -> str:
        return self.fields.name

    def visits(self) -> Iterator[InstructionVisit]:
        """Yield every instruction that one run of the program reaches, with its callers."""
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
        """Return the names of the computations that the instruction runs, except those that combine single elements."""
        return tuple(name for name, _ in self._callees(instruction))

    def _callees(self, instruction: HloInstruction) -> Iterator[tuple[str, int]]:
        """Yield the called computations and how often they run; of a conditional all branches, each once."""
        if instruction.opcode == "while":
            trips = self.trip_count(instruction)
            yield from ((name, trips) for name in instruction.called)
        elif instruction.opcode in _CALLERS or instruction.opcode == "conditional":
            yield from ((name, 1) for name in instruction.called)

    def printed_opcode(self, instruction: HloInstruction) -> str:
        """Opcode in HLO text: `slice-start` for an `async-start` that runs a slice, `slice-done` for its `async-done`."""
        started = instruction
        while started.opcode in ("async-update", "async-done"):
            started = self.home_of(started)[started.operands[0]]
        root = root_of(self.computations[started.called[0]]) if started.opcode == "async-start" else None
        return root.opcode + instruction.opcode.removeprefix("async") if root else instruction.opcode

    def trip_count(self, loop: HloInstruction) -> int:
        """Iterations of a `while`: proved by XLA, else counted, else stated by the layout, else 1."""
        trips = known_trip_count(loop)  # first: `home_of` takes a pass over all instructions
        trips = counted_trips(self.computations, self.home_of(loop), loop) if trips is None else trips
        return (layout_trip_count(loop) or 1) if trips is None else trips

    def home_of(self, instruction: HloInstruction) -> Computation:
        return self.computations[self._homes[id(instruction)]]

    @cached_property
    def _homes(self) -> Mapping[int, str]:
        return {id(instruction): name for name, computation in self.computations.items() for instruction in computation.values()}


def read_module(serialized: bytes) -> HloModule:
    """Parse a serialized `HloModuleProto`. Instructions are in scheduled order, else operands come first."""
    return module_from(hlo_pb2.Module.FromString(serialized))


def module_from(fields: hlo_pb2.Module) -> HloModule:
    """Convert a parsed `HloModuleProto`; same instruction order as `read_module`."""
    names = {computation.id: computation.name for computation in fields.computations}
    computations = {computation.name: _read_computation(computation, names, fields.schedule) for computation in fields.computations}
    return HloModule(fields, computations, names.get(fields.entry_computation_id, fields.entry_computation_name))


def _read_computation(fields: hlo_pb2.Computation, computations: Mapping[int, str], schedule: hlo_pb2.Schedule) -> Computation:
    names = {message.id: message.name for message in fields.instructions}
    instructions = {
        message.name: HloInstruction(
            message,
            tuple([names[operand] for operand in message.operand_ids]),
            tuple([computations[called] for called in message.called_computation_ids]),
            message.id == fields.root_id,
        )
        for message in fields.instructions
    }
    order = schedule.sequences[fields.id].instruction_ids if fields.id in schedule.sequences else ()
    return {names[number]: instructions[names[number]] for number in order} if order else instructions


# Trip counts of loops: proved by XLA, or from the counter's start, step and limit.


def loop_body(loop: HloInstruction) -> str:
    return loop.called[0]


def loop_condition(loop: HloInstruction) -> str:
    return loop.called[1]


def known_trip_count(loop: HloInstruction) -> int | None:
    """Return the trip count of a `while` that XLA proved, if any."""
    trips = loop.backend_config.get("known_trip_count", {}).get("n")
    return None if trips is None else int(trips)


_STATED = re.compile(rf"\b{TURNS}(\d+)")


def layout_trip_count(loop: HloInstruction) -> int | None:
    """Return the trip count of a `while` that the layout wrote into its program, if any."""
    match = _STATED.search(loop.op_name)
    return int(match[1]) if match else None


def counted_trips(computations: Mapping[str, Computation], home: Computation, loop: HloInstruction) -> int | None:
    """Return a loop's trip count from its condition and its counter's step; `None` if data may end it sooner."""
    condition = computations[loop_condition(loop)]
    numbers = {instruction.whole_number for instruction in condition.values()} - {None}
    called = [inner for outer in condition.values() for name in outer.called for inner in computations[name].values()]
    if len(numbers) != 1 or any(instruction.opcode in _JOINING for instruction in (*condition.values(), *called)):
        return None
    start, step = _counter(computations[loop_body(loop)], home, loop, condition)
    trips = max(ceil(((numbers.pop() or 0) - (start or 0)) / step), 0)
    return trips if trips or start is not None else None  # counts down from a value that depends on data


_JOINING = ("and", "or", "not", "reduce")  # opcodes of a condition that depends on more than a counter


def _counter(body: Computation, home: Computation, loop: HloInstruction, condition: Computation) -> tuple[int | None, int]:
    """Return a loop counter's start, if known, and its step (2 in windowed einsums that XLA:TPU unrolls), else 1."""
    indices = {instruction.element for instruction in condition.values() if instruction.opcode == "get-tuple-element"}
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
    operand = home.get(loop.operands[0])
    return home.get(operand.operands[index]) if operand and operand.opcode == "tuple" else None


# Instructions inside fusions and asynchronous calls: the work of one kernel.

WRAPPERS = ("fusion", "async-start")
MOVES = ("copy-start", "slice-start", "dynamic-slice-start")
"""Copies between a device's memories that overlap with other work."""
SLICES = ("dynamic-slice", "slice", "gather")


def body_of(module: HloModule, instruction: HloInstruction) -> Computation | None:
    """Return the computation that a fusion or an asynchronous call runs; `None` for other instructions."""
    callees = module.callees(instruction) if instruction.opcode in WRAPPERS else ()
    return module.computations[callees[0]] if callees else None


def instructions_within(module: HloModule, instruction: HloInstruction) -> Iterator[tuple[Computation, HloInstruction]]:
    """Yield all nested instructions of a fusion or asynchronous call, each with its computation."""
    for name in module.callees(instruction) if instruction.opcode in WRAPPERS else ():
        computation = module.computations[name]
        for nested in computation.values():
            yield computation, nested
            yield from instructions_within(module, nested)


def updated_bytes(body: Computation, source: HloInstruction) -> int | None:
    """Return the bytes of the written slice if the value is an in-place update."""
    while source.opcode == "bitcast":
        source = body[source.operands[0]]
    return body[source.operands[1]].bytes if source.opcode == "dynamic-update-slice" else None
