"""The memory of a compiled step over its schedule: bytes of live temporaries, and which they are at the peak.

It is exact as to which buffers are alive; a real allocation adds fragmentation. Memory that is allocated for a result holds temporaries
until the result is made: one after the other, as XLA reuses an allocation (`buffer_assignment.cc`).
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from workbench.engine.hlo.buffer_schedule import Buffer, BufferSchedule
from workbench.engine.hlo.build_buffer_schedule import schedule_of
from workbench.engine.hlo.op_names import is_indexing, path_of_value
from workbench.spmd.hlo_instruction import Computation, HloInstruction
from workbench.spmd.hlo_module import HloModule
from workbench.spmd.hlo_shapes import DEVICE_MEMORY

LARGEST = 20  # buffers named at the peak


class MemoryTimeline(NamedTuple):
    """The live bytes over the schedule, in the form of `Compiled.alive` and `Compiled.alive_at_peak`."""

    alive: tuple[tuple[str, int], ...]
    at_peak: tuple[tuple[str, int], ...]

    @property
    def peak(self) -> int:
        return max((count for _, count in self.alive), default=0)


def timeline_of(module: HloModule) -> MemoryTimeline:
    """Temporaries in the device's memory at every instruction that changes them, without those placed in a result's allocation."""
    schedule = schedule_of(module)
    buffers = [each for each in schedule.buffers if each.space == DEVICE_MEMORY and each.bytes]
    temporaries = _drop_placed_in_results([each for each in buffers if each.is_temporary], [each for each in buffers if each.is_result])
    counts = _count_alive_bytes(schedule, temporaries)
    top = max(range(len(counts)), key=counts.__getitem__, default=0)
    return MemoryTimeline(tuple(_list_changes(schedule, counts)), tuple(_list_largest(module, temporaries, top)))


def _drop_placed_in_results(temporaries: Iterable[Buffer], results: Iterable[Buffer]) -> list[Buffer]:
    """The temporaries that find no room in a result's allocation, which is filled largest first."""
    reserved = [(each.bytes, each.spans) for each in results]
    remaining = []
    for temporary in sorted(temporaries, key=lambda each: -each.bytes):
        spans = temporary.spans
        free_spans = next((used for size, used in reserved if size >= temporary.bytes and not _overlap(used, spans)), None)
        if free_spans is None:
            remaining.append(temporary)
        else:
            free_spans += spans
    return remaining


def _overlap(one: Iterable[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    return any(born <= last and first <= died for first, last in one for born, died in other)


def _count_alive_bytes(schedule: BufferSchedule, temporaries: Iterable[Buffer]) -> list[int]:
    """Bytes alive at each position."""
    change = [0] * (len(schedule.steps) + 1)
    for each in temporaries:
        for first, last in each.spans:
            change[first] += each.bytes
            change[last + 1] -= each.bytes
    return list(accumulate(change[:-1]))


def _list_changes(schedule: BufferSchedule, counts: list[int]) -> Iterable[tuple[str, int]]:
    before = -1
    for step, count in zip(schedule.steps, counts, strict=True):
        if count != before:
            yield step.name, count
        before = count


def _list_largest(module: HloModule, temporaries: Iterable[Buffer], top: int) -> Iterable[tuple[str, int]]:
    buffers = [each for each in temporaries if any(first <= top <= last for first, last in each.spans)]
    return [(_buffer_path(module, each), each.bytes) for each in sorted(buffers, key=lambda each: -each.bytes)[:LARGEST]]


def _buffer_path(module: HloModule, buffer: Buffer) -> str:
    """The display name of a buffer: the operation whose result is in it; for stacked ones, what a loop writes into the stack."""
    makers = list(buffer.makers)
    named = [path for each in makers for path in _list_paths(module, each)]
    telling = [path for path in named if not is_indexing(path)]
    return next(iter(telling or named), "") or makers[0].name


def _list_paths(module: HloModule, instruction: HloInstruction) -> Iterable[str]:
    """Paths of the values that an update writes, then of the instruction itself."""
    if instruction.opcode == "fusion":
        for name in module.callees(instruction):
            body = module.computations[name]
            updates = (each for each in body.values() if each.opcode == "dynamic-update-slice")
            for update in updates:
                yield from _walk_upstream(body, update.operands[1])
    yield from _walk_upstream(module.home_of(instruction), instruction.name)


def _walk_upstream(body: Computation, name: str) -> Iterable[str]:
    """Paths along the first operands of a value, nearest first."""
    while name:
        instruction = body[name]
        if path := path_of_value(instruction):
            yield path
        name = instruction.operands[0] if instruction.operands else ""
