"""Offloading: bytes in the host's memory, and bytes over the link to it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from workbench.core.offload import STREAMED
from workbench.core.program import Program
from workbench.hardware.hardware import Chip
from workbench.propagation import Propagated
from workbench.propagation.structure.program_structure import Op, Structure, TracedValue
from workbench.reports.step_time import StepTime


class HostMemory(NamedTuple):
    """Bytes of one device: those it keeps on the host, those it sends there and fetches back per step, and how many of the latter it waits
    for, whatever else the step does."""

    bytes: int
    moved: int
    waited: int


def host_memory(program: Program, partitioned: Propagated, local_bytes: Sequence[int]) -> HostMemory:
    """What one device has on the host, all at once: at the end of the forward pass, when the backward pass has fetched nothing yet.

    It waits for an update that streams state from the host: each parameter's part is a loop, which nothing runs beside.
    """
    structure = partitioned.structure
    host_bytes = sum(
        local_bytes[index]
        for index, value in enumerate(structure.values)
        if value.on_host and value.region == 0 and (value.maker < 0 or _is_new_on_host(structure, value))
    )
    moves = [(number, op) for number, op in enumerate(structure.ops) if op.placement and not _stays_on_host(structure, op)]
    moved = {number: local_bytes[op.results[0]] * structure.regions[op.region].runs_per_step for number, op in moves}
    waited = sum(count for number, count in moved.items() if STREAMED in program.operations[number].path)
    return HostMemory(host_bytes, sum(moved.values()), waited)


def held_until_fetched(structure: Structure) -> dict[int, int]:
    """The values that are copied to the host outside loops, each with the position where the last copy is fetched back."""
    held: dict[int, int] = {}
    for op in structure.ops:
        if "device" in op.placement and op.region == 0:
            source = _copied_value(structure, op.operands[0])
            held[source] = max(held.get(source, -1), op.position)
    return held


def _copied_value(structure: Structure, value: int) -> int:
    """The value on the device of which another, on the host, is a copy; itself where it is none."""
    while structure.values[value].on_host and (maker := structure.values[value].maker) >= 0:
        op = structure.ops[maker]
        if maker in structure.body_of:
            return value
        value = op.operands[structure.values[value].result if len(op.operands) == len(op.results) else 0]
    return value


def _stays_on_host(structure: Structure, op: Op) -> bool:
    """Whether an operation that places a value on the host finds it there."""
    return "host" in op.placement and structure.values[op.operands[0]].on_host


def _is_new_on_host(structure: Structure, value: TracedValue) -> bool:
    """Whether a value on the host is new there: a copy, or what a loop stacks copies in, not what it only reads."""
    op = structure.ops[value.maker]
    if value.maker not in structure.body_of:
        return bool(op.placement) and not _stays_on_host(structure, op)
    body = structure.body_of[value.maker]
    argument = next(
        each
        for each in structure.regions[body].values
        if structure.values[each].maker < 0 and structure.values[each].result == value.result
    )
    returned = next(each for each in reversed(structure.ops) if each.region == body).operands
    start = structure.values[op.operands[value.result]].maker
    is_there = start >= 0 and bool(structure.ops[start].placement) and _stays_on_host(structure, structure.ops[start])
    return returned[value.result] != argument and not is_there


def with_transfers(time: StepTime, host: HostMemory, chip: Chip) -> StepTime:
    """The step with transfers over the host link. Copies overlap with the step, as XLA makes them asynchronous: exposed is only the time
    that the link takes beyond the rest of the step, and all that is waited for."""
    streamed, others = host.waited / chip.host_bandwidth, (host.moved - host.waited) / chip.host_bandwidth
    waited = streamed + max(0.0, others - time.total)
    share = time.total / (time.total + waited) if waited else 1.0
    exposed, hidden = time.exposed + waited, time.hidden + streamed + others - waited
    return replace(time, exposed=exposed, hidden=hidden, mfu=time.mfu * share, hfu=time.hfu * share)
