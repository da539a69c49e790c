"""The control groups that bound the memory of this process, and what the kernel says in their files."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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
