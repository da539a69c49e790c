"""How much a sandboxed process may use: of memory, time, processes, files and output."""

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

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


# What isolates other people's code from the server on this machine, in words for those who use the server.

OVERRIDES = ("WORKBENCH_WITHOUT_SANDBOX", "WORKBENCH_WITHOUT_WALLS")
"""Environment variables that an administrator sets to 1 to run programs without a sandbox; the second is the former name."""


class SandboxError(WorkbenchError):
    """A process that cannot be isolated as asked."""


class SandboxLevel(StrEnum):
    """What isolates a program of the team from the server, strongest first."""

    SANDBOXED = "sandboxed"
    SEPARATE_USER = "separate user"
    SEPARATE_PROCESS = "separate process"
    REFUSED = "refused"

    @property
    def sentence(self) -> str:
        """What the users of the server should know about it."""
        return _SENTENCES[self]


_SENTENCES = {
    SandboxLevel.SANDBOXED: (
        "Programs run in a sandbox: they see their own code and Python, no other file, no network and no other process, "
        "and they have limits."
    ),
    SandboxLevel.SEPARATE_USER: (
        "Programs run as another system user, with limits and without network: they can read the files that every user of the machine can "
        "read, and nothing of the server's."
    ),
    SandboxLevel.SEPARATE_PROCESS: (
        "Programs run with the server's rights, because an administrator turned the sandbox off: they have limits and no network, but they "
        "can read and write everything that the server can, its database and its keys included. Approve only programs whose authors you "
        "trust with the server."
    ),
    SandboxLevel.REFUSED: (
        "Registered programs do not run here: without a sandbox their code could read and write everything that the server can. "
        "Models of the zoo do run."
    ),
}


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What an administrator allows where there is no sandbox: programs as another system `user`, who may reach his own folders in `data`
    (the server's folder), or `without_sandbox`, with the server's rights."""

    user: str = ""
    data: Path | None = None
    without_sandbox: bool = False

    @classmethod
    def of_machine(cls, user: str, data: Path, without_sandbox: bool) -> "SandboxPolicy":
        """What the configuration says, or `OVERRIDES` in the environment of this machine."""
        return cls(user, data, without_sandbox or any(os.environ.get(name) == "1" for name in OVERRIDES))

    def arguments(self) -> list[str]:
        """The arguments of `of_machine`, for the command line of a job."""
        return [self.user, str(self.data or ""), "1" if self.without_sandbox else ""]


@dataclass(frozen=True)
class SandboxAbility:
    """The result of one trial on this machine. `reason` says why there is no sandbox, and is empty where there is one.

    **Invariants**

    - `bubblewrap` is the path of `bwrap` exactly where the level is `SANDBOXED`; `policy.user` exists where it is `SEPARATE_USER`.
    - `own_user` (the server is not root): a user namespace is made; else bubblewrap keeps root's rights until everything is mounted, and
      the program gets a user of its own.
    """

    level: SandboxLevel
    reason: str = ""
    bubblewrap: str = ""
    own_user: bool = True
    drops_root: bool = True  # a server that is root gives each program a user of its own; not where only root can read Python
    disables_namespaces: bool = False  # `bwrap --disable-userns`, from version 0.8
    scope: tuple[str, ...] = ()  # the beginning of a `systemd-run` command line, where systemd makes scopes
    policy: SandboxPolicy = SandboxPolicy()

    def verify_runs_programs(self) -> None:
        """Raises `SandboxError` where other people's code would run with the server's rights."""
        if self.level is SandboxLevel.REFUSED:
            raise SandboxError(
                f"Registered programs do not run on this machine: it has no sandbox. {self.reason}",
                ["use a model of the zoo", "ask an administrator to install bubblewrap or to set `user` under `[programs]` in team.toml"],
            )

    def __str__(self) -> str:
        root = "" if self.drops_root or self.level is SandboxLevel.REFUSED else " They run as root."
        scopes = " Limits of memory and processor are enforced by systemd." if self.scope else ""
        reason = f" Why there is no sandbox: {self.reason}" if self.reason else ""
        return f"{self.level.capitalize()}. {self.level.sentence}{root}{scopes}{reason}"
