"""A compiler of XLA's for devices that are not there, asked for its scheduled program: its code is not awaited.

XLA writes the program to disk (`xla_dump_to`) as soon as its buffers are assigned, which is the last thing before code is generated. For a
third-party program at the median that is a second after the beginning, and code takes fifteen more. There is no way to stop it there but to
end the process, so what is here is called in one that is forked for the question.
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

from jaxlib import xla_client

from workbench.propagation.module.context import parse_module
from workbench.spmd.ask import compile_options

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - a folder of a name of its own is made in it
_MIN_FREE_BYTES = 2 << 30  # bytes
_PREFIX = "workbench-programs-"
_POLL_SECONDS = 0.004  # seconds between looks at the folder
_PROGRAM, _NEXT = "after_optimizations.hlo.pb", "after_optimizations_after_buffer_assignment"


@contextmanager
def folder_for_programs() -> Iterator[Path]:
    """One that is gone afterwards, in memory where there is room; those of processes that were killed go first."""
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
        if owner.isdigit() and _has_ended(int(owner)):
            shutil.rmtree(each, ignore_errors=True)


def _has_ended(process: int) -> bool:
    """Also of one that nobody has waited for yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def compile_until_code(module: bytes, devices: Sequence[Any], open_results: Sequence[bool], folder: Path) -> None:
    """Compile StableHLO (with Shardy's shardings) for JAX's `devices`, in mesh order, and end this process with status 0 once the program
    is in `folder`; a compiler that is through before that returns. Raises whatever it raises: one that finds too little memory on the
    device has written the program before."""
    client = devices[0].client
    options = compile_options(client, [each.id for each in devices], open_results, dump_options(folder))
    threading.Thread(target=_end_once_written, args=(folder,), daemon=True).start()
    client.compile(parse_module(module), executable_devices=xla_client.DeviceList(tuple(devices)), compile_options=options)


def dump_options(folder: Path) -> dict[str, str | bool]:
    """The compiler's options for writing programs to `folder`."""
    return {"xla_dump_to": str(folder), "xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": False}


def read_dumped_program(folder: Path) -> bytes | None:
    """The `HloProto` with buffer assignment that was written to `folder`; `None` if the compiler did not come so far."""
    return next((path.read_bytes() for path in folder.glob(f"*.{_PROGRAM}")), None)


def _end_once_written(folder: Path) -> None:
    """What is written next is begun only once the program is written whole."""
    while not any(_NEXT in name for name in os.listdir(folder)):  # noqa: PTH208 - names alone
        time.sleep(_POLL_SECONDS)
    os._exit(0)
