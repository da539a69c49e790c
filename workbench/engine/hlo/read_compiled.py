"""Read a compiled program into the record that every view shares."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

from workbench.core.mesh import Mesh
from workbench.engine.hlo.buffer_schedule import Buffer, BufferSchedule, schedule_of
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.hlo.compiled_kernels import kernels_of
from workbench.engine.hlo.op_names import is_indexing, path_of_value
from workbench.reports.compiled import Compiled, CompiledMemory
from workbench.spmd.buffer_assignment import PackedMemory
from workbench.spmd.hlo_module import Computation, HloInstruction, HloModule
from workbench.spmd.hlo_shapes import DEVICE_MEMORY

READER_VERSION = 5
"""Raised when the reader changes, so that records read before are read again: from the stored module, without compiling again."""


def read_compiled(
    module: HloModule,
    mesh: Mesh,
    memory: Any,
    packed: PackedMemory | None = None,
    *,
    target: str = "",
    clock: float | None = None,
    compile_seconds: float = 0.0,
    compiler: str = "",
) -> Compiled:
    """Read the module, `compiled.memory_analysis()` and, where it is known, the buffer assignment of a program partitioned over `mesh`;
    `clock` in Hz."""
    memory_record = read_memory_analysis(memory, on_tpu=compiler.startswith("libtpu"))
    if packed is not None:
        memory_record = replace(memory_record, temporary=packed.live, packed=packed.heap)
    compiled = Compiled(target, mesh.size, compile_seconds, memory_record, (), compiler=compiler)
    return refresh_record(compiled, module, mesh, clock)


def refresh_record(compiled: Compiled, module: HloModule, mesh: Mesh, clock: float | None) -> Compiled:
    """The record with everything derived from the module by today's reader."""
    timeline = timeline_of(module)
    return replace(
        compiled,
        memory=replace(compiled.memory, live=timeline.peak),
        collectives=collectives_of(module, mesh),
        kernels=kernels_of(module, clock),
        alive=timeline.alive,
        alive_at_peak=timeline.at_peak,
        reader=READER_VERSION,
    )


def read_memory_analysis(memory: Any, *, on_tpu: bool) -> CompiledMemory:
    """Read `memory_analysis()`."""
    host = memory.host_argument_size_in_bytes + memory.host_output_size_in_bytes - memory.host_alias_size_in_bytes
    found = CompiledMemory(
        arguments=memory.argument_size_in_bytes,
        outputs=memory.output_size_in_bytes,
        aliased=memory.alias_size_in_bytes,
        temporary=memory.temp_size_in_bytes,
        code=memory.generated_code_size_in_bytes,
        host=host + memory.host_temp_size_in_bytes,
        stated=memory.temp_size_in_bytes,
        stated_peak=getattr(memory, "peak_memory_in_bytes", 0),  # not every back end fills in this field
    )
    return replace(found, temporary=_estimate_temporaries(found)) if on_tpu else found


def _estimate_temporaries(memory: CompiledMemory) -> int:
    """Lower bound, in bytes, of libtpu's temporaries in the device's memory.

    libtpu states the size of their heap with what it logs as fragmentation added once more; the heap is at least half of that, and no
    smaller than its live bytes, which are the peak less arguments and results. Four heaps were logged as 13.73, 3.18, 2.59 and 0.69 GiB:
    stated are 16.83, 3.18, 2.95 and 0.83 GiB, alive 13.73, 3.17, 2.59 and 0.54 GiB (libtpu 0.0.42.1). The peak is that of the largest heap
    alone: where temporaries fit in on-chip memory, that heap's.
    """
    if not memory.stated_peak:
        return memory.stated
    return min(memory.stated, max(memory.stated_peak - memory.arguments_and_outputs, memory.stated // 2))


# The memory of a compiled step over its schedule: bytes of live temporaries, and which they are at the peak.
#
# It is exact as to which buffers are alive; a real allocation adds fragmentation. Memory that is allocated for a result holds temporaries
# until the result is made: one after the other, as XLA reuses an allocation (`buffer_assignment.cc`).

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
