"""One warm process for each process of a run: worker processes are forks of it, so that none of them has to import JAX again.

A fork is as new as a process that was started: it has no job, no device and no compiler yet. Files about the process itself, how it is
started and how it dies, are marked `cold`, and start it as users do.
"""

import atexit
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.support.warm_process import Told
from workbench.engine.worker.worker_process import ProcessGroup

_WORKER = "workbench.engine.worker.worker_main"
_READ_EARLY = ("JAX_", "PYTHON")  # beginnings of variables that are read before a fork could be told others
_TOLD = "JAX_NUM_CPU_DEVICES"  # but for this one


class WarmGroup(ProcessGroup):
    """A `ProcessGroup` whose process is a fork of the warm one, where it is a worker that a fork could be."""

    def _start(self, command: Sequence[str], **options: Any) -> Any:
        self._fork = None
        if sys.platform != "linux" or _WORKER not in command or not shared_start().fits(options["env"]):
            return super()._start(command, **options)
        self._fork = shared_start().fork(command[-1], **options)
        return self._fork

    def _watch(self) -> None:
        if self._fork is not None:
            self._fork.wait_until_ended()
        super()._watch()


class WarmStart:
    """The warm process as the tests hold it; it ends with them."""

    def __init__(self) -> None:
        self.path = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)  # as `job_payload` has it
        self._environment = {**os.environ, "PYTHONPATH": self.path}
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", "-m", "tests.support.warm_process", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(command, env=self._environment, pass_fds=(theirs.fileno(),), start_new_session=True)
        atexit.register(self.close)

    def close(self) -> None:
        self._connection.close()
        self._process.wait()

    def fits(self, environment: Mapping[str, str]) -> bool:
        return _read_early(environment) == _read_early(self._environment)

    def fork(self, kind: str, *, stdin: int, stderr: IO[bytes], pass_fds: Sequence[int], env: Mapping[str, str]) -> "Fork":
        """A worker that waits for a job of this kind, or of any, with a pipe on standard input."""
        assert stdin == subprocess.PIPE
        told = pickle.dumps(tuple(Told(kind, str(Path.cwd()), dict(env))))
        read, write = os.pipe()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, os.fdopen(read, "rb"):
            socket.send_fds(self._connection, [told], [read, 1, stderr.fileno(), *pass_fds, theirs.fileno()])
        return Fork(ours, os.fdopen(write, "wb"))


class Fork:
    """A worker, with what `ProcessGroup` needs of a `subprocess.Popen`."""

    def __init__(self, connection: socket.socket, stdin: IO[bytes]) -> None:
        self.stdin, self._connection = stdin, connection
        self.returncode: int | None = None
        self.pid = int(connection.recv(64))

    def wait_until_ended(self) -> None:
        """Its number is its own until `wait`."""
        if self.returncode is None:
            self.returncode = int(self._connection.recv(64))

    def wait(self) -> int:
        """Reaped, too."""
        self.wait_until_ended()
        with self._connection:
            self._connection.send(b"reap")
            self._connection.recv(1)  # its end
        assert self.returncode is not None
        return self.returncode


_started: list[WarmStart] = []


def shared_start() -> WarmStart:
    """That of this process."""
    if not _started:
        _started.append(WarmStart())
    return _started[0]


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_EARLY) and name != _TOLD}
