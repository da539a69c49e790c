"""The queue of the runs and compilations of all boards of a server: a limited number at once, the others wait in order.

It knows only places and slots, no plan and no runner; so boards in other processes can queue too, through a proxy.
"""

import logging
import os
import threading
from collections.abc import Callable
from typing import Literal, Protocol

Kind = Literal["run", "compile"]

RUNS = 1  # a run measures the attached devices: two at once would slow each other's steps, and each has its own copy of the state
COMPILATIONS = min(4, max(1, (os.cpu_count() or 2) // 2))  # a compiler uses several processors, and a gigabyte or more

_log = logging.getLogger(__name__)


class Ticket(Protocol):
    """A place in the queue, or the slot that it has become."""

    def leave(self) -> None:
        """Give the place or the slot back; may be called again."""
        ...


class Slots(Protocol):
    """Where jobs wait for their turn."""

    def enter(self, kind: Kind, on_change: Callable[[int], None]) -> Ticket:
        """Join the queue. `on_change(ahead)` is called with how many jobs are ahead, whenever that changes; 0 means that it is its turn.

        It may be called from any thread, within `enter` itself too, one call at a time and never with an older number after a newer one.
        """
        ...


class JobQueue:
    """A limited number of runs and of compilations at a time, first come first served. Thread-safe."""

    def __init__(self, runs: int = RUNS, compilations: int = COMPILATIONS) -> None:
        self._lines: dict[Kind, _Line] = {"run": _Line(runs), "compile": _Line(compilations)}

    def enter(self, kind: Kind, on_change: Callable[[int], None]) -> "QueuedJob":
        """Join the queue as in `Slots.enter`; a job whose callback raises is removed."""
        return self._lines[kind].enter(on_change)


class QueuedJob:
    """A job in a line; `ahead` is 0 from its turn on."""

    def __init__(self, line: "_Line", on_change: Callable[[int], None]) -> None:
        self._line, self._on_change = line, on_change
        self.ahead = 0
        self._reported: int | None = None
        self._telling, self._left = False, False

    def leave(self) -> None:
        """Give the place or the slot back, and let those behind move up; may be called again."""
        with self._line.lock:
            self._left = True
        self._line.remove(self)

    def tell(self) -> None:
        """Call back with the latest number, without holding a lock; if another thread is doing that, it checks again afterwards."""
        with self._line.lock:
            if self._telling:
                return
            self._telling = True
        while (ahead := self._news()) is not None:
            try:
                self._on_change(ahead)
            except Exception:  # noqa: BLE001 - whoever it is, the others must have their turn
                _log.exception("A job in the queue cannot be notified of its position, and leaves it")
                self.leave()
            except BaseException:  # an interrupt of the kernel
                self.leave()
                raise

    def _news(self) -> int | None:
        """The number still to be reported; `None` if there is none."""
        with self._line.lock:
            if self._left or self._reported == self.ahead:
                self._telling = False
                return None
            self._reported = self.ahead
            return self._reported


class _Line:
    """The jobs of one kind in the order they came; the first `limit` of them have slots."""

    def __init__(self, limit: int) -> None:
        self._limit = max(1, limit)
        self.lock = threading.Lock()
        self._at_work: list[QueuedJob] = []
        self._waiting: list[QueuedJob] = []

    def enter(self, on_change: Callable[[int], None]) -> QueuedJob:
        place = QueuedJob(self, on_change)
        with self.lock:
            self._waiting.append(place)
            self._move_up()
        place.tell()
        return place

    def remove(self, place: QueuedJob) -> None:
        with self.lock:
            for line in (self._at_work, self._waiting):
                if place in line:
                    line.remove(place)
            moved = self._move_up()
        for each in moved:
            each.tell()

    def _move_up(self) -> list[QueuedJob]:
        """Fill the free slots and recount; returns the jobs that may have to be notified."""
        concerned = list(self._waiting)
        while self._waiting and len(self._at_work) < self._limit:
            self._at_work.append(self._waiting.pop(0))
            self._at_work[-1].ahead = 0
        for before, place in enumerate(self._waiting):
            place.ahead = len(self._at_work) + before
        return concerned
