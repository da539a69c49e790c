"""Read a compiled program into the record shared by all views."""

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
"""Incremented when the reader changes, so that older records are read again from the stored module without recompiling."""


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
    """Read module, `memory_analysis()` and buffer assignment of a program partitioned over `mesh`; `clock` in Hz."""
    memory_record = read_memory_analysis(memory, on_tpu=compiler.startswith("libtpu"))
    if packed is not None:
        memory_record = replace(memory_record, temporary=packed.live, packed=packed.heap)
    compiled = Compiled(target, mesh.size, compile_seconds, memory_record, (), compiler=compiler)
    return refresh_record(compiled, module, mesh, clock)


def refresh_record(compiled: Compiled, module: HloModule, mesh: Mesh, clock: float | None) -> Compiled:
    """Update all figures of a record that the current reader derives from the module."""
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
    """Read `memory_analysis()`, with an estimate of temporaries for TPUs."""
    host = memory.host_argument_size_in_bytes + memory.host_output_size_in_bytes - memory.host_alias_size_in_bytes
    record = CompiledMemory(
        arguments=memory.argument_size_in_bytes,
        outputs=memory.output_size_in_bytes,
        aliased=memory.alias_size_in_bytes,
        temporary=memory.temp_size_in_bytes,
        code=memory.generated_code_size_in_bytes,
        host=host + memory.host_temp_size_in_bytes,
        stated=memory.temp_size_in_bytes,
        stated_peak=getattr(memory, "peak_memory_in_bytes", 0),  # not set by every back end
    )
    return replace(record, temporary=_estimate_temporaries(record)) if on_tpu else record


def _estimate_temporaries(memory: CompiledMemory) -> int:
    """Lower bound in bytes of libtpu's temporaries in device memory.

    libtpu reports their heap size plus the logged fragmentation a second time; the heap is at least half of that, and
    at least its live bytes, which are the peak less arguments and results. Four heaps were logged as 13.73, 3.18, 2.59
    and 0.69 GiB; reported are 16.83, 3.18, 2.95 and 0.83 GiB, live 13.73, 3.17, 2.59 and 0.54 GiB (libtpu 0.0.42.1).
    The peak is that of the largest heap alone, which may be in on-chip memory if temporaries fit there.
    """
    if not memory.stated_peak:
        return memory.stated
    return min(memory.stated, max(memory.stated_peak - memory.arguments_and_outputs, memory.stated // 2))


# Memory of a compiled step over its schedule: bytes of live temporaries, and their list at the peak.
#
# Live buffers are exact; a real allocation adds fragmentation. Memory allocated for a result holds temporaries
# until the result is made, one after the other, as XLA reuses allocations (`buffer_assignment.cc`).

LARGEST = 20  # number of buffers named at the peak


class MemoryTimeline(NamedTuple):
    """Live bytes over the schedule, in the form of `Compiled.alive` and `Compiled.alive_at_peak`."""

    alive: tuple[tuple[str, int], ...]
    at_peak: tuple[tuple[str, int], ...]

    @property
    def peak(self) -> int:
        return max((count for _, count in self.alive), default=0)


def timeline_of(module: HloModule) -> MemoryTimeline:
    """Temporaries in device memory at every instruction that changes them, except those in a result's allocation."""
    schedule = schedule_of(module)
    buffers = [buffer for buffer in schedule.buffers if buffer.space == DEVICE_MEMORY and buffer.bytes]
    temporaries = _drop_placed_in_results(
        [buffer for buffer in buffers if buffer.is_temporary], [buffer for buffer in buffers if buffer.is_result]
    )
    counts = _count_alive_bytes(schedule, temporaries)
    peak_position = max(range(len(counts)), key=counts.__getitem__, default=0)
    return MemoryTimeline(tuple(_list_changes(schedule, counts)), tuple(_list_largest(module, temporaries, peak_position)))


def _drop_placed_in_results(temporaries: Iterable[Buffer], results: Iterable[Buffer]) -> list[Buffer]:
    """Return the temporaries that do not fit into a result's allocation; these are filled largest first."""
    reserved = [(result.bytes, result.spans) for result in results]
    remaining = []
    for temporary in sorted(temporaries, key=lambda buffer: -buffer.bytes):
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
    change = [0] * (len(schedule.steps) + 1)
    for buffer in temporaries:
        for first, last in buffer.spans:
            change[first] += buffer.bytes
            change[last + 1] -= buffer.bytes
    return list(accumulate(change[:-1]))


def _list_changes(schedule: BufferSchedule, counts: list[int]) -> Iterable[tuple[str, int]]:
    previous = -1
    for step, count in zip(schedule.steps, counts, strict=True):
        if count != previous:
            yield step.name, count
        previous = count


def _list_largest(module: HloModule, temporaries: Iterable[Buffer], top: int) -> Iterable[tuple[str, int]]:
    buffers = [buffer for buffer in temporaries if any(first <= top <= last for first, last in buffer.spans)]
    return [(_buffer_path(module, buffer), buffer.bytes) for buffer in sorted(buffers, key=lambda buffer: -buffer.bytes)[:LARGEST]]


def _buffer_path(module: HloModule, buffer: Buffer) -> str:
    makers = list(buffer.makers)
    paths = [path for maker in makers for path in _list_paths(module, maker)]
    value_paths = [path for path in paths if not is_indexing(path)]
    return next(iter(value_paths or paths), "") or makers[0].name


def _list_paths(module: HloModule, instruction: HloInstruction) -> Iterable[str]:
    if instruction.opcode == "fusion":
        for name in module.callees(instruction):
            body = module.computations[name]
            updates = (inner for inner in body.values() if inner.opcode == "dynamic-update-slice")
            for update in updates:
                yield from _walk_upstream(body, update.operands[1])
    yield from _walk_upstream(module.home_of(instruction), instruction.name)


def _walk_upstream(body: Computation, name: str) -> Iterable[str]:
    while name:
        instruction = body[name]
        if path := path_of_value(instruction):
            yield path
        name = instruction.operands[0] if instruction.operands else ""
