"""A compiled program read into the record that every view shares."""

from typing import Any

from workbench.compiled import Compiled, CompiledMemory
from workbench.engine.hlo import parse_hlo
from workbench.engine.hlo_kernels import kernels_of
from workbench.engine.hlo_memory import timeline_of
from workbench.engine.readback import collectives_of
from workbench.engine.source_lines import SourceLines
from workbench.mesh import Mesh

READER = 1
"""Raised when the reading changes, so that what was read before is read anew."""


def read_compiled(
    hlo_text: str,
    mesh: Mesh,
    memory: Any,
    *,
    target: str = "",
    clock: float | None = None,
    compile_seconds: float = 0.0,
    compiler: str = "",
) -> Compiled:
    """What `compiled.as_text()` and `compiled.memory_analysis()` of a program partitioned over `mesh` say; `clock` in Hz."""
    module, lines = parse_hlo(hlo_text), SourceLines(hlo_text)
    timeline = timeline_of(module, hlo_text)
    return Compiled(
        target=target,
        devices=mesh.size,
        compile_seconds=compile_seconds,
        memory=CompiledMemory(
            arguments=memory.argument_size_in_bytes,
            outputs=memory.output_size_in_bytes,
            aliased=memory.alias_size_in_bytes,
            temporary=memory.temp_size_in_bytes,
            code=memory.generated_code_size_in_bytes,
            host=memory.host_argument_size_in_bytes
            + memory.host_output_size_in_bytes
            - memory.host_alias_size_in_bytes
            + memory.host_temp_size_in_bytes,
            live=timeline.peak,
        ),
        collectives=collectives_of(module, lines, mesh),
        kernels=kernels_of(module, lines, clock),
        alive=timeline.alive,
        alive_at_peak=timeline.at_peak,
        compiler=compiler,
    )
