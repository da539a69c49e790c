"""The limits on this process's memory: its control groups, and how often Linux killed a process because memory ran out."""

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# The control groups that bound the memory of this process, and what the kernel says in their files.

_ROOT = Path("/sys/fs/cgroup")


def memory_groups() -> Iterator[Path]:
    """The folders of this process's control groups of memory, of either version, from its own up to the root."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "memory" in controllers.split(","):
                root = _ROOT / "memory" if controllers else _ROOT
                own = root / path.lstrip("/")
                yield from (each for each in (own, *own.parents) if each.is_relative_to(root))


def machine_memory() -> int:
    """Bytes that this process and all others of its control group can have: of the machine, or less where a group is bounded."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    bounds = [_read_bytes(folder / name) for folder in memory_groups() for name in ("memory.max", "memory.limit_in_bytes")]
    return min(physical, *(each for each in bounds if each)) if any(bounds) else physical


def _read_bytes(file: Path) -> int:
    """The number in a file; 0 where there is none, or no bound."""
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="ascii"))
    return 0


# How often Linux has killed a process because memory ran out, which tells such a SIGKILL from any other.

JUST_NOW = 3.0
"""Seconds after which a SIGKILL is not put down to the memory any more."""


class OomKills:
    """Thread-safe. `look` is called about every second, so that a kill is known by its time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count, self._changed = count_oom_kills(), -math.inf

    def look(self) -> None:
        """Note whether there was another one."""
        with self._lock:
            count = count_oom_kills()
            if count > self._count:
                self._changed = time.monotonic()
            self._count = count

    def is_recent(self) -> bool:
        """Whether memory ran out just now."""
        self.look()
        return time.monotonic() - self._changed < JUST_NOW


def count_oom_kills() -> int:
    """Kills in the control groups of this process and on the machine, as far as the kernel says; one may count more than once."""
    of_groups = (folder / name for folder in memory_groups() for name in ("memory.events", "memory.oom_control"))
    return sum(_read_count(path) for path in (Path("/proc/vmstat"), *of_groups))


def _read_count(path: Path) -> int:
    """The number after `oom_kill` in a file of the kernel's."""
    with suppress(OSError, ValueError):
        counts = dict(line.split(" ", 1) for line in path.read_text(encoding="ascii").splitlines())
        return int(counts.get("oom_kill", 0))
    return 0
