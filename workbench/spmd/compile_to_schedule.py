"""One of XLA's compilers for absent devices, asked only for its scheduled program: code generation is not awaited.

XLA writes the program to disk (`xla_dump_to`) as soon as its buffers are assigned, which is the last thing before code generation. For the
median third-party program that takes a second, and code generation fifteen more. The only way to stop it there is to end the process, so
this runs in a process that is forked for the question.
"""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
from jaxlib import xla_client

from workbench.core.operating_system import has_ended
from workbench.propagation.module.mlir_context import parse_module
from workbench.spmd.hlo_module import HloModule, read_module
from workbench.spmd.run_partitioner import compile_options

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - a folder of a name of its own is made in it
_MIN_FREE_BYTES = 2 << 30  # bytes
_PREFIX = "workbench-programs-"
_POLL_SECONDS = 0.004  # seconds between looks at the folder
_PROGRAM, _NEXT = "after_optimizations.hlo.pb", "after_optimizations_after_buffer_assignment"


@contextmanager
def folder_for_programs() -> Iterator[Path]:
    """A folder that is deleted afterwards, in memory where there is room; first deletes those of processes that were killed."""
    parent = (
        _MEMORY_FOLDER
        if _MEMORY_FOLDER.is_dir() and shutil.disk_usage(_MEMORY_FOLDER).free > _MIN_FREE_BYTES
        else Path(tempfile.gettempdir())
    )
    _remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent) as name:
        yield Path(name)


def _remove_abandoned(parent: Path) -> None:
    for each in parent.glob(f"{_PREFIX}*-*"):
        owner = each.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and has_ended(int(owner)):
            shutil.rmtree(each, ignore_errors=True)


def compile_until_code(module: bytes, devices: Sequence[Any], open_results: Sequence[bool], folder: Path) -> None:
    """Compile StableHLO (with Shardy's shardings) for JAX's `devices`, in mesh order, and end this process with status 0 once the program
    is in `folder`; returns if the compiler finishes before that. Raises whatever the compiler raises: one that finds too little memory on
    the device has written the program before."""
    client = devices[0].client
    options = compile_options(client, [each.id for each in devices], open_results, dump_options(folder))
    threading.Thread(target=_end_once_written, args=(folder,), daemon=True).start()
    client.compile(parse_module(module), executable_devices=xla_client.DeviceList(tuple(devices)), compile_options=options)


def dump_options(folder: Path) -> dict[str, str | bool]:
    """The compiler options for writing programs to `folder`."""
    return {"xla_dump_to": str(folder), "xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": False}


def read_dumped_program(folder: Path) -> bytes | None:
    """The `HloProto` with buffer assignment that was written to `folder`; `None` if the compiler did not get that far."""
    return next((path.read_bytes() for path in folder.glob(f"*.{_PROGRAM}")), None)


def _end_once_written(folder: Path) -> None:
    """End the process once the program is written completely, which the start of the next file shows."""
    while not any(_NEXT in name for name in os.listdir(folder)):  # noqa: PTH208 - names alone
        time.sleep(_POLL_SECONDS)
    os._exit(0)


# The module of a compiled function, for attached or absent devices: in serialised form, and as HLO text for people.


def serialize_module(compiled: jax.stages.Compiled) -> bytes:
    """The scheduled program as an `HloModuleProto`; one serves the whole mesh."""
    found: bytes = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    return found


def module_of(compiled: jax.stages.Compiled) -> HloModule:
    """The same, parsed."""
    return read_module(serialize_module(compiled))


def module_text(serialized: bytes) -> str:
    """A serialised module as HLO text: `compiled.as_text()` but for its first line, which says less, and how stack frames are numbered."""
    found: str = xla_client.hlo.HloModule.from_serialized_hlo_module_proto(serialized).to_string()
    return found
