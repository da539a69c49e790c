"""How much a sandboxed process may use: of memory, time, processes, files and output."""

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.errors import WorkbenchError
from workbench.units import format_bytes

MIB = 1 << 20


def _tasks_by_default() -> int:
    """Processes and threads: XLA starts several threads for each processor."""
    return 256 + 16 * (os.cpu_count() or 1)


@dataclass(frozen=True)
class ResourceLimits:
    """Bytes, seconds and counts of one sandbox.

    **Invariants**

    - Every limit is above 0. `processor_seconds` and `deadline` (seconds of the clock) may be `None`: a planner lives as long as its rooms.
    """

    memory: int = 4096 * MIB  # of all its processes together; of the data of one the kernel refuses more
    processor_seconds: int | None = None  # of each process
    deadline: float | None = None
    tasks: int = field(default_factory=_tasks_by_default)
    file_size: int = 64 * MIB  # of each file it writes
    open_files: int = 256
    scratch: int = 64 * MIB  # of /tmp, of its home, of /dev/shm: each is in memory
    kept_output: int = 64 << 10  # of what it prints, from the beginning and the end
    output: int = 64 * MIB  # that it may print at all
    processors: float | None = None  # where systemd makes scopes

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value <= 0:
                raise WorkbenchError(f"The limit `{name}` of a sandbox is {value}; it should be above 0.", [f"leave `{name}` out"])

    def rlimits(self, tasks_in_use: int = 0) -> Mapping[str, tuple[int, int]]:
        """Soft and hard limits by the names of `resource`. The kernel counts tasks of a user: `tasks_in_use` are not the sandbox's own.

        The address space is twice the data: libraries, and what is mapped but never touched.
        """
        limits = {
            "RLIMIT_AS": (2 * self.memory, 2 * self.memory),
            "RLIMIT_DATA": (self.memory, self.memory),
            "RLIMIT_NPROC": (self.tasks + tasks_in_use, self.tasks + tasks_in_use),
            "RLIMIT_FSIZE": (self.file_size, self.file_size),
            "RLIMIT_NOFILE": (self.open_files, self.open_files),
            "RLIMIT_CORE": (0, 0),
            "RLIMIT_MEMLOCK": (MIB, MIB),
        }
        if self.processor_seconds is not None:
            limits["RLIMIT_CPU"] = (self.processor_seconds, self.processor_seconds + 1)
        return {name: limit for name, limit in limits.items() if hasattr(resource, name)}

    def scope_options(self) -> list[str]:
        """The same for `systemd-run --scope`, whose limits are of all processes together."""
        options = ["-p", f"MemoryMax={self.memory}", "-p", "MemorySwapMax=0", "-p", f"TasksMax={self.tasks}"]
        return [*options, *(["-p", f"CPUQuota={round(100 * self.processors)}%"] if self.processors else [])]

    def __str__(self) -> str:
        """
        >>> str(ResourceLimits(deadline=60, tasks=100))
        '4.00 GiB of memory, 60 s, 100 processes and threads, files of 64.0 MiB'
        """
        deadline = f", {self.deadline:g} s" if self.deadline else ""
        return (
            f"{format_bytes(self.memory)} of memory{deadline}, {self.tasks} processes and threads, files of {format_bytes(self.file_size)}"
        )
