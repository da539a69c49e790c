"""The server's side of a board in a process of its own."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any

from workbench.app.page.window_channel import Show
from workbench.app.processes.job_queue_proxy import QueuePlaces
from workbench.app.processes.process_connection import ProcessConnection
from workbench.app.processes.warm_partitioner_proxy import Questions
from workbench.app.runners.job_queue import JobQueue
from workbench.engine import WarmWorker


class RemoteBoard(ProcessConnection):
    """Sends the page's messages, and passes what the board shows to `show`.

    `prepared` is known once it is prepared: `{}`, or the `message` and the `ways_out` of what prevents the first plan from being made.
    `ended(board)` is called once, from a thread, when the process has ended without having been closed; `pid` is then that of the ended
    process.
    """

    def __init__(self, connection: Connection, queue: JobQueue, worker: WarmWorker) -> None:
        super().__init__(connection)
        self.show: Show = _to_nobody
        self.ended: Callable[[RemoteBoard], None] = _nobody_asks
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


def _to_nobody(_target: str, _parameters: Mapping[str, Any]) -> None:
    """No visitor: a page that connects is sent everything anew."""


def _nobody_asks(_board: RemoteBoard) -> None:
    """It was never given to a visitor."""
