"""How often Linux has killed a process because memory ran out, which tells such a SIGKILL from any other."""

import math
import threading
import time
from contextlib import suppress
from pathlib import Path

from workbench.core.memory_groups import memory_groups

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
