"""The server's one warm process for XLA's partitioner, at both ends of a board's connection.

A board's process sends `{"partition": n, "name": of the plan, "question": packed}` and `{"overtaken": n}`, and receives `{"partition": n,
"answer": packed}`. The server passes the question on as it came: it does not unpickle what a board sent.
"""

import base64
import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from typing import Any

from workbench.engine import WarmWorker
from workbench.engine.partitioner import pack_question
from workbench.errors import PartitionError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.partitioned import Partitioned
from workbench.session.figure_tiers import MOST_QUESTION_SECONDS

Send = Callable[[Mapping[str, Any]], None]


class RemoteWorker:
    """The client in a board's process of the server's warm process.

    Futures are resolved on a separate thread: their callbacks may write to the disk, and the connection is read meanwhile.
    """

    def __init__(self, send: Send) -> None:
        self._send, self._lock = send, threading.Lock()
        self._pending: dict[int, tuple[Future[Partitioned], Mapping[str, Any]]] = {}
        self._answers: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self._number = 0

    def ask(self, plan: Plan, target: Hardware | str = "") -> Future[Partitioned]:
        """As `WarmWorker.ask`."""
        answer: Future[Partitioned] = Future()
        with self._lock:
            if not self._number:
                threading.Thread(target=self._give_out, daemon=True, name="partitioner").start()
            self._number += 1
            number = self._number
        question = base64.b64encode(pack_question(plan, target)).decode()
        message = {"partition": number, "name": plan.name, "question": question}
        with self._lock:
            self._pending[number] = answer, message
        self._send(message)
        return answer

    def cancel(self, answer: Future[Partitioned]) -> None:
        """Nobody waits for it any more; the server decides whether the question goes on."""
        with self._lock:
            number = next((each for each, (pending, _) in self._pending.items() if pending is answer), None)
            self._pending.pop(number or 0, None)
        answer.cancel()
        if number is not None:
            self._send({"overtaken": number})

    def tell(self, number: int, answer: str) -> None:
        """Handle the server's message. Returns at once."""
        self._answers.put((number, answer))

    def ask_again(self) -> None:
        """Whoever was asked is another now: send the questions that are pending once more."""
        with self._lock:
            messages = [message for _, message in self._pending.values()]
        for each in messages:
            self._send(each)

    def give_up(self, reason: str) -> None:
        """Nobody answers what is pending."""
        with self._lock:
            pending, self._pending = list(self._pending.values()), {}
        for each, _ in pending:
            if each.set_running_or_notify_cancel():
                each.set_exception(PartitionError(reason))

    def _give_out(self) -> None:
        while True:
            number, packed = self._answers.get()
            with self._lock:
                answer, _ = self._pending.pop(number, (None, None))
            if answer is None:
                continue
            kind, *rest = pickle.loads(base64.b64decode(packed))  # noqa: S301 - our own server wrote it
            if not answer.set_running_or_notify_cancel():
                continue
            if kind == "answer":
                answer.set_result(rest[0])
            else:
                answer.set_exception(PartitionError(*rest))


class Questions:
    """The pending questions of one board, in the server; they are cancelled when its process ends. One that is overtaken may go on until so
    many seconds were spent on it."""

    def __init__(self, worker: WarmWorker, send: Send, after: float = MOST_QUESTION_SECONDS) -> None:
        self._worker, self._send, self._after = worker, send, after
        self._pending: dict[int, Future[Partitioned]] = {}

    def handle(self, message: Mapping[str, Any]) -> None:
        """Handle `{"partition": n, ...}` or `{"overtaken": n}`, on one thread."""
        if "overtaken" in message:
            if (answer := self._pending.pop(message["overtaken"], None)) is not None:
                self._worker.cancel(answer, after=self._after)
            return
        number = message["partition"]
        self._pending = {each: pending for each, pending in self._pending.items() if not pending.done()}
        self._pending[number] = answer = self._worker.ask_packed(base64.b64decode(message["question"]), message["name"])
        answer.add_done_callback(lambda done: self._pass_on(number, done))

    def give_up(self) -> None:
        """Cancel all: the process has ended."""
        while self._pending:
            self._worker.cancel(self._pending.popitem()[1], after=self._after)

    def _pass_on(self, number: int, done: Future[Partitioned]) -> None:
        self._send({"partition": number, "answer": base64.b64encode(pickle.dumps(_outcome(done))).decode()})


def _outcome(done: Future[Partitioned]) -> tuple[Any, ...]:
    try:
        return "answer", done.result()
    except PartitionError as error:
        return "refused", *error.parts
    except CancelledError:
        return "refused", "The request to XLA's partitioner was cancelled.", ()
