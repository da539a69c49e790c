"""Compile for absent devices only up to the scheduled program, without waiting for code generation.

XLA writes the program to disk (`xla_dump_to`) once its buffers are assigned, the last step before code generation. For
the median third-party program this takes 1 s, and code generation another 15 s. Compilation can only be stopped there
by ending the process, so this runs in a process forked for each question.
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

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only a uniquely named folder is created in it
_MIN_FREE_BYTES = 2 << 30
NO_ROOM = "RESOURCE_EXHAUSTED"
_PREFIX = "workbench-programs-"
_POLL_SECONDS = 0.004  # seconds between checks of the folder
_PROGRAM, _NEXT = "after_optimizations.hlo.pb", "after_optimizations_after_buffer_assignment"


@contextmanager
def folder_for_programs() -> Iterator[Path]:
    """Create a temporary folder, in memory if there is room; first delete folders of killed processes."""
    parent = (
        _MEMORY_FOLDER
        if _MEMORY_FOLDER.is_dir() and shutil.disk_usage(_MEMORY_FOLDER).free > _MIN_FREE_BYTES
        else Path(tempfile.gettempdir())
    )
    _remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent) as name:
        yield Path(name)


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and has_ended(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def compile_until_code(module: bytes, devices: Sequence[Any], open_results: Sequence[bool], folder: Path) -> None:
    """Compile StableHLO (with Shardy's shardings), and exit with status 0 once the program is in `folder`.

    `devices` are JAX's, in mesh order. Returns if the compiler finishes earlier, or its code generation fails, and raises
    its other errors; for insufficient device memory, the program has been written before.
    """
    client = devices[0].client
    options = compile_options(client, [device.id for device in devices], open_results, dump_options(folder))
    threading.Thread(target=_end_once_written, args=(folder,), daemon=True).start()
    try:
        client.compile(parse_module(module), executable_devices=xla_client.DeviceList(tuple(devices)), compile_options=options)
    except jax.errors.JaxRuntimeError as error:
        if NO_ROOM in str(error) or not _is_written(folder):
            raise


def dump_options(folder: Path) -> dict[str, str | bool]:
    """Return the compiler options for writing programs to `folder`."""
    return {"xla_dump_to": str(folder), "xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": False}


def read_dumped_program(folder: Path) -> bytes | None:
    """Read the `HloProto` with buffer assignment from `folder`; `None` if the compiler did not get that far."""
    return next((path.read_bytes() for path in folder.glob(f"*.{_PROGRAM}")), None)


def _end_once_written(folder: Path) -> None:
    """Exit once the program is written completely, that is, once the next file is started."""
    while not _is_written(folder):
        time.sleep(_POLL_SECONDS)
    os._exit(0)


def _is_written(folder: Path) -> bool:
    return any(_NEXT in name for name in os.listdir(folder))  # noqa: PTH208 - names alone


def serialize_module(compiled: jax.stages.Compiled) -> bytes:
    """Return the scheduled program as an `HloModuleProto`; it is the same for all devices of the mesh."""
    serialized: bytes = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    return serialized


def module_of(compiled: jax.stages.Compiled) -> HloModule:
    """Return the scheduled program as a parsed module."""
    return read_module(serialize_module(compiled))


def module_text(serialized: bytes) -> str:
    """Return a serialized module as HLO text, with a shorter first line and other stack frames than `as_text()`."""
    return str(xla_client.hlo.HloModule.from_serialized_hlo_module_proto(serialized).to_string())
