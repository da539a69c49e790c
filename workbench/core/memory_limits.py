"""Read this process's memory limits from its control groups, and count Linux out-of-memory kills."""

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Memory limits from control groups.

_ROOT = Path("/sys/fs/cgroup")


def memory_groups() -> Iterator[Path]:
    """Yield the folders of this process's memory control groups (version 1 or 2), innermost first."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "memory" in controllers.split(","):
                root = _ROOT / "memory" if controllers else _ROOT
                own = root / path.lstrip("/")
                yield from (each for each in (own, *own.parents) if each.is_relative_to(root))


def machine_memory() -> int:
    """Return the bytes available to this process and its control group: the physical memory or a lower limit."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    bounds = [_read_bytes(folder / name) for folder in memory_groups() for name in ("memory.max", "memory.limit_in_bytes")]
    return min(physical, *(bound for bound in bounds if bound)) if any(bounds) else physical


def _read_bytes(file: Path) -> int:
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="ascii"))
    return 0


# Out-of-memory kills, to explain a SIGKILL.

JUST_NOW = 3.0
"""Seconds within which a SIGKILL is attributed to an out-of-memory kill."""


class OomKills:
    """Detects recent out-of-memory kills. Thread-safe; call `look` about once a second to know when a kill happened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count, self._changed = count_oom_kills(), -math.inf

    def look(self) -> None:
        with self._lock:
            count = count_oom_kills()
            if count > self._count:
                self._changed = time.monotonic()
            self._count = count

    def is_recent(self) -> bool:
        self.look()
        return time.monotonic() - self._changed < JUST_NOW


def count_oom_kills() -> int:
    """Count out-of-memory kills in this process's control groups and on the machine; a kill may count more than once."""
    of_groups = (folder / name for folder in memory_groups() for name in ("memory.events", "memory.oom_control"))
    return sum(_read_count(path) for path in (Path("/proc/vmstat"), *of_groups))


def _read_count(path: Path) -> int:
    with suppress(OSError, ValueError):
        counts = dict(line.split(" ", 1) for line in path.read_text(encoding="ascii").splitlines())
        return int(counts.get("oom_kill", 0))
    return 0
