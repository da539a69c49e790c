"""The warm process as its parent holds it: an interpreter of its own, the connection to it, and how it ended."""

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

from workbench.core.child_process import start_child
from workbench.core.import_path import python_path
from workbench.core.operating_system import after_fork, require_processes
from workbench.engine.worker.worker_process import file_for_last_words
from workbench.tracing.jax_backends import NO_TPU, lacks_tpu

START_LIMIT = 120.0  # seconds for the process to be ready
_END_LIMIT = 5.0  # seconds in which a process whose connection is closed is gone


class WarmProcessEnded(Exception):  # noqa: N818 - not an error yet: how the process ended, from which a message is made
    """The process ended before it answered."""

    def __init__(self, status: int | None, last_words: str) -> None:
        super().__init__(status, last_words)
        self.status, self.last_words = status, last_words


class WarmProcess:
    """One warm process, which runs `module` with the number of its end of a connection, and our end of that."""

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
                process_group=0,  # a Ctrl-C in the terminal is for us; in a session of its own its niceness would say nothing
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
        """Ask a question and return its answer; raises `WarmProcessEnded` where it dies first, `TimeoutError` where it takes longer."""
        try:
            self._connection.send_bytes(question)
        except OSError:
            raise self._end_error() from None
        return self._receive(limit)

    def interrupt(self) -> None:
        """Cancel libtpu's current question."""
        self._process.send_signal(signal.SIGUSR1)

    def kill(self) -> None:
        """End it now."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def end(self) -> None:
        """End it now, and wait for that."""
        self.kill()
        self._process.wait()

    def close(self) -> None:
        """End it, and close its connection and files."""
        self.end()
        self._connection.close()
        self._last_words.close()
        _live_processes.discard(self)

    def _receive(self, limit: float) -> tuple[Any, ...]:
        try:
            if not self._connection.poll(limit):
                raise TimeoutError
            found: tuple[Any, ...] = pickle.loads(self._connection.recv_bytes())  # noqa: S301 - our own process wrote it
        except (EOFError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise self._end_error() from None
        return found

    def _end_error(self) -> WarmProcessEnded:
        try:
            status = self._process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:  # it closed its connection and still runs
            self.kill()
            status = self._process.wait()
        self._last_words.seek(0)
        return WarmProcessEnded(status, self._last_words.read().decode(errors="replace").strip("\0"))


_live_processes: set[WarmProcess] = set()


def _environment() -> dict[str, str]:
    """The environment of a process that uses JAX on the CPU alone: the memory of a GPU, or a TPU, is for runs of plans."""
    quiet = NO_TPU if lacks_tpu() and "TPU_ACCELERATOR_TYPE" not in os.environ else {}
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": python_path(), **quiet}


def _end_all() -> None:
    for each in tuple(_live_processes):
        each.kill()


atexit.register(_end_all)
after_fork(_live_processes.clear)  # the processes are the parent's
