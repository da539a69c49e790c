"""The instructions inside fusions and asynchronous calls: the work of one kernel."""

from collections.abc import Iterator

from workbench.spmd.hlo_instruction import Computation, HloInstruction
from workbench.spmd.hlo_module import HloModule

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
