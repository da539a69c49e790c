"""An HLO module, read from its serialised form: computations, instructions, and how often each instruction runs.

For the module that XLA's partitioner left and for any compiled program: `executable.hlo_modules()[0].as_serialized_hlo_module_proto()`.
Shapes are read in `hlo_shapes.py`, groups of devices in `device_groups.py`, how often a loop runs in `hlo_trip_counts.py`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from workbench.spmd import hlo_pb2
from workbench.spmd.hlo_instruction import Computation, HloInstruction, root_of
from workbench.spmd.hlo_trip_counts import known_trip_count, max_trip_count

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
        """How often a `while` runs: as XLA proved, else at most what its condition and its counter's step amount to, else 1."""
        known = known_trip_count(loop)  # first: finding a loop's home takes a pass over all instructions
        return max_trip_count(self.computations, self.home_of(loop), loop) if known is None else known

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
