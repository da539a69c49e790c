"""The client of the warm process that runs Shardy's recording passes, so that a crash of Shardy does not end this
process.
"""

import atexit
import functools
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import IO, Any

from workbench.core.child_process import start_child
from workbench.core.operating_system import after_fork, terminal_signals
from workbench.errors import PartitionError
from workbench.propagation.explain.recorder_process import MOST_BYTES, receive, send
from workbench.units import format_bytes

SECONDS = 60
"""Time limit of one recording in seconds; a GPT-3 of 96 unrolled layers takes about three."""

_REMEMBERED = 64  # plans that crashed the process
_GRACE = 2  # seconds until the process, asked to end, is killed; its own alarm goes off as much later than ours
_STILL_VALID = "so it cannot be explained. The plan and all other figures are unaffected."
_WAYS_OUT = ("change or remove the last constraint, group or barrier", "report it to openxla/shardy, whose process ended")


class Recorder:
    """Sends requests, one at a time and from any thread, to one process started on first use.

    A dead process is restarted; a request that crashed it is answered from memory. A fork starts its own process.
    """

    def __init__(self, command: tuple[str, ...], seconds: float = SECONDS) -> None:
        self._command, self._seconds = command, seconds
        self.starts = 0  # how often the process was started
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._stderr: IO[bytes] | None = None  # the standard error of the running process
        self._fatal: dict[bytes, str] = {}  # by request: the message about the crash
        after_fork(self._leave_to_parent)
        atexit.register(self.close)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.poll() is None else None

    def ask(self, passes: str, module: bytes) -> bytes:
        """The recording of a module after the passes.

        Raises `PartitionError` if the process dies or takes too long, `RefusedError` with MLIR's message.
        """
        request = hashlib.sha256(passes.encode() + b"\0" + module).digest()
        with self._lock:
            if request in self._fatal:
                raise _recording_error(self._fatal[request])
            answer = self._exchange(request, passes.encode(), module) or self._exchange(request, passes.encode(), module)
        if answer is None:
            raise _recording_error(_failure_message(0, "", None))
        word, text = answer
        if word == b"error":
            raise RefusedError(text.decode())
        return text

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            _pipe(process.stdin).close()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _pipe(process.stdout).close()

    def _exchange(self, question: bytes, *frames: bytes) -> tuple[bytes, bytes] | None:
        """The answer's status and text; `None` if the process had ended by itself, idle, just before the request."""
        process, overdue = self._ensure_process(), threading.Event()
        timer = threading.Timer(self._seconds, _kill_overdue, (process, overdue))
        timer.daemon = True
        timer.start()
        try:
            with suppress(BrokenPipeError):  # it died before it read everything: its exit status says how
                send(_pipe(process.stdin), *frames)
            word, text = receive(_pipe(process.stdout)), receive(_pipe(process.stdout))
        except BaseException:  # an interrupt would leave an unread answer in the pipe
            process.kill()
            self.close()
            raise
        finally:
            timer.cancel()
        if word is None or text is None:
            if process.wait() == 0:
                return None
            raise self._death_error(question, process, is_overdue=overdue.is_set())
        return word, text

    def _ensure_process(self) -> "_Process":
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        if self._stderr:
            self._stderr.close()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - it is read when the process has died
        self._process = start_child(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, env=_environment())
        self.starts += 1
        return self._process

    def _death_error(self, question: bytes, process: "_Process", *, is_overdue: bool) -> PartitionError:
        code = process.wait()
        message = _failure_message(
            code, self._read_stderr(), self._seconds if is_overdue or -code == getattr(signal, "SIGALRM", None) else None
        )
        self.close()
        if is_overdue or -code not in terminal_signals():
            self._fatal[question] = message
            for request in list(self._fatal)[:-_REMEMBERED]:
                del self._fatal[request]
        return _recording_error(message)

    def _read_stderr(self) -> str:
        if self._stderr is None:
            return ""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    def _leave_to_parent(self) -> None:
        """In a fork, drop the process and pipes of the parent, and a lock that another thread may have held."""
        process, self._process, self._lock = self._process, None, threading.Lock()
        if process:
            process.returncode = 0  # only the parent may wait for it
            for pipe in (process.stdin, process.stdout):
                _pipe(pipe).raw.close()  # without flushing: buffered data belongs to the parent


_Process = subprocess.Popen[bytes]


def _kill_overdue(process: _Process, overdue: threading.Event) -> None:
    overdue.set()
    process.kill()


class RefusedError(Exception):
    """Raised with MLIR's message if the passes refuse a module."""


@functools.cache
def recorder() -> Recorder:
    """The recorder of this Python process."""
    return Recorder((sys.executable, "-P", "-m", "workbench.propagation.explain.recorder_process", str(SECONDS + _GRACE)))


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "JAX_PLATFORMS": "cpu"}


def _pipe(stream: IO[bytes] | None) -> Any:
    assert stream is not None, "opened as a pipe"
    return stream


def _recording_error(message: str) -> PartitionError:
    return PartitionError(message, _WAYS_OUT)


def _failure_message(code: int, words: str, seconds: float | None) -> str:
    if seconds is not None:
        return f"Shardy took more than {seconds:g} s to record the propagation of this plan, {_STILL_VALID}"
    if "bad_alloc" in words or "out of memory" in words.lower() or "MemoryError" in words:
        return f"Shardy needs more than {format_bytes(MOST_BYTES)} of memory to record the propagation of this plan, {_STILL_VALID}"
    if code < 0:
        how = signal.Signals(-code).name if -code in {*map(int, signal.Signals)} else f"signal {-code}"
        return f"Shardy ended ({how}) while it recorded the propagation of this plan, {_STILL_VALID}"
    last = next((line.strip() for line in reversed(words.splitlines()) if line.strip()), f"exit code {code}")[:200]
    return f"The process that records propagation ended: {last}. The plan and all other figures are unaffected."
