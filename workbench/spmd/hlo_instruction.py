"""One instruction of an HLO module, and the computation it stands in."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.spmd import hlo_pb2
from workbench.spmd.hlo_shapes import Array, Shape, arrays, read_shape


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
