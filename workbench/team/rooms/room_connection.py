"""The server's side of a room's process: what it says is stored before it is passed on."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from workbench.app.processes.job_queue_proxy import QueuePlaces
from workbench.app.processes.process_connection import ProcessConnection
from workbench.app.runners.job_queue import JobQueue
from workbench.errors import WorkbenchError

MOST_BYTES = 64 << 20
"""Of one message. The largest are first boards, with a megabyte or two."""
Hear = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class StartedPlanner:
    """A process that was started, and the connection to it. `end` ends it, unless its own word of its number is taken for that;
    `reason(pid)` says what became of it, as the rest of a sentence: "ended with exit code 1"."""

    connection: Connection
    reason: Callable[[int | None], str]
    end: Callable[[], None] | None = None


class RoomConnection(ProcessConnection):
    """`keep` stores an entry of the log: what follows waits for it, and if it raises, the process is ended, and `failure` is why. `hear`
    says who handles what else the process says, by a key of the message. `ended` is called when it has ended without having been closed.
    All are called on one thread, in the order in which the process said it.

    `opened` is known once the log is replayed: `None`, or what went wrong; it is cancelled where the process ends before that.
    """

    def __init__(
        self, planner: StartedPlanner, queue: JobQueue, keep: Hear, hear: Mapping[str, Hear], ended: Callable[["RoomConnection"], None]
    ) -> None:
        super().__init__(planner.connection, planner.end, MOST_BYTES)
        self.planner = planner
        self.opened: Future[Mapping[str, Any] | None] = Future()
        self.failure: Exception | None = None
        self._keep, self._hear, self._ended, self._places = keep, hear, ended, QueuePlaces(queue, self.send)
        self.start()

    def handle(self, message: dict[str, Any]) -> None:
        if self.failure is not None:
            return  # nothing is shown that follows from what is not stored
        if "opened" in message:
            self.opened.set_result(message["opened"])
        elif "log" in message:
            self._store(message)
        elif (key := next((each for each in self._hear if each in message), None)) is not None:
            self._hear[key](message)
        elif "enter" in message or "leave" in message:
            self._places.handle(message)

    def handle_end(self) -> None:
        self._places.leave_all()
        self.opened.cancel()
        if not self.is_closed:
            self.is_closed = True
            self._ended(self)

    def _store(self, message: Mapping[str, Any]) -> None:
        try:
            self._keep(message)
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
