"""The server's side of a process connection: JSON messages both ways, and how long the process has been busy."""

import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

ENDING = 5.0  # seconds for a process to end by itself

Message = Mapping[str, Any]

_log = logging.getLogger(__name__)


class ProcessConnection:
    """Sends numbered messages, and handles incoming ones on one thread.

    The process sends `{"ready": pid}`, and `{"done": number}` for each handled message. `handle_end` is called once, on
    that thread, when the connection ends or an invalid message comes; `is_closed` tells whether `close` was called
    before. `end` kills the process where its own `pid` cannot be trusted, as in a sandbox. A message has at most
    `most_bytes`.
    """

    def __init__(self, connection: Connection, end: Callable[[], None] | None = None, most_bytes: int | None = None) -> None:
        self.pid: int | None = None
        self.is_closed = False
        self._connection, self._end, self._most_bytes = connection, end, most_bytes
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._under_way: dict[int, float] = {}  # the times when unhandled messages were sent
        self._numbering, self._number = threading.Lock(), 0

    def start(self) -> None:
        for work in (self._listen, self._write):
            threading.Thread(target=work, daemon=True, name="board").start()

    def handle(self, message: dict[str, Any]) -> None:
        """Handle a message of the process."""
        raise NotImplementedError

    def handle_end(self) -> None:
        """Handle the end of the connection."""
        raise NotImplementedError

    def send(self, message: Message) -> None:
        """Send a message without blocking, since a busy process reads late."""
        with self._numbering:
            self._number += 1
            self._under_way[self._number] = time.monotonic()
            self._outbox.put(json.dumps({**message, "number": self._number}).encode())

    def busy_for(self) -> float:
        """Return seconds since the oldest unhandled message was sent; 0 without one."""
        with suppress(ValueError, RuntimeError):
            return time.monotonic() - min(self._under_way.values())
        return 0.0

    def close(self) -> None:
        """Let the process end, and kill it after `ENDING` seconds."""
        self.is_closed = True
        self._outbox.put(None)
        timer = threading.Timer(ENDING, self.kill)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        if self._end is not None:
            self._end()
        elif self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _write(self) -> None:
        with suppress(OSError):  # it died: the listener reports that
            while (content := self._outbox.get()) is not None:
                self._connection.send_bytes(content)
        if self.is_closed:
            with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as ours:
                ours.shutdown(socket.SHUT_WR)  # half-close: remaining messages are still read

    def _listen(self) -> None:
        try:
            while True:
                self._receive(json.loads(self._connection.recv_bytes(self._most_bytes)))
        except (EOFError, OSError):
            pass
        except Exception:  # noqa: BLE001 - whatever came or failed: nobody hears this process any more
            _log.exception("Ending a process whose message could not be handled")
            self.kill()
        self._connection.close()
        self._outbox.put(None)
        self.handle_end()

    def _receive(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            self.pid = message["ready"]
        elif "done" in message:
            self._under_way.pop(message["done"], None)
        else:
            self.handle(message)
