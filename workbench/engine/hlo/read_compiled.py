"""Read a compiled program into the record that every view shares."""

from dataclasses import replace
from typing import Any

from workbench.core.mesh import Mesh
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.hlo.compiled_kernels import kernels_of
from workbench.engine.hlo.peak_memory import timeline_of
from workbench.reports.compiled import Compiled, CompiledMemory
from workbench.spmd.buffer_assignment import PackedMemory
from workbench.spmd.hlo_module import HloModule

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
