"""A process that leads its own process group: what it forks (a data loader's workers, say) ends with it, and blocks nobody."""

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any

from workbench.core.child_process import start_child

_CHUNK = 1 << 16  # bytes


class ProcessGroup:
    """Starts a process and ends its whole group: on `kill`, and as soon as the process has ended by itself.

    Processes that have left the group (a daemon with its own session) are not ended.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._process = self._start(command, **options)
        self._lock, self._reaped = threading.Lock(), threading.Event()
        self._ended, self._ending = os.pipe()  # the second one is closed when all processes have ended
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        return start_child(command, start_new_session=True, **options)

    @property
    def stdin(self) -> IO[bytes] | None:
        return self._process.stdin

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._reaped.is_set()

    def kill(self) -> None:
        """Kill it now, and what it has started. Nothing happens if it has ended."""
        with self._lock:
            if not self._reaped.is_set():  # before it is reaped no other group gets its number
                with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS reports the latter for one that is not reaped
                    os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> int:
        """The return code, once it has ended: negative for a signal."""
        self._reaped.wait()
        return self._process.returncode

    def lines(self, pipe: int) -> Iterator[bytes]:
        """Lines from the read end of a pipe that the process writes, until that is closed or the process has ended.

        End of file alone does not suffice: a forked process that lives on holds the pipe open. The last line may be incomplete.
        """
        rest = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            selector.register(self._ended, selectors.EVENT_READ)
            while pipe in (key.fd for key, _ in selector.select()):  # what it wrote before it ended is still read
                if not (chunk := os.read(pipe, _CHUNK)):
                    break
                rest += chunk
                if b"\n" in chunk:
                    *whole, last = bytes(rest).split(b"\n")
                    rest = bytearray(last)
                    yield from (line + b"\n" for line in whole)
        if rest:
            yield bytes(rest)

    def close(self) -> None:
        """End it, and close its pipes."""
        self.kill()
        self.wait()
        with suppress(BrokenPipeError):
            self._process.stdin.close() if self._process.stdin else None
        os.close(self._ended)

    def _watch(self) -> None:
        """Kill the group before its first process is reaped: afterwards its number may be another's."""
        with suppress(ChildProcessError):  # code in this process waits for all children
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13 can only reap
                self._process.wait()
        self.kill()
        with self._lock:
            self._process.wait()
            self._reaped.set()
        os.close(self._ending)
