"""The process that asks libtpu, as the warm process knows it: started with the first question about a TPU."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection

from workbench.engine.targets import environment_for, has_compiler
from workbench.hardware import Hardware
from workbench.plan import Plan


def asks_libtpu(plan: Plan, hardware: Hardware | None) -> bool:
    """Whether the compiler of this hardware is libtpu, is here, and would compile the plan as it is."""
    is_tpu = hardware is not None and hardware.chip.platform == "tpu"
    return is_tpu and hardware is not None and has_compiler(hardware) and plan.mesh.size == hardware.size and sys.platform == "linux"


class LibtpuProcess:
    """One process and the connection to it; it ends with the one that started it."""

    def __init__(self, hardware: Hardware) -> None:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, **environment_for(hardware), "OPENBLAS_NUM_THREADS": "1"}  # NumPy's threads would not survive a fork
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, this package
                [sys.executable, "-P", "-m", "workbench.engine.partitioner.libtpu_process", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=environment,
            )
        self._connection = Connection(ours.detach())

    def answer(self, question: bytes) -> bytes:
        """Its packed answer to a packed question; raises `EOFError` or `OSError` where it ends first."""
        self._connection.send_bytes(question)
        return self._connection.recv_bytes()

    def end(self) -> str:
        """End it, and say how it ended."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        if self._process.poll() is None:
            self._process.kill()
        status = self._process.wait()
        return f"by {signal.Signals(-status).name}" if status < 0 else f"with exit code {status}"


@cache
def _running() -> dict[str, LibtpuProcess]:
    return {}


def ask_libtpu(question: bytes, hardware: Hardware) -> bytes | str:
    """The packed answer of the one process of this one; where it ended, how. Another is started with the next question."""
    running = _running()
    try:
        if "libtpu" not in running:
            running["libtpu"] = LibtpuProcess(hardware)
        return running["libtpu"].answer(question)
    except (EOFError, OSError):
        process = running.pop("libtpu", None)
        return process.end() if process else "before it began"
