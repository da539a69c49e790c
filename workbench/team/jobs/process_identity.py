"""Whether a process is still the one that it was: a number is given to others in time, so the time of its start belongs to it."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path


def start_mark(pid: int) -> str:
    """When the process with this number started, on this boot of the machine; empty where there is none, or it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return "" if Path("/proc/self").exists() else _mark_by_ps(pid)
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else f"{_boot()}-{fields[19]}"


def has_argument(pid: int, argument: str) -> bool:
    """Whether the process was started with this argument; yes where the system does not say."""
    try:
        return argument.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return not Path("/proc/self").exists()


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    return "boot"


def _mark_by_ps(pid: int) -> str:
    """Where there is no `/proc`: macOS."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})  # noqa: S603 - ps alone
    state, _, started = found.stdout.strip().partition(" ")
    return "" if not state or state.startswith("Z") else started.strip().replace(" ", "_")
