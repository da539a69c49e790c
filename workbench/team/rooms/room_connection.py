"""The server's side of a room's process: what it says is stored before it is passed on."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from workbench.app.processes.job_queue_proxy import QueuePlaces
from workbench.app.processes.process_connection import ProcessConnection
from workbench.app.runners.job_queue import JobQueue
from workbench.errors import WorkbenchError

MOST_BYTES = 64 << 20
"""Of one message. The largest are first boards, with a megabyte or two."""


@dataclass(frozen=True)
class StartedPlanner:
    """A process that was started, and the connection to it. `end` ends it, unless its own word of its number is taken for that;
    `reason(pid)` says what became of it, as the rest of a sentence: "ended with exit code 1"."""

    connection: Connection
    reason: Callable[[int | None], str]
    end: Callable[[], None] | None = None


class RoomListener(Protocol):
    """What a room does with what its process says. All are called on one thread, in the order in which it said it."""

    def keep(self, message: Mapping[str, Any]) -> None:
        """Store an entry of the log; what follows waits for it. If it raises, the process is ended."""

    def show(self, visitor: int, target: str, parameters: Mapping[str, Any]) -> None:
        """Show parameters on a visitor's page."""

    def save(self, visitor: int, message: Mapping[str, Any]) -> None:
        """Put a plan into the gallery."""

    def work(self, message: Mapping[str, Any]) -> None:
        """Submit a run as a job, or ask for one to be ended."""

    def hand_in(self, visitor: int, message: Mapping[str, Any]) -> None:
        """Keep an answer to the exercise of an assignment."""

    def show_card(self, message: Mapping[str, Any]) -> None:
        """Keep what the wall shows of somebody's work."""

    def see(self, visitor: int, view: Mapping[str, Any]) -> None:
        """What a visitor sees now."""

    def ended(self, connection: "RoomConnection") -> None:
        """The process has ended without having been closed."""


class RoomConnection(ProcessConnection):
    """`opened` is known once the log is replayed: `None`, or what went wrong; it is cancelled where the process ends before that. `failure`
    is why the log could not be stored."""

    def __init__(self, planner: StartedPlanner, queue: JobQueue, listener: RoomListener) -> None:
        super().__init__(planner.connection, planner.end, MOST_BYTES)
        self.planner = planner
        self.opened: Future[Mapping[str, Any] | None] = Future()
        self.failure: Exception | None = None
        self._listener, self._places = listener, QueuePlaces(queue, self.send)
        self.start()

    def handle(self, message: dict[str, Any]) -> None:
        if self.failure is not None:
            return  # nothing is shown that follows from what is not stored
        if "opened" in message:
            self.opened.set_result(message["opened"])
        elif "log" in message:
            self._keep(message)
        elif "show" in message:
            self._listener.show(message["visitor"], message["show"], message["parameters"])
        elif "view" in message:
            self._listener.see(message["visitor"], message["view"])
        elif "save" in message:
            self._listener.save(message["visitor"], message)
        elif "answered" in message:
            self._listener.hand_in(message["visitor"], message["answered"])
        elif "card" in message:
            self._listener.show_card(message)
        elif "run" in message or "cancel" in message:
            self._listener.work(message)
        elif "enter" in message or "leave" in message:
            self._places.handle(message)

    def handle_end(self) -> None:
        self._places.leave_all()
        self.opened.cancel()
        if not self.is_closed:
            self.is_closed = True
            self._listener.ended(self)

    def _keep(self, message: Mapping[str, Any]) -> None:
        try:
            self._listener.keep(message)
        except Exception as error:  # noqa: BLE001 - whatever failed, an edit that is not stored was not made
            self.failure = error
            self.kill()


class DescribeConnection(ProcessConnection):
    """A process that reads documents, one after another: of plans, and of exercises and answers. `died` is called if it ends without having
    been closed."""

    def __init__(self, planner: StartedPlanner, died: Callable[[], None]) -> None:
        super().__init__(planner.connection, planner.end, MOST_BYTES)
        self._planner, self._died, self._fate = planner, died, "is closed"
        self._answers: dict[int, Future[Mapping[str, Any]]] = {}
        self._asking = threading.Lock()
        self.start()

    def ask(self, question: Mapping[str, Any]) -> Future[Mapping[str, Any]]:
        """What it says of a document, a message as of `team.planning.room_process`; the future raises `WorkbenchError` for one that cannot
        be read."""
        answer: Future[Mapping[str, Any]] = Future()
        with self._asking:
            if self.is_closed:
                raise _ended_error(self._fate)
            self._answers[self._number + 1] = answer
            self.send(question)
        return answer

    def handle(self, message: dict[str, Any]) -> None:
        with self._asking:
            answer = self._answers.pop(message.get("answers", 0), None)
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        if "described" in message:
            answer.set_result(message["described"])
        else:
            answer.set_exception(WorkbenchError(message["problem"]["message"], message["problem"]["ways_out"]))

    def handle_end(self) -> None:
        if not self.is_closed:
            self._fate = self._planner.reason(self.pid)
            self._died()
        with self._asking:
            self.is_closed = True
            pending, self._answers = list(self._answers.values()), {}
        for each in pending:
            if each.set_running_or_notify_cancel():
                each.set_exception(_ended_error(self._fate))


def _ended_error(fate: str) -> WorkbenchError:
    ways_out = ["try once more", "open the plan with `workbench serve` to see more"]
    return WorkbenchError(f"The process that reads plan documents {fate}.", ways_out)
