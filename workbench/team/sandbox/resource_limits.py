"""Resource limits of sandboxed processes, and the isolation that a machine supports."""

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
    """Return the default limit of processes and threads; XLA starts several threads per CPU."""
    return 256 + 16 * (os.cpu_count() or 1)


@dataclass(frozen=True)
class ResourceLimits:
    """Limits of one sandbox, in bytes, seconds and counts.

    **Invariants**

    - Every limit is positive. `processor_seconds` and `deadline` (wall-clock seconds) may be `None`: a planner lives as
      long as its room.
    """

    memory: int = 4096 * MIB  # total of all processes, and RLIMIT_DATA of each
    processor_seconds: int | None = None  # of each process
    deadline: float | None = None
    tasks: int = field(default_factory=_tasks_by_default)
    file_size: int = 64 * MIB  # of each written file
    open_files: int = 256
    scratch: int = 64 * MIB  # each of /tmp, home and /dev/shm, all in memory
    kept_output: int = 64 << 10  # kept from the beginning and end of the output
    output: int = 64 * MIB  # total output
    processors: float | None = None  # only with systemd scopes

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value <= 0:
                raise WorkbenchError(f"The limit `{name}` of a sandbox is {value}; it should be above 0.", [f"leave `{name}` out"])

    def rlimits(self, tasks_in_use: int = 0) -> Mapping[str, tuple[int, int]]:
        """Return soft and hard limits by their names in `resource`.

        The kernel counts tasks per user, so `tasks_in_use` outside the sandbox are added. The address space is twice
        the data size, because libraries and untouched mappings count.
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
        """Return the limits as `systemd-run --scope` options, which apply to all processes together."""
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


# The isolation of user code on this machine, described for users of the server.

OVERRIDES = ("WORKBENCH_WITHOUT_SANDBOX", "WORKBENCH_WITHOUT_WALLS")
"""Variables that an administrator sets to 1 to run programs without a sandbox; the second one is the old name."""


class SandboxError(WorkbenchError):
    """A process cannot be isolated as required."""


class SandboxLevel(StrEnum):
    """The isolation of team programs, strongest first."""

    SANDBOXED = "sandboxed"
    SEPARATE_USER = "separate user"
    SEPARATE_PROCESS = "separate process"
    REFUSED = "refused"

    @property
    def sentence(self) -> str:
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
    """Without a sandbox, run programs as `user`, who can reach folders in `data`, or with the server's rights."""

    user: str = ""
    data: Path | None = None
    without_sandbox: bool = False

    @classmethod
    def of_machine(cls, user: str, data: Path, without_sandbox: bool) -> "SandboxPolicy":
        """Return the configured policy, with `OVERRIDES` from this machine's environment."""
        return cls(user, data, without_sandbox or any(os.environ.get(name) == "1" for name in OVERRIDES))

    def arguments(self) -> list[str]:
        """Return the arguments of `of_machine` for a job's command line."""
        return [self.user, str(self.data or ""), "1" if self.without_sandbox else ""]


@dataclass(frozen=True)
class SandboxAbility:
    """The isolation that this machine supports. `reason` says why there is no sandbox, and is empty if there is one.

    **Invariants**

    - `bubblewrap` is the path of `bwrap` exactly if the level is `SANDBOXED`; `policy.user` exists if it is
      `SEPARATE_USER`.
    - With `own_user` (the server is not root) a user namespace is created; otherwise bubblewrap keeps root's rights
      until everything is mounted, and the program gets its own user.
    """

    level: SandboxLevel
    reason: str = ""
    bubblewrap: str = ""
    own_user: bool = True
    drops_root: bool = True  # whether a root server gives each program its own user; false if only root can read Python
    disables_namespaces: bool = False  # `bwrap --disable-userns`, from version 0.8
    scope: tuple[str, ...] = ()  # prefix of the `systemd-run` command, if systemd creates scopes
    policy: SandboxPolicy = SandboxPolicy()

    def verify_runs_programs(self) -> None:
        """Raise `SandboxError` if user code would run with the server's rights."""
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
