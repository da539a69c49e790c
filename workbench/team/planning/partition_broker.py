"""The broker: the process that queries XLA's partitioner for all rooms.

Run as `python -m workbench.team.planning.partition_broker FD`. It receives a connection per room and owns the one warm
partitioner process. Like the server, it does not unpickle data of rooms. It ends with the server. It runs at low
priority, because its answers refine figures that are already shown, and need more CPU time than the edits themselves.
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
"""Niceness of this process; its partitioner process adds its own."""


OVERTAKEN = 10.0
"""Seconds that an outdated question may run: aborting it ends the process, which other rooms wait for too."""

LOOK = 1.0  # seconds between checks of the warm process


def main(descriptor: int) -> None:
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
    reported = 0
    while not threading.Event().wait(LOOK):
        if worker.deaths != reported:
            reported = worker.deaths
            _tell(control, {"deaths": reported})


def _tell(control: socket.socket, message: Mapping[str, Any]) -> None:
    with suppress(OSError):  # the parent has ended, which the next receive shows
        control.sendall(json.dumps(message).encode() + b"\n")


def _serve(connection: Connection, worker: WarmWorker) -> None:
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
