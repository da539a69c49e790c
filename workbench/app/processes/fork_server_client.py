"""The client of the fork server: connections to new board processes, and how those ended."""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

from workbench.core.import_path import python_path
from workbench.errors import EngineError

START_LIMIT = 120.0  # seconds for the fork server to import what boards need


class ForkServer:
    """Started at once; `connect` waits until it is ready. Raises `EngineError` where it cannot start. Closing it ends no child.

    `becomes` is the `module:function` that its children call with their descriptors, if they are not to be boards.
    """

    def __init__(self, becomes: str = "") -> None:
        self._control, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": python_path()}
        self._process = subprocess.Popen(  # noqa: S603 - runs only this interpreter and this package
            [sys.executable, "-P", "-m", "workbench.app.processes.fork_server", str(theirs.fileno()), *filter(None, [becomes])],
            pass_fds=(theirs.fileno(),),
            env=environment,
        )
        theirs.close()
        self._sending = threading.Lock()
        self._news = threading.Condition()
        self._is_ready, self._is_gone = False, False
        self._statuses: dict[int, int] = {}  # exit codes of ended processes, until they are requested
        threading.Thread(target=self._listen, daemon=True, name="fork server").start()

    def connect(self, *descriptors: int) -> Connection:
        """A connection to a new process, which gets copies of these descriptors besides."""
        with self._news:
            if not self._news.wait_for(lambda: self._is_ready or self._is_gone, START_LIMIT) or self._is_gone:
                raise _ended_error()
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._sending:
                socket.send_fds(self._control, [b"f"], [theirs.fileno(), *descriptors])
        except OSError:  # closed meanwhile, or its process has just ended
            ours.close()
            raise _ended_error() from None
        return Connection(ours.detach())

    def is_ready(self) -> bool:
        """Whether a process could be started now."""
        with self._news:
            return self._is_ready and not self._is_gone

    def status_of(self, pid: int, patience: float = 2.0) -> int | None:
        """The exit code of an ended process, negative for a signal; `None` if it is not known within so many seconds."""
        with self._news:
            self._news.wait_for(lambda: pid in self._statuses or self._is_gone, patience)
            return self._statuses.pop(pid, None)

    def close(self) -> None:
        """End it. Its children run until their own connections end."""
        self._control.close()
        self._process.terminate()
        self._process.wait()

    def _listen(self) -> None:
        with suppress(OSError), self._control.dup() as control, control.makefile("rb") as lines:
            for line in lines:
                self._note(json.loads(line))
        with self._news:
            self._is_gone = True
            self._news.notify_all()

    def _note(self, message: dict[str, int]) -> None:
        with self._news:
            self._is_ready |= "ready" in message
            if "pid" in message:
                self._statuses[message["pid"]] = message["status"]
            self._news.notify_all()


def _ended_error() -> EngineError:
    return EngineError("The process that starts boards ended.", ["start the server again", "look at what it printed"])
