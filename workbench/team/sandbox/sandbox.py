"""`Sandbox(ability)` starts commands: `sandbox.start(command)`, or `sandbox.run(command)`, which waits for the end; with which arguments
`bwrap` isolates them, and as which system user they run."""

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

# The system user that a sandboxed process runs as, and what of the server's folder this user may reach.


FIRST_USER, USERS = 1_900_000_000, 65_536
"""The users that a server which is root gives its sandboxes, one each: above those of systemd and of containers."""
GROUP = FIRST_USER + USERS
"""The group of all of them."""


class ProgramUser(NamedTuple):
    """A user and its group. Other programs may run as the same user at the same time if it `is_shared`."""

    uid: int
    gid: int
    is_shared: bool = False


class ProgramUsers:
    """Users that are in use. Thread-safe."""

    def __init__(self, ability: SandboxAbility) -> None:
        self._ability, self._lock = ability, threading.Lock()
        self._in_use: set[int] = set()

    def borrow(self, our_code: bool) -> ProgramUser | None:
        """The user of the next process, or `None` for the server's own. Raises `SandboxError` for a user that does not exist."""
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
    """Raises `SandboxError` for a name that does not exist, root, and the server's own user."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise SandboxError(
            f"`user` under `[programs]` is `{name[:80]}`, which is not a user of this machine.", [f"useradd {name}"]
        ) from None
    if found.pw_uid in (0, os.geteuid()):
        raise SandboxError(f"`user` under `[programs]` is `{name}`, who has the server's rights.", ["create a separate user for programs"])
    return ProgramUser(found.pw_uid, found.pw_gid, is_shared=True)


def let_through(paths: Iterable[Path], data: Path | None, gid: int) -> None:
    """Let a group search the folders of `data` that lead to these paths, and list none of them: the folder is private, and a program
    without a sandbox has no mount of its own."""
    for path in paths:
        if data is not None and path.is_relative_to(data):
            for folder in (data, *reversed(path.relative_to(data).parents[:-1])):
                give_to_group(data / folder, gid, stat.S_IXGRP)


def give_to_group(path: Path, gid: int, mode: int) -> None:
    """Let a group do what these bits of it say, unless it may already."""
    found = path.stat()
    if found.st_mode & mode >> 3 == mode >> 3 or (found.st_gid == gid and found.st_mode & mode == mode):
        return
    os.chown(path, -1, gid)
    path.chmod(stat.S_IMODE(found.st_mode) | mode)


_DROP_PRIVILEGES = Path(__file__).with_name("drop_privileges.py")
_COUNTS_BY_NAMESPACE = (5, 14)  # the Linux that counts tasks for each user namespace alone


@dataclass(frozen=True)
class SandboxRun:
    """What came of a command that was waited for."""

    ending: SandboxEnding
    printed: bytes
    errors: str
    is_whole: bool  # whether `printed` is everything


class Sandbox:
    """Processes of a sandbox end with it, at the latest. It may be used from any thread."""

    def __init__(self, ability: SandboxAbility) -> None:
        self.ability = ability
        self._lock = threading.Lock()
        self._users = ProgramUsers(ability)
        self._running: set[SandboxedProcess] = set()

    def start(self, command: SandboxedCommand) -> SandboxedProcess:
        """Raises `SandboxError` for other people's code that would have the server's rights, for a path that is not there, and where the
        system cannot start a process."""
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
            self._running = {each for each in self._running if each.poll() is None} | {started}
        return started

    def run(self, command: SandboxedCommand) -> SandboxRun:
        """Start it and wait for its end, which its deadline brings."""
        process = self.start(command)
        ending = process.wait()
        assert ending is not None, "waited without an end"
        return SandboxRun(ending, process.printed.content, process.errors.text(), not process.printed.left_out)

    def close(self) -> None:
        """End everything that still runs here."""
        with self._lock:
            running = [each for each in self._running if each.poll() is None]
        for each in running:
            each.kill()
        for each in running:
            each.wait(10)

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
        """Let the user write and reach what it may. A user that is not the process's own becomes the owner of nothing: a server that is not
        root could not read it any more."""
        if user is None:
            return
        for path in command.writable:
            if user.is_shared:
                give_to_group(path, user.gid, stat.S_IRGRP | stat.S_IWGRP)
            else:
                os.chown(path, user.uid, user.gid)
        if not self._is_walled:
            let_through((*command.readable, *command.writable), self.ability.policy.data, user.gid)


def _environment_of_wrapper(scoped: bool) -> dict[str, str]:
    """Of bwrap itself, which the program can read in /proc: nothing, but for `systemd-run` how to reach systemd."""
    names = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "PATH") if scoped else ()
    return {name: os.environ[name] for name in names if name in os.environ}


def _verify_paths(command: SandboxedCommand) -> None:
    for path in (*command.readable, *command.writable):
        if not path.is_absolute() or not path.exists():
            raise SandboxError(f"The sandbox needs `{path}`, which does not exist.", ["fetch the program again"])


@contextmanager
def _written(data: bytes) -> Iterator[int]:
    """A descriptor that these few bytes can be read from; -1 for none."""
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


# The command line of `bwrap`: a root of its own with only the files that were named, and namespaces of its own for everything.
#
# What is mounted later lies over what was mounted before: the places that can be written come first, the files to read after them, and in
# the end the root and /dev are made read-only. Every folder of files is mounted without devices and without set-user-id programs.

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
