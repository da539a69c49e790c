"""A required child process of a server, restarted whenever it ends, with increasing pauses."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from workbench.app.processes.child_table import ChildState
from workbench.core.child_process import start_child
from workbench.core.import_path import python_path
from workbench.core.operating_system import require_processes
from workbench.core.public_error_text import process_end_text
from workbench.errors import EngineError

START_LIMIT = 120.0  # seconds until the process must be ready
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Seconds between its end and the next start, doubled each time."""
STEADY = 2.0
"""Seconds of readiness after which the pause is reset."""
MOST_FAILURES = 3
"""Consecutive starts that may fail by a signal before waiters are told; a regular exit is reported at once."""

Listener = Callable[[Mapping[str, Any]], None]


class HealingChild:
    """The process `python -m module DESCRIPTOR ARGUMENTS`, started at once and again whenever it ends.

    It writes `{"ready": true}`, then JSON lines, and ends with its connection. `listen` gets each object, and
    `{"ended": status}`.
    """

    def __init__(self, noun: str, module: str, *arguments: str, listen: Listener) -> None:
        require_processes("serve boards")
        self._nullable_form, self._command, self._listener = noun, (module, arguments), listen
        self._news, self._sending = threading.Condition(), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready_at, self._missing_since = 0.0, time.monotonic()
        self._is_ready = self._is_closed = False
        self._deaths = self._failures = 0
        self._problem = ""
        self._thread = threading.Thread(target=self._supervise, daemon=True, name=noun)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def is_ready(self) -> bool:
        with self._news:
            return self._is_ready

    def state(self) -> ChildState:
        with self._news:
            return ChildState(self._deaths, 0.0 if self._is_ready else time.monotonic() - self._missing_since)

    def send(self, *descriptors: int) -> None:
        """Send descriptors once it is ready, after restarts if necessary. Raises `EngineError`."""
        while not self.offer(*descriptors):
            with self._news:
                if not self._news.wait_for(lambda: self._is_ready or self._is_hopeless(), START_LIMIT) or not self._is_ready:
                    raise self._error()

    def offer(self, *descriptors: int) -> bool:
        """Send descriptors if it is ready, and return whether it was."""
        with self._news:
            control = self._control if self._is_ready else None
        if control is None:
            return False
        try:
            with self._sending:
                socket.send_fds(control, [b"f"], descriptors)
        except OSError:  # it has just ended
            with self._news:
                if self._control is control:
                    self._note_missing()
            return False
        return True

    def close(self) -> None:
        with self._news:
            self._is_closed = True
            self._news.notify_all()
            if self._process is not None:
                self._process.terminate()
        self._thread.join()

    def _is_hopeless(self) -> bool:
        return self._is_closed or bool(self._problem)

    def _error(self) -> EngineError:
        if self._is_closed:
            return EngineError(f"The process that {self._nullable_form} ended: the server is closing.", ["try again when it is there"])
        problem = self._problem or f"did not start within {START_LIMIT:.0f} s"
        return EngineError(
            f"The process that {self._nullable_form} {problem}. The server retries at least every {LONGEST_PAUSE:.0f} s.",
            ["try again in a moment", "see the output of the server"],
        )

    def _supervise(self) -> None:
        while (started := self._start()) is not None:
            process, control = started
            self._listen(control)
            self._note_end(status := process.wait())
            self._listener({"ended": status})
            control.close()
            with self._news:
                self._news.wait_for(lambda: self._is_closed, self._pause())

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket] | None:
        """Return the process and its connection, retrying until the machine can start it; `None` once closed."""
        while True:
            with self._news:
                if self._is_closed:
                    return None
                with suppress(OSError):
                    self._process, self._control = self._open()
                    return self._process, self._control
                self._failures += 1
                self._problem = "cannot be started: the machine is out of memory or processes"
                self._news.notify_all()
                self._news.wait_for(lambda: self._is_closed, self._pause())

    def _open(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        module, arguments = self._command
        with theirs:
            process = start_child(
                [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": python_path()},
            )
        return process, ours

    def _pause(self) -> float:
        return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._failures - 1, 20)))

    def _listen(self, control: socket.socket) -> None:
        with suppress(OSError), control.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if "ready" in message:
                    self._note_ready()
                self._listener(message)

    def _note_ready(self) -> None:
        with self._news:
            self._is_ready, self._ready_at, self._problem = True, time.monotonic(), ""
            self._news.notify_all()

    def _note_missing(self) -> None:
        self._is_ready, self._missing_since = False, time.monotonic()
        if self._missing_since - self._ready_at >= STEADY:
            self._failures = 0

    def _note_end(self, status: int) -> None:
        with self._news:
            if self._is_ready:
                self._note_missing()
            was_ready, self._ready_at = self._ready_at > 0, 0.0
            self._process, self._control = None, None
            self._failures += 1
            self._deaths += not self._is_closed
            if not was_ready and (status >= 0 or self._failures >= MOST_FAILURES):
                self._problem = f"ended {process_end_text(status)} before it was ready"
            self._news.notify_all()


class ForkServer(HealingChild):
    """Starts a child for each connection, which outlives it; `becomes` is the `module:function` of its children."""

    def __init__(self, becomes: str = "") -> None:
        self._statuses: dict[int, int] = {}  # exit codes of ended processes, until they are requested
        self._endings = threading.Condition()
        arguments = (becomes,) if becomes else ()
        super().__init__("starts boards", "workbench.app.processes.fork_server", *arguments, listen=self._note)

    def connect(self, *descriptors: int) -> Connection:
        """Return a connection to a new process, which also gets these descriptors. Raises `EngineError` if none starts."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self.send(theirs.fileno(), *descriptors)
        except BaseException:
            ours.close()
            raise
        return Connection(ours.detach())

    def status_of(self, pid: int, patience: float = 2.0) -> int | None:
        """Return the exit code of an ended process, negative for a signal; `None` if unknown after `patience` seconds."""
        with self._endings:
            self._endings.wait_for(lambda: pid in self._statuses or not self.is_ready(), patience)
            return self._statuses.pop(pid, None)

    def _note(self, message: Mapping[str, Any]) -> None:
        with self._endings:
            if "pid" in message:
                self._statuses[message["pid"]] = message["status"]
            self._endings.notify_all()
