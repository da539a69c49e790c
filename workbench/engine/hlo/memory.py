"""The memory of a compiled step over its schedule: how many bytes of temporaries are alive, and what they are where most are.

Exact as to which buffers are alive; a real allocation adds what its packing wastes. Memory that is set apart for a result holds temporaries
until the result is made: one after the other, as XLA reuses an allocation (`buffer_assignment.cc`).
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from workbench.engine.hlo.buffers import Buffer, BufferSchedule
from workbench.engine.hlo.op_names import is_indexing, path_of_value
from workbench.engine.hlo.schedule import schedule_of
from workbench.spmd.module import Computation, HloInstruction, HloModule
from workbench.spmd.shapes import DEVICE_MEMORY

LARGEST = 20  # buffers named at the peak


class MemoryTimeline(NamedTuple):
    """As `Compiled.alive` and `Compiled.alive_at_peak` hold them."""

    alive: tuple[tuple[str, int], ...]
    at_peak: tuple[tuple[str, int], ...]

    @property
    def peak(self) -> int:
        return max((count for _, count in self.alive), default=0)


def timeline_of(module: HloModule) -> MemoryTimeline:
    """Temporaries in the device's memory at every instruction that changes them, those that lie where a result will be aside."""
    schedule = schedule_of(module)
    there = [each for each in schedule.buffers if each.space == DEVICE_MEMORY and each.bytes]
    held = _beside_results([each for each in there if each.is_temporary], [each for each in there if each.is_result])
    counts = _counts(schedule, held)
    top = max(range(len(counts)), key=counts.__getitem__, default=0)
    return MemoryTimeline(tuple(_changes(schedule, counts)), tuple(_largest(module, held, top)))


def _beside_results(temporaries: Iterable[Buffer], results: Iterable[Buffer]) -> list[Buffer]:
    """The temporaries that find no room in a result's memory, which is taken by the largest first."""
    taken = [(each.bytes, each.spans) for each in results]
    left = []
    for temporary in sorted(temporaries, key=lambda each: -each.bytes):
        spans = temporary.spans
        room = next((used for size, used in taken if size >= temporary.bytes and not _meet(used, spans)), None)
        if room is None:
            left.append(temporary)
        else:
            room += spans
    return left


def _meet(one: Iterable[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    return any(born <= last and first <= died for first, last in one for born, died in other)


def _counts(schedule: BufferSchedule, held: Iterable[Buffer]) -> list[int]:
    """Bytes alive at each position."""
    change = [0] * (len(schedule.steps) + 1)
    for each in held:
        for first, last in each.spans:
            change[first] += each.bytes
            change[last + 1] -= each.bytes
    return list(accumulate(change[:-1]))


def _changes(schedule: BufferSchedule, counts: list[int]) -> Iterable[tuple[str, int]]:
    before = -1
    for step, count in zip(schedule.steps, counts, strict=True):
        if count != before:
            yield step.name, count
        before = count


def _largest(module: HloModule, held: Iterable[Buffer], top: int) -> Iterable[tuple[str, int]]:
    there = [each for each in held if any(first <= top <= last for first, last in each.spans)]
    return [(_path(module, each), each.bytes) for each in sorted(there, key=lambda each: -each.bytes)[:LARGEST]]


def _path(module: HloModule, buffer: Buffer) -> str:
    """What a person calls a buffer: the operation whose result lies in it; of stacked ones, what a loop writes into the stack."""
    makers = list(buffer.makers)
    named = [path for each in makers for path in _paths(module, each)]
    telling = [path for path in named if not is_indexing(path)]
    return next(iter(telling or named), "") or makers[0].name


def _paths(module: HloModule, instruction: HloInstruction) -> Iterable[str]:
    """Of what an update writes first, then of the instruction itself."""
    if instruction.opcode == "fusion":
        for name in module.callees(instruction):
            body = module.computations[name]
            updates = (each for each in body.values() if each.opcode == "dynamic-update-slice")
            for update in updates:
                yield from _upstream(body, update.operands[1])
    yield from _upstream(module.home_of(instruction), instruction.name)


def _upstream(body: Computation, name: str) -> Iterable[str]:
    """Paths along the first operands of a value, nearest first."""
    while name:
        here = body[name]
        if path := path_of_value(here):
            yield path
        name = here.operands[0] if here.operands else ""
