"""The job queue of all boards of a server, which knows only positions and slots, so that processes can use a proxy."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Literal, Protocol

Kind = Literal["run", "compile"]

RUNS = 1  # two runs at once would slow each other's steps, and each has a copy of the state
COMPILATIONS = min(4, max(1, (os.cpu_count() or 2) // 2))  # a compiler uses several processors, and a gigabyte or more
RUN_LIMIT = 1800.0  # of a run or compilation, in seconds since the start of its worker process

_log = logging.getLogger(__name__)


class Ticket(Protocol):
    """A position in the queue, later a slot."""

    def leave(self) -> None:
        """Release the position or slot; may be called again."""
        ...


class Slots(Protocol):
    """A job queue."""

    def enter(self, kind: Kind, on_change: Callable[[int], None]) -> Ticket:
        """Join the queue; `on_change(ahead)` gets the jobs ahead, in order, on any thread; 0 means its turn."""
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
        """Release the position or slot, and let the jobs behind move up; may be called again."""
        with self._line.lock:
            self._left = True
        self._line.remove(self)

    def tell(self) -> None:
        """Report the latest position without holding a lock; a thread already reporting checks again afterwards."""
        with self._line.lock:
            if self._telling:
                return
            self._telling = True
        while (ahead := self._news()) is not None:
            try:
                self._on_change(ahead)
            except Exception:  # noqa: BLE001 - whoever it is, the others must have their turn
                _log.exception("A queued job could not be notified of its position and was removed")
                self.leave()
            except BaseException:  # an interrupt of the kernel
                self.leave()
                raise

    def _news(self) -> int | None:
        with self._line.lock:
            if self._left or self._reported == self.ahead:
                self._telling = False
                return None
            self._reported = self.ahead
            return self._reported


class _Line:
    """The jobs of one kind in order; the first `limit` have slots."""

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
        for job in moved:
            job.tell()

    def _move_up(self) -> list[QueuedJob]:
        """Fill the free slots; returns the jobs that may have to be notified."""
        concerned = list(self._waiting)
        while self._waiting and len(self._at_work) < self._limit:
            self._at_work.append(self._waiting.pop(0))
            self._at_work[-1].ahead = 0
        for before, place in enumerate(self._waiting):
            place.ahead = len(self._at_work) + before
        return concerned
