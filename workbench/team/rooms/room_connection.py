"""The server's connections to planner processes. Log entries are stored before later messages are passed on."""

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
"""Maximum size of a message; the largest are initial boards of one to two megabytes."""
Hear = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class StartedPlanner:
    """A process. Without `end`, its reported ID is killed. `reason(pid)` is such as "ended with exit code 1"."""

    connection: Connection
    reason: Callable[[int | None], str]
    end: Callable[[], None] | None = None


class RoomConnection(ProcessConnection):
    """The connection to a room's process.

    `keep` stores a log entry before later messages are handled; if it raises, the process is killed, with the error in
    `failure`. `hear` maps message keys to handlers. `ended` is called if the process ends unexpectedly. All run on one
    thread, in message order.

    `opened` resolves when the log has been replayed, to `None` or the problem; it is cancelled if the process ends
    before.
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
            return  # effects of an entry that was not stored must not be shown
        if "opened" in message:
            self.opened.set_result(message["opened"])
        elif "log" in message:
            self._store(message)
        elif (key := next((name for name in self._hear if name in message), None)) is not None:
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
        except Exception as error:  # noqa: BLE001 - an edit that is not stored must not take effect
            self.failure = error
            self.kill()


class DescribeConnection(ProcessConnection):
    """A connection to a process that reads documents in order. `died` is called if it ends unexpectedly."""

    def __init__(self, planner: StartedPlanner, died: Callable[[], None]) -> None:
        super().__init__(planner.connection, planner.end, MOST_BYTES)
        self._planner, self._died, self._fate = planner, died, "is closed"
        self._answers: dict[int, Future[Mapping[str, Any]]] = {}
        self._asking = threading.Lock()
        self.start()

    def ask(self, question: Mapping[str, Any]) -> Future[Mapping[str, Any]]:
        """Send a question of `team.planning.room_process`; the future raises `WorkbenchError`."""
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
        for future in pending:
            if future.set_running_or_notify_cancel():
                future.set_exception(_ended_error(self._fate))


def _ended_error(fate: str) -> WorkbenchError:
    ways_out = ["try once more", "open the plan with `workbench serve` to see more"]
    return WorkbenchError(f"The process that reads plan documents {fate}.", ways_out)
