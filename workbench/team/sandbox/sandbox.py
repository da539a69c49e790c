"""Run isolated commands: `sandbox.start(command)`, or `sandbox.run(command)`, which waits for the end."""

import json
import os
import pwd
import secrets
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from workbench.core.child_process import start_child
from workbench.team.sandbox.exit_reason import SandboxEnding
from workbench.team.sandbox.resource_limits import ResourceLimits, SandboxAbility, SandboxError, SandboxLevel
from workbench.team.sandbox.sandboxed_command import ALIASES, HOME, SandboxedCommand, python_files
from workbench.team.sandbox.sandboxed_process import SandboxedProcess, tasks_of_user
from workbench.team.sandbox.syscall_filter import syscall_filter

# System users of sandboxed processes, and their access to the server's folder.


FIRST_USER, USERS = 1_900_000_000, 65_536
"""User IDs that a root server gives its sandboxes, one each, above those of systemd and containers."""
GROUP = FIRST_USER + USERS
"""The group of all these users."""


class ProgramUser(NamedTuple):
    """A user and group. Other programs may run as the same user concurrently if it `is_shared`."""

    uid: int
    gid: int
    is_shared: bool = False


class ProgramUsers:
    def __init__(self, ability: SandboxAbility) -> None:
        self._ability, self._lock = ability, threading.Lock()
        self._in_use: set[int] = set()

    def borrow(self, our_code: bool) -> ProgramUser | None:
        """Return a user for a process, `None` for the server's. Raises `SandboxError` for an unknown user."""
        named = named_user(self._ability.policy.user) if self._ability.level is SandboxLevel.SEPARATE_USER else None
        if named and not our_code:
            return named
        if os.geteuid() != 0 or not self._ability.drops_root:
            return None
        with self._lock:
            while (uid := FIRST_USER + secrets.randbelow(USERS)) in self._in_use:
                pass
            self._in_use.add(uid)
        return ProgramUser(uid, named.gid if named else GROUP)

    def give_back(self, user: ProgramUser | None) -> None:
        with self._lock:
            self._in_use.discard(user.uid if user else -1)


def named_user(name: str) -> ProgramUser:
    """Look up a system user. Raises `SandboxError` if it does not exist, is root, or is the server's own user."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise SandboxError(
            f"`user` under `[programs]` is `{name[:80]}`, which is not a user of this machine.", [f"useradd {name}"]
        ) from None
    if entry.pw_uid in (0, os.geteuid()):
        raise SandboxError(f"`user` under `[programs]` is `{name}`, who has the server's rights.", ["create a separate user for programs"])
    return ProgramUser(entry.pw_uid, entry.pw_gid, is_shared=True)


def allow_traversal(paths: Iterable[Path], data: Path | None, gid: int) -> None:
    """Let a group traverse the private folders of `data` that lead to these paths, without listing them."""
    for path in paths:
        if data is not None and path.is_relative_to(data):
            for folder in (data, *reversed(path.relative_to(data).parents[:-1])):
                give_to_group(data / folder, gid, stat.S_IXGRP)


def give_to_group(path: Path, gid: int, mode: int) -> None:
    status = path.stat()
    if status.st_mode & mode >> 3 == mode >> 3 or (status.st_gid == gid and status.st_mode & mode == mode):
        return
    os.chown(path, -1, gid)
    path.chmod(stat.S_IMODE(status.st_mode) | mode)


_DROP_PRIVILEGES = Path(__file__).with_name("drop_privileges.py")
_COUNTS_BY_NAMESPACE = (5, 14)  # Linux version that counts tasks per user namespace


@dataclass(frozen=True)
class SandboxRun:
    ending: SandboxEnding
    printed: bytes
    errors: str
    is_whole: bool  # whether `printed` is complete


class Sandbox:
    """Starts isolated processes, and ends them when it is closed. Thread-safe."""

    def __init__(self, ability: SandboxAbility) -> None:
        self.ability = ability
        self._lock = threading.Lock()
        self._users = ProgramUsers(ability)
        self._running: set[SandboxedProcess] = set()

    def start(self, command: SandboxedCommand) -> SandboxedProcess:
        """Start a command. Raises `SandboxError`, also for user code that would have the server's rights."""
        if not command.our_code:
            self.ability.verify_runs_programs()
        _verify_paths(command)
        user = self._users.borrow(command.our_code)
        try:
            with _written(syscall_filter(command.network)) as filter_descriptor, _stdin(command.stdin) as stdin:
                self._give(command, user)
                line = self._line(command, user, filter_descriptor)
                passed = (*command.descriptors, *([filter_descriptor] if filter_descriptor >= 0 else []))
                process = self._start_line(line, passed, stdin, user)
        except OSError as error:
            self._users.give_back(user)
            raise SandboxError(f"A sandbox cannot be started: {error.strerror}.", ["end other processes of this machine"]) from None
        started = SandboxedProcess(process, command.limits, not self._is_walled, lambda: self._users.give_back(user))
        with self._lock:
            self._running = {running for running in self._running if running.poll() is None} | {started}
        return started

    def run(self, command: SandboxedCommand) -> SandboxRun:
        process = self.start(command)
        ending = process.wait()
        assert ending is not None, "waited without an end"
        return SandboxRun(ending, process.printed.content, process.errors.text(), not process.printed.left_out)

    def close(self) -> None:
        with self._lock:
            running = [process for process in self._running if process.poll() is None]
        for process in running:
            process.kill()
        for process in running:
            process.wait(10)

    def _start_line(self, line: list[str], passed: tuple[int, ...], stdin: int, user: ProgramUser | None) -> subprocess.Popen[bytes]:
        dropped = user if self._is_walled and self.ability.own_user else None
        return start_child(
            line,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
            env=_environment_of_wrapper(bool(self.ability.scope)),
            cwd="/",
            start_new_session=True,
            user=dropped.uid if dropped else None,
            group=dropped.gid if dropped else None,
            extra_groups=[] if dropped else None,
        )

    def _line(self, command: SandboxedCommand, user: ProgramUser | None, filter_descriptor: int) -> list[str]:
        inner = [sys.executable, "-I", "-S", str(_DROP_PRIVILEGES), json.dumps(self._settings(command, user, filter_descriptor))]
        walls = bubblewrap_arguments(self.ability, command, filter_descriptor) if self._is_walled else []
        scope = [*self.ability.scope, *command.limits.scope_options(), "--"] if self.ability.scope else []
        return [*scope, *walls, *inner]

    def _settings(self, command: SandboxedCommand, user: ProgramUser | None, filter_descriptor: int) -> dict[str, object]:
        is_first = user is not None and not user.is_shared
        is_counted_apart = is_first or (self._is_walled and _linux_version() >= _COUNTS_BY_NAMESPACE)
        counted = 0 if is_counted_apart else tasks_of_user(user.uid if user else os.getuid())
        return {
            "limits": command.limits.rlimits(counted),
            "user": None if self._is_walled and self.ability.own_user else user,
            "alone": not self._is_walled,
            "parent": os.getpid(),
            "filter": filter_descriptor,
            "descriptors": command.descriptors,
            "command": command.arguments,
            "environment": command.full_environment(HOME if self._is_walled else "/nonexistent"),
        }

    @property
    def _is_walled(self) -> bool:
        return self.ability.level is SandboxLevel.SANDBOXED

    def _give(self, command: SandboxedCommand, user: ProgramUser | None) -> None:
        """Give the user access; ownership stays, because a non-root server could no longer read the files."""
        if user is None:
            return
        for path in command.writable:
            if user.is_shared:
                give_to_group(path, user.gid, stat.S_IRGRP | stat.S_IWGRP)
            else:
                os.chown(path, user.uid, user.gid)
        if not self._is_walled:
            allow_traversal((*command.readable, *command.writable), self.ability.policy.data, user.gid)


def _environment_of_wrapper(scoped: bool) -> dict[str, str]:
    """Return the environment of bwrap, which the program can read in /proc: empty except what `systemd-run` needs."""
    names = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "PATH") if scoped else ()
    return {name: os.environ[name] for name in names if name in os.environ}


def _verify_paths(command: SandboxedCommand) -> None:
    for path in (*command.readable, *command.writable):
        if not path.is_absolute() or not path.exists():
            raise SandboxError(f"The sandbox needs `{path}`, which does not exist.", ["fetch the program again"])


@contextmanager
def _written(data: bytes) -> Iterator[int]:
    if not data:
        yield -1
        return
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


@contextmanager
def _stdin(data: bytes) -> Iterator[int]:
    if not data:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def _linux_version() -> tuple[int, int]:
    with suppress(ValueError):
        major, minor, *_ = os.uname().release.split(".")
        return int(major), int(minor)
    return (0, 0)


# The `bwrap` command line: a separate root with only the listed files, and separate namespaces.
#
# Later mounts cover earlier ones: scratch space comes first, then readable files; at
# the end root and /dev become read-only. All folders are mounted without devices and set-user-ID programs.

NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates")
"""Files to resolve and verify hosts, for fetching repositories only."""


def bubblewrap_arguments(ability: SandboxAbility, command: SandboxedCommand, filter_descriptor: int) -> list[str]:
    """Return the arguments before the command, including `--`. A negative descriptor means no filter."""
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
        *("--chdir", "/tmp"),  # noqa: S108 - private to the sandbox
        "--",
    ]


def _namespaces(ability: SandboxAbility, network: bool) -> list[str]:
    """Return namespace options. Root's bubblewrap needs no user namespace, and can only change users."""
    shared = ["--share-net"] if network else []
    if ability.own_user:
        nested = ["--disable-userns"] if ability.disables_namespaces else []
        return ["--unshare-all", "--unshare-user", *shared, *nested, "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    separate = [f"--unshare-{name}" for name in ("ipc", "pid", "uts", "cgroup-try", *(() if network else ("net",)))]
    return [*separate, "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]


def _scratch(limits: ResourceLimits) -> Iterator[str]:
    yield from ("--proc", "/proc", "--dev", "/dev")
    for place in ("/tmp", HOME, "/dev/shm"):  # noqa: S108 - private to the sandbox
        yield from ("--perms", "1777", "--size", str(limits.scratch), "--tmpfs", place)


def _system() -> Iterator[str]:
    for alias in ALIASES:
        if Path(alias).is_symlink():
            yield from ("--symlink", str(Path(alias).readlink()), alias)


def _parents(paths: Iterable[str]) -> Iterator[str]:
    """Yield the options that create empty parent folders, which the program's non-root user must be able to traverse."""
    for parent in sorted({parent for path in paths for parent in Path(path).parents if str(parent) not in ("/", "/tmp")}):  # noqa: S108
        yield from ("--perms", "0755", "--dir", str(parent))


def _binds(kind: str, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield from (kind, path, path)
