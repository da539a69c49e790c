"""How far code that is not the server's own is walled off here, in words for those who use the server."""

from dataclasses import dataclass
from enum import StrEnum

from workbench.errors import WorkbenchError


class SandboxError(WorkbenchError):
    """A process that cannot be walled off as asked."""


class SandboxLevel(StrEnum):
    """What stands between a program of the team and the server."""

    SANDBOXED = "sandboxed"
    SEPARATE_PROCESS = "separate process"

    @property
    def sentence(self) -> str:
        """What a person should know of it."""
        return _SENTENCES[self]


_SENTENCES = {
    SandboxLevel.SANDBOXED: (
        "Programs run in a sandbox: they see their own code and Python, no other file, no network and no other process, "
        "and they have limits."
    ),
    SandboxLevel.SEPARATE_PROCESS: (
        "Programs run in processes of their own, with limits and without network, but they can read the files that the server can read: "
        "approve only programs whose authors you trust."
    ),
}


@dataclass(frozen=True)
class SandboxAbility:
    """What was found out about this machine, once. `reason` says in words why nothing better can be had, and is empty for the best.

    **Invariants**

    - `bubblewrap` is the path of `bwrap` exactly where the level is `SANDBOXED`.
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

    def __str__(self) -> str:
        root = "" if self.drops_root else " They run as root."
        scopes = " Limits of memory and processor are held by systemd." if self.scope else ""
        return f"{self.level.capitalize()}. {self.level.sentence}{root}{scopes}{f' Why not better: {self.reason}' if self.reason else ''}"
