"""Client of the libtpu process, which is started with the first question about a TPU."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from workbench.core.child_process import start_child
from workbench.core.public_error_text import process_end_text
from workbench.engine.compile.compile_targets import ABSENT_TPU, CLOCKS, has_compiler
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan


def asks_libtpu(plan: Plan, hardware: Hardware | None) -> bool:
    """Return whether the compiler of this hardware is libtpu, is installed, and would compile the plan unchanged."""
    if hardware is None or hardware.chip.target not in CLOCKS or plan.mesh.size != hardware.size or plan.program.not_lowered:
        return False
    return has_compiler(hardware) and sys.platform == "linux"


class Libtpu:
    """Asks libtpu in a separate process, which is started by a question, also after a crash, and ends with its parent."""

    def __init__(self) -> None:
        self._process: _Process | None = None

    def answer(self, question: bytes) -> bytes | str:
        """Return the pickled answer, empty for unknown hardware; a `str` with the exit status if the process ended
        first.
        """
        try:
            if self._process is None:
                self._process = _Process()
            return self._process.answer(question)
        except (EOFError, OSError):
            process, self._process = self._process, None
            return process.end() if process else "before it began"

    def interrupt(self) -> None:
        """Cancel the current question, which gets an empty answer at once."""
        if (process := self._process) is not None:
            process.interrupt()


class _Process:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, **ABSENT_TPU, "OPENBLAS_NUM_THREADS": "1"}  # NumPy's threads would not survive a fork
        with ours, theirs:
            self._process = start_child(
                [sys.executable, "-P", "-m", "workbench.engine.partitioner.libtpu_process", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=environment,
            )
            self._connection = Connection(ours.detach())

    def answer(self, question: bytes) -> bytes:
        self._connection.send_bytes(question)
        return self._connection.recv_bytes()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGUSR1)

    def end(self) -> str:
        """End the process, and describe its exit status."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        if self._process.poll() is None:
            self._process.kill()
        status = self._process.wait()
        return process_end_text(status)
