"""The process that asks XLA's partitioner for all rooms: `python -m workbench.team.planning.partition_broker FD`.

It is sent a connection for each room, and has the one warm process of the partitioner. Like the server it does not unpickle what a room
sent. It ends when the server does. What people wait for goes first: its answers settle figures that are shown already, and take more of the
machine than the edits themselves.
"""

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from workbench.app.processes.warm_partitioner_proxy import Questions
from workbench.core.child_process import end_with_parent, raise_niceness
from workbench.engine import WarmWorker, shared_worker
from workbench.engine.partitioner.partitioner_process import WHEN_IDLE

BEHIND = 5
"""Niceness of it, and of the process that it starts, which adds its own."""


OVERTAKEN = 10.0
"""Seconds that a question may take although a newer one waits: to end it ends the process, which the other rooms wait for too."""

LOOK = 1.0  # seconds between two looks at whether the warm process has died


def main(descriptor: int) -> None:
    """Serve every connection that is sent on this socket, each on a thread of its own."""
    end_with_parent(descriptor)
    raise_niceness(BEHIND)
    os.environ[WHEN_IDLE] = "1"
    control = socket.socket(fileno=descriptor)
    worker = shared_worker()
    _tell(control, {"ready": True})
    threading.Thread(target=_tell_deaths, args=(control, worker), daemon=True, name="deaths").start()
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not descriptors:
            return
        connection = Connection(descriptors[0])
        threading.Thread(target=_serve, args=(connection, worker), daemon=True, name="room").start()


def _tell_deaths(control: socket.socket, worker: WarmWorker) -> None:
    """Tell the server how often the warm process died."""
    reported = 0
    while not threading.Event().wait(LOOK):
        if worker.deaths != reported:
            reported = worker.deaths
            _tell(control, {"deaths": reported})


def _tell(control: socket.socket, message: Mapping[str, Any]) -> None:
    with suppress(OSError):  # our parent is gone: what is received next says so
        control.sendall(json.dumps(message).encode() + b"\n")


def _serve(connection: Connection, worker: WarmWorker) -> None:
    """Answer the questions of one room, until it ends."""
    lock = threading.Lock()

    def send(message: Mapping[str, Any]) -> None:
        with lock, suppress(OSError):
            connection.send_bytes(json.dumps(message).encode())

    questions = Questions(worker, send, OVERTAKEN)
    with suppress(EOFError, OSError):
        while True:
            questions.handle(json.loads(connection.recv_bytes()))
    questions.give_up()
    connection.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
