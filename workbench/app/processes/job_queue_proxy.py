"""Proxy of the server's job queue at both ends of a board's connection."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from workbench.app.runners.job_queue import JobQueue, Kind, Ticket

Send = Callable[[Mapping[str, Any]], None]


class RemoteSlots:
    """The server's queue as seen by a board's process."""

    def __init__(self, send: Send) -> None:
        self._send, self._lock = send, threading.Lock()
        self._waiting: dict[int, Callable[[int], None]] = {}
        self._number = 0

    def enter(self, kind: Kind, on_change: Callable[[int], None]) -> "RemoteTicket":
        """Join the queue, as in `Slots.enter`."""
        with self._lock:
            self._number += 1
            ticket = RemoteTicket(self._number, self._leave)
            self._waiting[ticket.number] = on_change
        self._send({"enter": kind, "ticket": ticket.number})
        return ticket

    def tell(self, number: int, ahead: int) -> None:
        with self._lock:
            on_change = self._waiting.get(number)
        if on_change:
            on_change(ahead)

    def _leave(self, number: int) -> None:
        with self._lock:
            is_waiting = self._waiting.pop(number, None)
        if is_waiting:
            self._send({"leave": number})


class RemoteTicket:
    """A position in the server's queue, later a slot."""

    def __init__(self, number: int, leave: Callable[[int], None]) -> None:
        self.number, self._leave = number, leave

    def leave(self) -> None:
        """Release it; may be called again."""
        self._leave(self.number)


class QueuePlaces:
    """The queue positions of one board in the server, released when its process ends."""

    def __init__(self, queue: JobQueue, send: Send) -> None:
        self._queue, self._send = queue, send
        self._tickets: dict[int, Ticket] = {}

    def handle(self, message: Mapping[str, Any]) -> None:
        """Handle `{"enter": kind, "ticket": n}` or `{"leave": n}`, on one thread."""
        if "leave" in message:
            if ticket := self._tickets.pop(message["leave"], None):
                ticket.leave()
            return
        number = message["ticket"]
        self._tickets[number] = self._queue.enter(message["enter"], lambda ahead: self._send({"ticket": number, "ahead": ahead}))

    def leave_all(self) -> None:
        while self._tickets:
            self._tickets.popitem()[1].leave()
