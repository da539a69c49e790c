"""`Sandbox(ability)` starts commands: `sandbox.start(command)`, or `sandbox.run(command)`, which waits for the end."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.core.child_process import start_child
from workbench.team.sandbox.bubblewrap import bubblewrap_arguments
from workbench.team.sandbox.command import HOME, SandboxedCommand
from workbench.team.sandbox.ending import SandboxEnding
from workbench.team.sandbox.levels import SandboxAbility, SandboxError, SandboxLevel
from workbench.team.sandbox.program_users import ProgramUser, ProgramUsers, give_to_group, let_through
from workbench.team.sandbox.sandboxed_process import SandboxedProcess, tasks_of_user
from workbench.team.sandbox.syscall_filter import syscall_filter

_START = Path(__file__).with_name("start.py")
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
        inner = [sys.executable, "-I", "-S", str(_START), json.dumps(self._settings(command, user, filter_descriptor))]
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
            raise SandboxError(f"The sandbox is to show `{path}`, which is not there.", ["fetch the program again"])


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
