"""A room's client of the partition broker; pending questions are repeated when a broker is replaced."""

import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from workbench.app.processes.warm_partitioner_proxy import RemoteWorker

PATIENCE = 30.0
"""Seconds that pending questions wait for another broker."""

_ENDED = f"The process that runs XLA's partitioner ended and was not replaced within {PATIENCE:.0f} s: figures stay planned until then."

_ALONE = "XLA's partitioner is not available for this room: figures stay planned."


class BrokerClient:
    """Queries the broker over the latest connection received on a socket; the room's boards use `worker`."""

    def __init__(self, descriptor: int) -> None:
        self.worker = RemoteWorker(self._send)
        self._control = socket.socket(fileno=descriptor)
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._giving_up: threading.Timer | None = None
        self._is_alone = False  # whether the server has stopped sending connections
        threading.Thread(target=self._accept, daemon=True, name="broker").start()

    def _accept(self) -> None:
        with suppress(OSError):
            while descriptors := socket.recv_fds(self._control, 1, 1)[1]:
                connection = Connection(descriptors[0])
                with self._lock:
                    self._connection = connection
                    self._keep_waiting()
                threading.Thread(target=self._listen, args=(connection,), daemon=True, name="broker").start()
                self.worker.ask_again()
        self._is_alone = True
        self.worker.give_up(_ALONE)

    def _listen(self, connection: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                message = json.loads(connection.recv_bytes())
                self.worker.tell(message["partition"], message["answer"])
        with self._lock:
            if self._connection is connection:
                self._connection = None
                self._give_up_later()
        connection.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            try:
                if self._connection is not None:
                    self._connection.send_bytes(json.dumps(message).encode())
                    return
            except OSError:
                self._connection = None
            self._give_up_later()
        if self._is_alone:
            self.worker.give_up(_ALONE)

    def _give_up_later(self) -> None:
        if self._giving_up is None:
            self._giving_up = threading.Timer(PATIENCE, self._give_up)
            self._giving_up.daemon = True
            self._giving_up.start()

    def _keep_waiting(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        with self._lock:
            self._giving_up = None
        self.worker.give_up(_ENDED)
