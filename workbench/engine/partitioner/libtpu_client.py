"""The client of the process that runs libtpu: started with the first question about a TPU."""

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

OF_PARTITIONER, OF_LIBTPU = b"P", b"L"
"""Which compiler is asked: the first byte of a pickled question."""


def asks_libtpu(plan: Plan, hardware: Hardware | None) -> bool:
    """Whether the compiler of this hardware is libtpu, is installed, and would compile the plan as it is."""
    if hardware is None or hardware.chip.target not in CLOCKS or plan.mesh.size != hardware.size or plan.program.not_lowered:
        return False
    return has_compiler(hardware) and sys.platform == "linux"


class Libtpu:
    """Asks libtpu in a process of its own, which is started with the first question and ends with its parent.

    If the process dies, its question fails; the next question starts another.
    """

    def __init__(self) -> None:
        self._process: _Process | None = None

    def answer(self, question: bytes) -> bytes | str:
        """The pickled answer to a pickled question, empty where libtpu knows no such hardware; if the process ended first, how it ended."""
        try:
            if self._process is None:
                self._process = _Process()
            return self._process.answer(question)
        except (EOFError, OSError):
            process, self._process = self._process, None
            return process.end() if process else "before it began"

    def interrupt(self) -> None:
        """Cancel the current question; it is answered at once, with nothing."""
        if (process := self._process) is not None:
            process.interrupt()


class _Process:
    """One process and the connection to it."""

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
        """Raises `EOFError` or `OSError` where the process ends first."""
        self._connection.send_bytes(question)
        return self._connection.recv_bytes()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGUSR1)

    def end(self) -> str:
        """End it, and say how it ended."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        if self._process.poll() is None:
            self._process.kill()
        status = self._process.wait()
        return process_end_text(status)
