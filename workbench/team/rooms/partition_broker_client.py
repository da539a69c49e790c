"""The server's side of the process that asks XLA's partitioner for all rooms: each room is connected to it, and to each that follows it."""

import select
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from workbench.app.processes.child_table import ChildState
from workbench.app.processes.healing_child import HealingChild

_MODULE = "workbench.team.planning.partition_broker"


class PartitionBroker:
    """`team.planning.partition_broker`, which is started again whenever it ends. Without one a room shows planned figures."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rooms: list[socket.socket] = []  # on which their processes are sent connections
        self._worker_deaths = 0
        self._child = HealingChild("asks XLA's partitioner", _MODULE, listen=self._note)

    @property
    def pid(self) -> int | None:
        """Of the process, if it runs."""
        return self._child.pid

    def state(self) -> ChildState:
        """How it is."""
        return self._child.state()

    def worker_state(self) -> ChildState:
        """How its warm process is, which is started with a question."""
        return ChildState(self._worker_deaths, 0.0)

    def attach(self, room: socket.socket) -> None:
        """Connect a room's process, which listens at the other end of a socket, now or as soon as there is a process to connect it to."""
        with self._lock:
            self._forget_ended()
            self._rooms.append(room)
            self._connect(room)

    def close(self) -> None:
        """End it."""
        self._child.close()
        with self._lock:
            for each in self._rooms:
                each.close()
            self._rooms.clear()

    def _note(self, message: Mapping[str, Any]) -> None:
        if "deaths" in message:
            self._worker_deaths += 1
        elif "ready" in message:
            with self._lock:
                self._forget_ended()
                for each in self._rooms:
                    self._connect(each)

    def _connect(self, room: socket.socket) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, suppress(OSError):
            if self._child.offer(ours.fileno()):
                socket.send_fds(room, [b"c"], [theirs.fileno()])

    def _forget_ended(self) -> None:
        """Close the sockets of processes that have ended."""
        hung_up = select.poll()
        for each in self._rooms:
            hung_up.register(each, 0)
        ended = {descriptor for descriptor, _ in hung_up.poll(0)}
        for each in self._rooms:
            if each.fileno() in ended:
                each.close()
        self._rooms = [each for each in self._rooms if each.fileno() >= 0]
