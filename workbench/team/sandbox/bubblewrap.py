"""The command line of `bwrap`: a root of its own with only the files that were named, and namespaces of its own for everything.

What is mounted later lies over what was mounted before: the places that can be written come first, the files to read after them, and in the
end the root and /dev are made read-only. Every folder of files is mounted without devices and without set-user-id programs.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from workbench.team.sandbox.command import ALIASES, HOME, SandboxedCommand, python_files
from workbench.team.sandbox.levels import SandboxAbility
from workbench.team.sandbox.limits import ResourceLimits

NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates")
"""What finds and verifies a host: for the one command that may, the fetching of a repository."""


def bubblewrap_arguments(ability: SandboxAbility, command: SandboxedCommand, filter_descriptor: int) -> list[str]:
    """Everything before the command itself, `--` included. A descriptor below 0 is no filter."""
    return [
        ability.bubblewrap,
        *_namespaces(ability, command.network),
        *("--die-with-parent", "--new-session", "--clearenv"),
        *(["--seccomp", str(filter_descriptor)] if filter_descriptor >= 0 else []),
        *_scratch(command.limits),
        *_parents([*python_files(), *NETWORK_FILES, *map(str, command.readable), *map(str, command.writable)]),
        *_system(),
        *_binds("--ro-bind", python_files()),
        *(_binds("--ro-bind-try", NETWORK_FILES) if command.network else []),
        *_binds("--ro-bind", map(str, command.readable)),
        *_binds("--bind", map(str, command.writable)),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", "/tmp"),  # noqa: S108 - its own
        "--",
    ]


def _namespaces(ability: SandboxAbility, network: bool) -> list[str]:
    """Of a user who is not root: also a user namespace, and no further ones in it. Root's bubblewrap may only change its user."""
    shared = ["--share-net"] if network else []
    if ability.own_user:
        nested = ["--disable-userns"] if ability.disables_namespaces else []
        return ["--unshare-all", "--unshare-user", *shared, *nested, "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    separate = [f"--unshare-{name}" for name in ("ipc", "pid", "uts", "cgroup-try", *(() if network else ("net",)))]
    return [*separate, "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]


def _scratch(limits: ResourceLimits) -> Iterator[str]:
    """Places in memory, each of a limited size, and gone at the end."""
    yield from ("--proc", "/proc", "--dev", "/dev")
    for place in ("/tmp", HOME, "/dev/shm"):  # noqa: S108 - its own
        yield from ("--perms", "1777", "--size", str(limits.scratch), "--tmpfs", place)


def _system() -> Iterator[str]:
    for alias in ALIASES:
        if Path(alias).is_symlink():
            yield from ("--symlink", str(Path(alias).readlink()), alias)


def _parents(paths: Iterable[str]) -> Iterator[str]:
    """The folders above what is shown, empty: the program's user, who is not root, is to pass through them."""
    for parent in sorted({parent for path in paths for parent in Path(path).parents if str(parent) not in ("/", "/tmp")}):  # noqa: S108
        yield from ("--perms", "0755", "--dir", str(parent))


def _binds(kind: str, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield from (kind, path, path)
