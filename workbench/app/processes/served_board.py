"""One visitor's board over its lifetime: its page may disconnect and return, its process may die and be replaced."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any

from workbench.app.page.part_changes import Show, Target
from workbench.app.page.visitor_screen import Screen
from workbench.app.processes.job_queue_proxy import QueuePlaces
from workbench.app.processes.process_connection import Message, ProcessConnection
from workbench.app.processes.warm_partitioner_proxy import Questions
from workbench.app.runners.job_queue import JobQueue
from workbench.engine import WarmWorker
from workbench.errors import EngineError


class RemoteBoard(ProcessConnection):
    """Sends the page's messages, and passes the board's state to `show`.

    `prepared` resolves to `{}`, or to the `message` and `ways_out` of the error that prevents the first plan.
    `ended(board)` is called once, from a thread, when the process ends unexpectedly.
    """

    def __init__(self, connection: Connection, queue: JobQueue, worker: WarmWorker) -> None:
        super().__init__(connection)
        self.show: Show = lambda _target, _parameters: None  # no visitor: a page that connects gets the whole state
        self.ended: Callable[[RemoteBoard], None] = lambda _board: None  # not assigned to a visitor
        self.prepared: Future[Mapping[str, Any]] = Future()
        self._places, self._questions = QueuePlaces(queue, self.send), Questions(worker, self.send)
        self.start()

    def handle(self, message: dict[str, Any]) -> None:
        if "prepared" in message:
            self.prepared.set_result(message["prepared"])
        elif "enter" in message or "leave" in message:
            self._places.handle(message)
        elif "partition" in message or "overtaken" in message:
            self._questions.handle(message)
        else:
            self.show(message["show"], message["parameters"])

    def handle_end(self) -> None:
        self._places.leave_all()
        self._questions.give_up()
        if not self.prepared.done():
            self.prepared.set_result({})
        if not self.is_closed:
            self.is_closed = True
            self.ended(self)


PATIENCE, LIMIT = 1.0, 120.0
"""Seconds until a visitor sees that the board is busy, and until its work is stopped."""
MOST_DEATHS, WITHIN = 3, 60.0
"""A board that dies this often within `WITHIN` seconds is not restarted."""

OPENING = "Opening the board"
WORK_NAMES = {
    "open": "Opening the tab",
    "picture": "Drawing the chart",
    "preview": "Planning the preview",
    "find": "Searching for plans",
    "why": "Looking for the reason",
    "open_file": "Opening the file",
    "hardware": "Changing the hardware",
    "recipe": "Applying the recipe",
    "traced_as": "Tracing the program again",
    "undo": "Going back",
    "redo": "Going forward",
    "go": "Going to the plan",
    "export": "Writing the export",
    "save": "Saving",
}
"""Activity of a board, by gesture verb."""

_STOPPED = "You stopped its current task"
_TOO_SLOW = f"Its current task took longer than {LIMIT:.0f} s and was stopped"


def describe_work(gesture: Any) -> str:
    """Describe a board's activity for a waiting visitor."""
    verb = gesture.get("verb") if isinstance(gesture, Mapping) else None
    return WORK_NAMES.get(verb, "Updating the board") if isinstance(verb, str) else OPENING


class ServedBoard:
    """A board by its `name`, an unguessable id; `start()` returns a process, `reason_of` describes its end."""

    def __init__(
        self, name: str, query: Mapping[str, str], screen: Screen, start: Callable[[], RemoteBoard], reason_of: Callable[[RemoteBoard], str]
    ) -> None:
        self.name = name
        self.screen: Screen | None = None
        self.left_at: float | None = None
        self.is_closed = False
        self._query, self._start, self._reason_of = dict(query), start, reason_of
        self._lock = threading.RLock()
        self._remote: RemoteBoard | None = None
        self._waiting: list[Message] = []  # queued until there is a process
        self._deaths: list[float] = []
        self._stopped = ""
        self._doing = OPENING
        self._show_on(screen)
        self._begin({})

    def is_watched(self) -> bool:
        return self.screen is not None and self.screen.is_watched()

    def attach(self, screen: Screen) -> None:
        """Show the board on this page; an earlier page gets no more messages."""
        with self._lock:
            self._show_on(screen)
            self._send({"again": True})

    def leave(self, screen: Screen) -> None:
        with self._lock:
            if self.screen is screen:
                self.screen, self.left_at = None, time.monotonic()

    def hear(self, message: Message) -> None:
        if message.get("heard", {}).get("kind") == "stop":
            self._stop(_STOPPED)
        else:
            if "gesture" in message:
                self._doing = describe_work(message["gesture"])
            self._send(message)

    def look(self) -> None:
        """Show the visitor that the board is busy, and stop it at the limit."""
        seconds = self._remote.busy_for() if self._remote else 0.0
        if seconds > LIMIT:
            self._stop(_TOO_SLOW)
        elif self.screen:
            self.screen.show_busy(seconds if seconds > PATIENCE else 0.0, self._doing)

    def close(self) -> None:
        with self._lock:
            self.is_closed, self.screen = True, None
            if self._remote:
                self._remote.close()

    def _show_on(self, screen: Screen) -> None:
        if self.screen:
            self.screen.hear = lambda _message: None  # another page shows the board now
        self.screen, self.left_at = screen, None
        screen.hear = self.hear

    def _show(self, target: Target, parameters: Mapping[str, Any]) -> None:
        self.name = parameters.get("board", self.name) if target == "bridge" else self.name
        if self.screen:
            self.screen.show(target, parameters)

    def _send(self, message: Message) -> None:
        with self._lock:
            if self._remote:
                self._remote.send(message)
            else:
                self._waiting.append(message)

    def _stop(self, reason: str) -> None:
        self._stopped = reason
        if self._remote:
            self._remote.kill()

    def _begin(self, after: Mapping[str, Any]) -> None:
        """Open the board in a thread, since a server's first process takes a moment; `after` is a notice."""
        threading.Thread(target=self._open, args=(after,), daemon=True, name="opening").start()

    def _open(self, after: Mapping[str, Any]) -> None:
        try:
            remote = self._start()
        except (EngineError, OSError) as error:
            self._fail(f"The board could not be started. {error}")
            return
        with self._lock:
            if self.is_closed:
                remote.close()
                return
            self._remote, waiting, self._waiting = remote, self._waiting, []
            remote.ended = self._handle_end
            remote.show = self._show
            remote.send({"open": {"asked": self._query, "name": self.name, **after}})
            for message in waiting:
                remote.send(message)
        if remote.is_closed:
            self._handle_end(remote)

    def _handle_end(self, remote: RemoteBoard) -> None:
        """Resume the board from its journal in another process, and report what happened."""
        with self._lock:
            if self._remote is not remote:  # it ended while it was assigned, which was reported twice
                return
            self._remote = None
        reason = self._stopped or self._reason_of(remote)
        with self._lock:
            now, self._stopped = time.monotonic(), ""
            self._deaths = [*(death for death in self._deaths if now - death < WITHIN), now]
            if self.screen:
                self.screen.show_busy(0.0)
            if self.is_closed or self.screen is None:
                self.is_closed = True
            elif len(self._deaths) >= MOST_DEATHS:
                self._fail(f"{reason}, and so it did {MOST_DEATHS} times within {WITHIN:.0f} s. Reload the page to try again.")
            else:
                self._begin({"died": reason})

    def _fail(self, text: str) -> None:
        with self._lock:
            self.is_closed = True
            if self.screen:
                self.screen.show("board", {"closed": True})
                self.screen.show("bridge", {"failure": {"text": text, "by_link": False}})
