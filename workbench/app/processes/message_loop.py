"""The event loop of a forked process, the peer of `process_connection`.

It sends `{"ready": pid}`, and `{"done": number}` for each handled message. It ends with the connection, because the
kernel reports to a fork only the end of the process that forked it, not that of its server.
"""

import json
import os
import queue
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection

from workbench.app.processes.process_connection import Message

GRACE = 1.0
"""Seconds for such a process to end by itself."""


class MessageLoop:
    """Handles messages on the main thread, urgent ones on the reading thread by `handle_at_once`.

    `handle_idle` is called after `idle_seconds` without a message, `handle_end` at the end.
    """

    idle_seconds: float | None = None

    def __init__(self, connection: Connection) -> None:
        self._connection, self._sending = connection, threading.Lock()
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def handle(self, message: Message) -> None:
        """Handle a message on the main thread."""
        raise NotImplementedError

    def handle_at_once(self, message: Message) -> bool:
        """Handle an urgent message on the reading thread, and return whether it was one."""
        raise NotImplementedError

    def handle_idle(self) -> None:
        """Hook for idle time."""

    def handle_end(self) -> None:
        """Hook for the end of the connection."""

    def serve(self) -> None:
        self.send({"ready": os.getpid()})
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            try:
                work = self._inbox.get(timeout=self.idle_seconds)
            except queue.Empty:
                work = self.handle_idle
            if work is None:
                break
            work()
        self.handle_end()

    def send(self, message: Message) -> None:
        """Send a message, from any thread."""
        content = json.dumps(message).encode()
        with self._sending, suppress(OSError):  # the peer is gone: the reading thread ends the event loop
            self._connection.send_bytes(content)

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                message = json.loads(self._connection.recv_bytes())
                if self.handle_at_once(message):
                    self.send({"done": message["number"]})
                else:
                    self._inbox.put(lambda message=message: self._handle(message))  # type: ignore[misc]
        self._inbox.put(None)
        exit_with_peer(self._connection)

    def _handle(self, message: Message) -> None:
        try:
            self.handle(message)
        finally:
            self.send({"done": message.get("number", 0)})


def exit_with_peer(connection: Connection) -> None:
    """Wait until the other end of a connection is closed, not only half-closed, then end this process."""
    hung_up = select.poll()
    hung_up.register(connection, 0)
    hung_up.poll()
    time.sleep(GRACE)
    os._exit(1)
