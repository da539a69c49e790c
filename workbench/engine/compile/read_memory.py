"""Compile, and read off how the compiler packed the program into memory."""

from collections.abc import Mapping
from typing import Any

from workbench.spmd.buffer_assignment import PackedMemory, read_packed_memory
from workbench.spmd.compile_to_schedule import dump_options, folder_for_programs, read_dumped_program


def compile_and_read_memory(
    lowered: Any, options: Mapping[str, str | bool | int | float], compiler: str
) -> tuple[Any, PackedMemory | None]:
    """The executable, and for libtpu how it packed memory: the figures it reports itself count packing waste twice, and for a program
    whose temporaries stay on the chip those in place of the device's."""
    if not compiler.startswith("libtpu") or "xla_dump_to" in options:
        return lowered.compile(compiler_options=dict(options) or None), None
    with folder_for_programs() as folder:
        executable = lowered.compile(compiler_options={**options, **dump_options(folder)})
        program = read_dumped_program(folder)
    return executable, read_packed_memory(program) if program else None
