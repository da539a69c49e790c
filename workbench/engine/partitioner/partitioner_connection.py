"""The parent's side of the warm process: a separate interpreter, its connection, and its exit status."""

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from typing import Any

from workbench.core.child_process import file_for_last_words, start_child
from workbench.core.import_path import python_path
from workbench.core.jax_installation import NO_TPU, has_no_tpu
from workbench.core.operating_system import after_fork, require_processes

OF_PARTITIONER, OF_LIBTPU = b"P", b"L"
"""First byte of a pickled question, which selects the compiler."""
START_LIMIT = 120.0  # seconds until the process must be ready
_END_LIMIT = 5.0  # seconds until a process must end after closing its connection


class WarmProcessEnded(Exception):  # noqa: N818 - not an error yet: the exit status, which is turned into a message
    """The process ended before it answered."""

    def __init__(self, status: int | None, last_words: str) -> None:
        super().__init__(status, last_words)
        self.status, self.last_words = status, last_words


class WarmProcess:
    """One warm process, which runs `module` with its end of a connection, and this end."""

    def __init__(self, module: str = "workbench.engine.partitioner.partitioner_process") -> None:
        require_processes("ask XLA's partitioner")
        self.cancelled = False
        with ExitStack() as failing:
            self._last_words = failing.enter_context(file_for_last_words())
            ours, theirs = map(failing.enter_context, socket.socketpair())
            self._process = start_child(
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._last_words,
                pass_fds=(theirs.fileno(),),
                env=_environment(),
                process_group=0,  # Ctrl-C in the terminal is for the parent; in a separate session its niceness would have no effect
            )
            theirs.close()
            self._connection = Connection(ours.detach())
            failing.pop_all()
        _live_processes.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        return self._process.poll() is not None

    def wait_until_ready(self) -> None:
        self._receive(START_LIMIT)

    def ask(self, question: bytes, limit: float) -> tuple[Any, ...]:
        """Return the answer; raises `WarmProcessEnded` if the process dies, `TimeoutError` after `limit` seconds."""
        try:
            self._connection.send_bytes(question)
        except OSError:
            raise self._end_error() from None
        return self._receive(limit)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGUSR1)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    def end(self) -> None:
        self.kill()
        self._process.wait()

    def close(self) -> None:
        self.end()
        self._connection.close()
        self._last_words.close()
        _live_processes.discard(self)

    def _receive(self, limit: float) -> tuple[Any, ...]:
        try:
            if not self._connection.poll(limit):
                raise TimeoutError
            message: tuple[Any, ...] = pickle.loads(self._connection.recv_bytes())  # noqa: S301 - our own process wrote it
        except (EOFError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise self._end_error() from None
        return message

    def _end_error(self) -> WarmProcessEnded:
        try:
            status = self._process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:  # it closed its connection but still runs
            self.kill()
            status = self._process.wait()
        self._last_words.seek(0)
        return WarmProcessEnded(status, self._last_words.read().decode(errors="replace").strip("\0"))


_live_processes: set[WarmProcess] = set()


def _environment() -> dict[str, str]:
    """Return an environment with JAX on the CPU only, since GPU memory and TPUs are for runs of plans."""
    quiet = NO_TPU if has_no_tpu() and "TPU_ACCELERATOR_TYPE" not in os.environ else {}
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": python_path(), **quiet}


def _end_all() -> None:
    for process in tuple(_live_processes):
        process.kill()


atexit.register(_end_all)
after_fork(_live_processes.clear)  # the processes belong to the parent
