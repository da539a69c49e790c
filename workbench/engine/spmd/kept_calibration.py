"""What the attached devices were measured to be, kept on disk as a hardware file: a machine is measured once a month, not for each plan.

Devices are measured together, as many as a mesh has: of a machine without accelerators those are virtual, and share its cores.
"""

import os
import platform
import re
import time
from contextlib import suppress
from pathlib import Path

from workbench.core.parse_untrusted import read_text
from workbench.documents import hardware_entry
from workbench.documents.durable_files import replace_file
from workbench.engine.compile.compile_cache import cache_folder
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import Catalogue, parse_hardware
from workbench.hardware.catalogue_entry import load_entries
from workbench.hardware.hardware import Hardware

STALE = 30 * 86_400.0
"""Seconds after which the machine is measured again."""
_ENTRY = "Attached"


def keep_calibration(devices: int, hardware: Hardware) -> None:
    """Keep what was measured for meshes of so many devices; a disk that is full or not writable is no error."""
    with suppress(OSError, RuntimeError, WorkbenchError):
        path = _path(devices)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, f"# {hardware.chip.name}, {hardware.size}\n{hardware_entry(hardware, _ENTRY)}".encode())


def kept_calibration(devices: int) -> Hardware | None:
    """What was measured of this machine for meshes of so many devices; `None` where nothing was, or too long ago."""
    try:
        path = _path(devices)
        if time.time() - path.stat().st_mtime > STALE:
            return None
        found = re.match(r"# (.+), (\d+)\n", read_text(path))
        if found is None:
            return None
        name, count = found[1], int(found[2])
        return parse_hardware(f"{count} {_ENTRY}", Catalogue(load_entries(path))).renamed(f"{name} x {count}, calibrated")
    except (OSError, RuntimeError, ValueError, WorkbenchError):  # a damaged file is none; nor is there a home directory always
        return None


def _path(devices: int) -> Path:
    machine = re.sub(r"[^\w.]+", "-", f"{platform.node()}-{os.cpu_count()}")
    return cache_folder() / "calibrated" / f"{machine}-{devices}.toml"
