"""Compile a program, and read its packed memory and the partitioner's warnings."""

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
    """Return the executable and, for libtpu, its packed memory.

    The figures that libtpu reports count packing waste twice, and for a program whose temporaries stay on chip, they
    count on-chip instead of device memory.
    """
    if not compiler.startswith("libtpu") or "xla_dump_to" in options:
        return lowered.compile(compiler_options=dict(options) or None), None
    with folder_for_programs() as folder:
        executable = lowered.compile(compiler_options={**options, **dump_options(folder)})
        program = read_dumped_program(folder)
    return executable, read_packed_memory(program) if program else None


# XLA's partitioner writes warnings to this process's standard error, which a worker's parent redirects to a file.


def stderr_offset() -> int:
    """Return the current length of standard error in bytes; -1 if it cannot be read back (a terminal, a pipe)."""
    status = os.fstat(2)
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def stderr_since(start: int) -> str:
    """Return the text written since this `stderr_offset`; empty if it cannot be read back."""
    if start < 0:
        return ""
    try:
        return os.pread(2, os.fstat(2).st_size - start, start).decode(errors="replace")
    except OSError:  # opened for writing only
        return ""


def read_rematerialisations_since(start: int) -> tuple[Rematerialised, ...]:
    """Return the involuntary full rematerializations since this `stderr_offset`; empty if it cannot be read back."""
    return parse_rematerialisations(stderr_since(start))


def parse_rematerialisations(text: str) -> tuple[Rematerialised, ...]:
    return tuple(dict.fromkeys(Rematerialised(readable_path(warning.op_name), *warning[1:]) for warning in read_warnings(text)))
