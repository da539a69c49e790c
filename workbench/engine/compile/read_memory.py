"""Compile, and read off how the compiler packed the program into memory."""

import os
import stat
from collections.abc import Mapping
from typing import Any

from workbench.propagation import readable_path
from workbench.reports.compiled import Rematerialised
from workbench.spmd.buffer_assignment import PackedMemory, read_packed_memory
from workbench.spmd.compile_to_schedule import dump_options, folder_for_programs, read_dumped_program
from workbench.spmd.run_partitioner import read_warnings


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


# Read the warnings of XLA's partitioner. It writes them to this process's standard error, which the parent of a worker keeps in a file.


def stderr_offset() -> int:
    """The current length of standard error, in bytes; -1 if it cannot be read back (a terminal, a pipe)."""
    status = os.fstat(2)
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def stderr_since(start: int) -> str:
    """What has been written since `stderr_offset` returned this offset; empty where nothing can be read back."""
    if start < 0:
        return ""
    try:
        return os.pread(2, os.fstat(2).st_size - start, start).decode(errors="replace")
    except OSError:  # opened for writing only
        return ""


def read_rematerialisations_since(start: int) -> tuple[Rematerialised, ...]:
    """The involuntary full rematerialisations warned of since `stderr_offset` returned this offset; none where nothing can be read back."""
    return parse_rematerialisations(stderr_since(start))


def parse_rematerialisations(text: str) -> tuple[Rematerialised, ...]:
    """Parse the warnings that XLA wrote, without duplicates."""
    return tuple(dict.fromkeys(Rematerialised(readable_path(each.op_name), *each[1:]) for each in read_warnings(text)))
