"""The server's side of a process that it started: JSON messages both ways, and how long it has been busy with the last one."""

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

ENDING = 5.0  # seconds that a process has to end by itself

Message = Mapping[str, Any]

_log = logging.getLogger(__name__)


class ProcessConnection:
    """Sends messages, each with a `number`, and `handle`s those that come, on one thread. The process answers `{"ready": pid}` at its start
    and `{"done": number}` when it has handled one.

    `handle_end` is called once, on that thread, when the connection has ended, or something came that is no message; `is_closed` says
    whether `close` was called before. `pid` is then that of the ended process. `end` ends the process, where that is not for the process
    to say: what is in a sandbox has another number outside, and may lie. A message has at most `most_bytes`.
    """

    def __init__(self, connection: Connection, end: Callable[[], None] | None = None, most_bytes: int | None = None) -> None:
        self.pid: int | None = None
        self.is_closed = False
        self._connection, self._end, self._most_bytes = connection, end, most_bytes
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._under_way: dict[int, float] = {}  # the times when unhandled messages were sent
        self._numbering, self._number = threading.Lock(), 0

    def start(self) -> None:
        """Begin to send and to listen."""
        for work in (self._listen, self._write):
            threading.Thread(target=work, daemon=True, name="board").start()

    def handle(self, message: dict[str, Any]) -> None:
        """Handle what the process sent."""
        raise NotImplementedError

    def handle_end(self) -> None:
        """The connection has ended."""
        raise NotImplementedError

    def send(self, message: Message) -> None:
        """Send a message without blocking: a busy process reads late."""
        with self._numbering:
            self._number += 1
            self._under_way[self._number] = time.monotonic()
            self._outbox.put(json.dumps({**message, "number": self._number}).encode())

    def busy_for(self) -> float:
        """Seconds since the oldest unhandled message was sent; 0 if there is none."""
        with suppress(ValueError, RuntimeError):
            return time.monotonic() - min(self._under_way.values())
        return 0.0

    def close(self) -> None:
        """End the process: in its own time, and after `ENDING` seconds by force."""
        self.is_closed = True
        self._outbox.put(None)
        timer = threading.Timer(ENDING, self.kill)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        """End the process now."""
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
                ours.shutdown(socket.SHUT_WR)  # nothing more is sent; what it still sends is read to its end

    def _listen(self) -> None:
        try:
            while True:
                self._receive(json.loads(self._connection.recv_bytes(self._most_bytes)))
        except (EOFError, OSError):
            pass
        except Exception:  # noqa: BLE001 - whatever came or failed: nobody hears this process any more
            _log.exception("A process is ended, for what it sent could not be handled")
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
