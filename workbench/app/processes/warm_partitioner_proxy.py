"""Proxy of the server's warm partitioner process, at both ends of a board's connection.

A board sends `{"partition": n, "name": ..., "question": packed}` and `{"overtaken": n}`, and receives `{"partition": n,
"answer": packed}`. The server forwards a question without unpickling it.
"""

import base64
import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from typing import Any

from workbench.engine import WarmWorker
from workbench.engine.partitioner.partitioner_client import pack_question
from workbench.errors import PartitionError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.partitioned import MOST_QUESTION_SECONDS, Partitioned

Send = Callable[[Mapping[str, Any]], None]


class RemoteWorker:
    """The server's warm process as seen by a board; futures resolve on a thread, since callbacks may write to disk."""

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
        """Cancel a request; the server decides whether the computation continues."""
        with self._lock:
            number = next((candidate for candidate, (pending, _) in self._pending.items() if pending is answer), None)
            self._pending.pop(number or 0, None)
        answer.cancel()
        if number is not None:
            self._send({"overtaken": number})

    def tell(self, number: int, answer: str) -> None:
        self._answers.put((number, answer))

    def ask_again(self) -> None:
        """Resend the pending questions to a new server process."""
        with self._lock:
            messages = [message for _, message in self._pending.values()]
        for pending_message in messages:
            self._send(pending_message)

    def give_up(self, reason: str) -> None:
        """Fail all pending questions."""
        with self._lock:
            pending, self._pending = list(self._pending.values()), {}
        for future, _ in pending:
            if future.set_running_or_notify_cancel():
                future.set_exception(PartitionError(reason))

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
    """Pending questions of one board in the server; a superseded one may continue for `after` seconds."""

    def __init__(self, worker: WarmWorker, send: Send, after: float = MOST_QUESTION_SECONDS) -> None:
        self._worker, self._send, self._after = worker, send, after
        self._pending: dict[int, Future[Partitioned]] = {}

    def handle(self, message: Mapping[str, Any]) -> None:
        if "overtaken" in message:
            if (answer := self._pending.pop(message["overtaken"], None)) is not None:
                self._worker.cancel(answer, after=self._after)
            return
        number = message["partition"]
        self._pending = {ticket: pending for ticket, pending in self._pending.items() if not pending.done()}
        self._pending[number] = answer = self._worker.ask_packed(base64.b64decode(message["question"]), message["name"])
        answer.add_done_callback(lambda done: self._pass_on(number, done))

    def give_up(self) -> None:
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
