"""What a process and everything below it uses, as Linux counts it; elsewhere nothing is known."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


class ProcessUsage(NamedTuple):
    """Bytes that are resident and not of a file, of all together; processor seconds of the one that has used most; how many they are."""

    memory: int = 0
    processor_seconds: float = 0.0
    processes: int = 0


def usage_below(pid: int) -> ProcessUsage:
    """Of a process and its descendants."""
    memory, seconds, seen, waiting = 0, 0.0, 0, [pid]
    while waiting:
        folder = Path(f"/proc/{waiting.pop()}")
        with suppress(OSError, ValueError, IndexError):
            resident, shared = map(int, (folder / "statm").read_text(encoding="ascii").split()[1:3])
            user, system = map(int, (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[11:13])
            memory += (resident - shared) * _PAGE
            seconds = max(seconds, (user + system) / _TICK)
            seen += 1
            waiting += _children(folder)
    return ProcessUsage(memory, seconds, seen)


def _children(folder: Path) -> list[int]:
    """Those that any thread of a process started."""
    found: list[int] = []
    for each in (folder / "task").iterdir():
        with suppress(OSError):
            found += map(int, (each / "children").read_text(encoding="ascii").split())
    return found


def tasks_of_user(uid: int) -> int:
    """How many threads a user has, where the kernel counts them against a limit of processes."""
    found = 0
    for each in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        with suppress(OSError, ValueError):
            if each.name.isdecimal() and each.stat().st_uid == uid:
                found += len(os.listdir(each / "task"))  # noqa: PTH208 - names alone
    return found
