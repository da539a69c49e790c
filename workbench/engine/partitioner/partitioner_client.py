"""Client of the warm process: a queue of questions, answers as futures, and a process that is restarted when it dies."""

import functools
import pickle
import queue
import threading
import time
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import NamedTuple

from workbench.core.operating_system import after_fork
from workbench.core.public_error_text import process_end_text
from workbench.engine.partitioner.partitioner_connection import OF_LIBTPU, OF_PARTITIONER, WarmProcess, WarmProcessEnded
from workbench.errors import PartitionError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.partitioned import Partitioned

TIME_LIMIT = 120.0  # seconds for one answer
IDLE_LIMIT = 600.0  # seconds without questions after which the process is ended
_KNOWN_FAILURES = {  # XLA checks that are known to fail, by message (jaxlib 0.10.2)
    "get_first_valid_element_offset_on_dilated_shard": "keep the sharded image dimension of the convolution whole, or choose a stride and "
    "padding whose gradient needs no negative padding"
}


class _PartitionQuestion(NamedTuple):
    """Message to the process (empty to only start it), and the name of the plan."""

    content: bytes
    name: str
    answer: Future[Partitioned]


class WarmWorker:
    """Asks XLA's partitioner in a separate process, which is started with the first question and stays.

    Questions are answered in sequence. A future that is cancelled before its turn is never asked; `cancel` also ends
    the current one, by ending the process, or only libtpu's fork. If the process dies, its current question fails with
    a message; the next one starts a new process. Without questions for `IDLE_LIMIT` seconds the process is ended.
    """

    def __init__(self) -> None:
        self._questions: queue.SimpleQueue[_PartitionQuestion] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._process: WarmProcess | None = None
        self._current: _PartitionQuestion | None = None
        self._abandoned: _PartitionQuestion | None = None
        self._begun: float | None = None  # when the current question was asked; `None` while its process starts
        self._thread: threading.Thread | None = None
        self._waiting = 0
        self._deaths = 0

    @property
    def deaths(self) -> int:
        """How often the process died without a cancelled question."""
        process = self._process
        return self._deaths + (process is not None and process.is_gone and not process.cancelled)

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process else None

    @property
    def is_busy(self) -> bool:
        return self._waiting > 0

    def ask(self, plan: Plan, target: Hardware | str = "") -> Future[Partitioned]:
        """Ask XLA's partitioner, or the compiler of this hardware, about a plan; the future raises `PartitionError`."""
        return self.ask_packed(pack_question(plan, target), plan.name)

    def ask_packed(self, question: bytes, name: str) -> Future[Partitioned]:
        """Like `ask` for a question pickled by another process, which is not unpickled here; `name` is the plan's."""
        return self._enqueue(question, name)

    def warm(self) -> None:
        """Start the process in the background, so that it is ready for the first question."""
        self._enqueue(b"", "")

    def cancel(self, answer: Future[Partitioned], after: float = 0.0) -> None:
        """Cancel a question: a queued one is never asked, and the current one ends with the process.

        With `after`, the current one may continue until `after` seconds were spent on it, because ending the process
        costs the next caller a second. While its process starts, only the question is cancelled: on a busy machine a
        process that is always ended during its start would never be ready.
        """
        if answer.cancel() or answer.done():
            return
        with self._lock:
            if self._current is None or self._current.answer is not answer:
                return
            remaining = 0.0 if self._begun is None else self._begun + after - time.monotonic()
            is_resolved = self._begun is None or self._current.content.startswith(OF_LIBTPU)
            if remaining <= 0:
                self._abandon(self._current)
        if remaining <= 0:
            if is_resolved:  # otherwise the future is resolved once the process has ended
                _finish(answer, _cancelled_error())
            return
        timer = threading.Timer(remaining, self.cancel, (answer, after))
        timer.daemon = True
        timer.start()

    def _abandon(self, question: _PartitionQuestion) -> None:
        self._abandoned = question
        if self._begun is None or self._process is None:
            return
        if question.content.startswith(OF_LIBTPU):
            self._process.interrupt()
        else:
            self._process.cancelled = True
            self._process.kill()

    def close(self) -> None:
        """End the process, and wait for it. A later question starts another."""
        process = self._process
        if process is not None:
            process.end()

    def _enqueue(self, content: bytes, name: str) -> Future[Partitioned]:
        question = _PartitionQuestion(content, name, Future())
        with self._lock:
            self._waiting += 1
            self._questions.put(question)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, daemon=True, name="partitioner")
                self._thread.start()
        return question.answer

    def _serve(self) -> None:
        while True:
            try:
                question = self._questions.get(timeout=IDLE_LIMIT)
            except queue.Empty:
                with self._lock:
                    if self._waiting:
                        continue
                    self._close_process()
                    self._thread = None
                    return
            try:
                if not question.content:
                    self._start_ahead()
                elif question.answer.set_running_or_notify_cancel():
                    self._answer_question(question)
            finally:
                with self._lock:
                    self._waiting -= 1

    def _start_ahead(self) -> None:
        with suppress(WarmProcessEnded, TimeoutError, OSError):
            self._ensure_process()

    def _answer_question(self, question: _PartitionQuestion) -> None:
        with self._lock:
            self._current, self._begun = question, time.monotonic() if self._is_warm() else None
        outcome: Partitioned | PartitionError
        try:
            outcome = self._ask_process(question)
        except CancelledError:
            outcome = _cancelled_error()
        except PartitionError as error:
            outcome = error
        except WarmProcessEnded as error:
            outcome = _process_end_error(question.name, error)
        except WorkbenchError as error:
            outcome = PartitionError(*error.parts)
        except Exception as error:  # noqa: BLE001 - any error must reach the future
            outcome = PartitionError(f"XLA's partitioner could not be run: {type(error).__name__}: {error}")
        with self._lock:
            self._current = None
        _finish(question.answer, outcome)

    def _ask_process(self, question: _PartitionQuestion) -> Partitioned:
        process = self._ensure_process()
        with self._lock:
            if self._begun is None and self._abandoned is question:
                raise CancelledError
            self._begun = self._begun or time.monotonic()
        try:
            kind, *rest = process.ask(question.content, TIME_LIMIT)
        except WarmProcessEnded:
            self._close_process()
            if process.cancelled:
                raise CancelledError from None
            self._deaths += 1
            raise
        except TimeoutError:
            self._close_process()
            raise PartitionError(
                f"XLA's partitioner took more than {TIME_LIMIT:.0f} s for this plan, and was stopped.",
                ["scan the layers, so that only one is partitioned", "keep the planned figures"],
            ) from None
        if self._abandoned is question:
            raise CancelledError
        if kind == "refused":
            raise PartitionError(*rest)
        partitioned: Partitioned = rest[0]
        return partitioned

    def _ensure_process(self) -> WarmProcess:
        """Return the process, started if there is none, or if it died while idle or was ended by a cancellation."""
        if self._process is not None and self._is_warm():
            return self._process
        self._deaths = self.deaths
        self._close_process()
        started = WarmProcess()
        with self._lock:
            self._process = started
        try:
            started.wait_until_ready()
        except (WarmProcessEnded, TimeoutError):
            self._close_process()
            self._deaths += not started.cancelled
            raise
        return started

    def _is_warm(self) -> bool:
        return self._process is not None and not (self._process.is_gone or self._process.cancelled)

    def _close_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()


def pack_question(plan: Plan, target: Hardware | str = "") -> bytes:
    """Return the message to the process, with only the parts of the plan that it reads."""
    from workbench.spmd.ask_partitioner import without_functions  # not above: a server that forwards questions loads no JAX

    return (OF_PARTITIONER if isinstance(target, str) else OF_LIBTPU) + pickle.dumps((without_functions(plan), target))


@functools.cache
def shared_worker() -> WarmWorker:
    """Return the only worker of this process; its warm process starts with the first question."""
    return WarmWorker()


def _cancelled_error() -> PartitionError:
    return PartitionError("The request to XLA's partitioner was cancelled.")


def _finish(answer: Future[Partitioned], outcome: Partitioned | PartitionError) -> None:
    with suppress(InvalidStateError):
        if isinstance(outcome, PartitionError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)


def _process_end_error(name: str, ended: WarmProcessEnded) -> PartitionError:
    status = ended.status
    end_text = process_end_text(status)
    check_line = next((line for line in ended.last_words.splitlines() if "Check failed" in line or line.startswith("F0")), "") or next(
        iter(ended.last_words.splitlines()[-1:]), ""
    )
    words = f" Last output: {check_line[:300]}" if check_line else ""
    return PartitionError(
        f"XLA's partitioner ended {end_text} while it partitioned {name}.{words}",
        [
            *(fix for check, fix in _KNOWN_FAILURES.items() if check in check_line),
            "revert the layout",
            "keep the planned figures",
            *(["report it to openxla/xla"] if "Check failed" in check_line else []),
        ],
        ended.last_words,
    )


after_fork(shared_worker.cache_clear)  # the process belongs to the parent
