"""Calibrations of the attached devices, stored as hardware files, so that a machine is measured once a month instead of
for each plan.

Devices are measured together, as many as a mesh has: without accelerators they are virtual, and share the machine's
cores.
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
"""Age in seconds at which the machine is measured again."""
_ENTRY = "Attached"


def store_calibration(devices: int, hardware: Hardware) -> None:
    """Store the calibration for meshes of this size; a full or read-only disk is no error."""
    with suppress(OSError, RuntimeError, WorkbenchError):
        path = _path(devices)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, f"# {hardware.chip.name}, {hardware.size}\n{hardware_entry(hardware, _ENTRY)}".encode())


def kept_calibration(devices: int) -> Hardware | None:
    """Return this machine's calibration for meshes of this size; `None` if missing or stale."""
    try:
        path = _path(devices)
        if time.time() - path.stat().st_mtime > STALE:
            return None
        header = re.match(r"# (.+), (\d+)\n", read_text(path))
        if header is None:
            return None
        name, count = header[1], int(header[2])
        return parse_hardware(f"{count} {_ENTRY}", Catalogue(load_entries(path))).renamed(f"{name} x {count}, calibrated")
    except (OSError, RuntimeError, ValueError, WorkbenchError):  # a damaged file, or no home directory
        return None


def _path(devices: int) -> Path:
    machine = re.sub(r"[^\w.]+", "-", f"{platform.node()}-{os.cpu_count()}")
    return cache_folder() / "calibrated" / f"{machine}-{devices}.toml"
