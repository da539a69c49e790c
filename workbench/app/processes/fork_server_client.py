"""The client of the fork server: connections to new board processes, and how those ended."""

import socket
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from workbench.app.processes.child_table import ChildState
from workbench.app.processes.healing_child import HealingChild


class ForkServer:
    """Started at once, and again whenever it ends; `connect` waits until it is ready. Raises `EngineError` where it does not start. Its
    children outlive it.

    `becomes` is the `module:function` that its children call with their descriptors, if they are not to be boards.
    """

    def __init__(self, becomes: str = "") -> None:
        self._news = threading.Condition()
        self._statuses: dict[int, int] = {}  # exit codes of ended processes, until they are requested
        arguments = (becomes,) if becomes else ()
        self._child = HealingChild("starts boards", "workbench.app.processes.fork_server", *arguments, listen=self._note)

    @property
    def pid(self) -> int | None:
        """Of the fork server itself, if it runs."""
        return self._child.pid

    def connect(self, *descriptors: int) -> Connection:
        """A connection to a new process, which gets copies of these descriptors besides."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._child.send(theirs.fileno(), *descriptors)
        except BaseException:
            ours.close()
            raise
        return Connection(ours.detach())

    def is_ready(self) -> bool:
        """Whether a process could be started now."""
        return self._child.is_ready()

    def state(self) -> ChildState:
        """How it is."""
        return self._child.state()

    def status_of(self, pid: int, patience: float = 2.0) -> int | None:
        """The exit code of an ended process, negative for a signal; `None` if it is not known within so many seconds."""
        with self._news:
            self._news.wait_for(lambda: pid in self._statuses or not self.is_ready(), patience)
            return self._statuses.pop(pid, None)

    def close(self) -> None:
        """End it. Its children run until their own connections end."""
        self._child.close()

    def _note(self, message: Mapping[str, Any]) -> None:
        with self._news:
            if "pid" in message:
                self._statuses[message["pid"]] = message["status"]
            self._news.notify_all()
