"""The event loop of a process that a server forked: JSON messages over a connection, in the form that `process_connection` has at its side.

It says `{"ready": pid}` at its start and `{"done": number}` when it has handled a message. It ends when the connection does: the kernel
would tell a fork of the end of the process that forked it, and not of its server's.
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
"""Seconds that such a process has to end by itself."""


class MessageLoop:
    """Messages are handled on the main thread, by `handle`; another one reads the connection, and has `handle_at_once` handle those that
    must not wait for the main thread. `handle_idle` is called when none has come for `idle_seconds`, `handle_end` at the end."""

    idle_seconds: float | None = None

    def __init__(self, connection: Connection) -> None:
        self._connection, self._sending = connection, threading.Lock()
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def handle(self, message: Message) -> None:
        """Handle a message, on the main thread."""
        raise NotImplementedError

    def handle_at_once(self, message: Message) -> bool:
        """Handle a message on the thread that reads, and say whether it is one of those."""
        raise NotImplementedError

    def handle_idle(self) -> None:
        """Nothing has come for a while."""

    def handle_end(self) -> None:
        """The connection has ended."""

    def serve(self) -> None:
        """Run until the connection ends."""
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
        with self._sending, suppress(OSError):  # nobody is there any more: the thread that reads ends the event loop
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
        end_when_left(self._connection)

    def _handle(self, message: Message) -> None:
        try:
            self.handle(message)
        finally:
            self.send({"done": message.get("number", 0)})


def end_when_left(connection: Connection) -> None:
    """Wait until nobody holds the other end of a connection, and end this process a moment later, whatever it is at.

    An end that sends nothing more still listens: a server that closes gracefully is not gone.
    """
    hung_up = select.poll()
    hung_up.register(connection, 0)
    hung_up.poll()
    time.sleep(GRACE)
    os._exit(1)
