"""The server's side of a board in a process of its own: messages both ways, and how long it has been busy with the last one."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from workbench.app.page.window_channel import Show
from workbench.app.processes.job_queue_proxy import QueuePlaces
from workbench.app.processes.warm_partitioner_proxy import Questions
from workbench.app.runners.job_queue import JobQueue
from workbench.engine import WarmWorker

ENDING = 5.0  # seconds that a board has to end by itself

Message = Mapping[str, Any]


class RemoteBoard:
    """Sends the page's messages, and passes what the board shows to `show`.

    `prepared` is known once it is prepared: `{}`, or the `message` and the `ways_out` of what prevents the first plan from being made.
    `ended(board)` is called once, from a thread, when the process has ended without having been closed; `pid` is then that of the ended
    process.
    """

    def __init__(self, connection: Connection, queue: JobQueue, worker: WarmWorker) -> None:
        self.show: Show = _to_nobody
        self.ended: Callable[[RemoteBoard], None] = _nobody_asks
        self.pid: int | None = None
        self.is_closed = False
        self.prepared: Future[Mapping[str, Any]] = Future()
        self._connection, self._places, self._questions = connection, QueuePlaces(queue, self.send), Questions(worker, self.send)
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._under_way: dict[int, float] = {}  # the times when unhandled messages were sent
        self._number = 0
        for work in (self._listen, self._write):
            threading.Thread(target=work, daemon=True, name="board").start()

    def send(self, message: Message) -> None:
        """Send a message without blocking: a busy process reads late."""
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
        if self.pid is not None:
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
        with suppress(EOFError, OSError):
            while True:
                self._handle(json.loads(self._connection.recv_bytes()))
        self._connection.close()
        self._outbox.put(None)
        self._places.leave_all()
        self._questions.give_up()
        if not self.prepared.done():
            self.prepared.set_result({})
        if not self.is_closed:
            self.is_closed = True
            self.ended(self)

    def _handle(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            self.pid = message["ready"]
        elif "prepared" in message:
            self.prepared.set_result(message["prepared"])
        elif "done" in message:
            self._under_way.pop(message["done"], None)
        elif "enter" in message or "leave" in message:
            self._places.handle(message)
        elif "partition" in message or "overtaken" in message:
            self._questions.handle(message)
        else:
            self.show(message["show"], message["parameters"])


def _to_nobody(_target: str, _parameters: Mapping[str, Any]) -> None:
    """No visitor: a page that connects is sent everything anew."""


def _nobody_asks(_board: RemoteBoard) -> None:
    """It was never given to a visitor."""
