"""Worker processes that answer the questions of a search. The answers are the same however many there are.

Questions that read one traced network go to one worker, which has it; a worker with nothing left takes what waits for others. Until the
first worker is ready, questions are answered in this process, so that the first plan stands at once. A worker that dies is a message: the
question it died of is refused, and another worker is started.
"""

import pickle
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

from workbench.core.public_error_text import process_end_text
from workbench.engine.partitioner.partitioner_connection import WarmProcess, WarmProcessEnded
from workbench.engine.search.pack_space import pack_space
from workbench.errors import EngineError
from workbench.search.evaluator import Evaluator
from workbench.search.questions import Answer, InProcess, Question

MODULE = "workbench.engine.search.search_process"
TIME_LIMIT = 600.0  # seconds for one answer
_PATIENCE = 0.5  # seconds after which one looks again whether anybody is left to answer


@dataclass(eq=False)
class _Asked:
    question: Question
    answer: Answer | None = None


@dataclass(eq=False)
class _Worker:
    """One process, the thread that talks to it, and the questions that wait for it."""

    waiting: deque[_Asked] = field(default_factory=deque)
    process: WarmProcess | None = None
    is_ready: bool = False


class WorkerPool:
    """Answers with so many worker processes; `close` ends them."""

    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        self._space = pack_space(evaluator.space)
        self._here = InProcess(evaluator)
        self._changed = threading.Condition()
        self._closed = False
        self._workers = [_Worker() for _ in range(workers)]
        self._threads = [threading.Thread(target=self._serve, args=(each,), daemon=True, name="search worker") for each in self._workers]
        for each in self._threads:
            each.start()

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """The answers, in the order of the questions."""
        asked = [_Asked(each) for each in questions]
        with self._changed:
            for each in asked:
                self._workers[crc32(repr(each.question.trace_key).encode()) % len(self._workers)].waiting.append(each)
            self._changed.notify_all()
        while not self._closed and any(each.answer is None for each in asked):
            if (mine := self._next_for_here()) is not None:
                mine.answer = self._here.ask([mine.question])[0]
                continue
            with self._changed:
                self._changed.wait(_PATIENCE)
        return [each.answer if each.answer is not None else _closed_error() for each in asked]

    def close(self) -> None:
        """End all workers now."""
        with self._changed:
            self._closed = True
            processes = [each.process for each in self._workers if each.process is not None]
            self._changed.notify_all()
        for process in processes:
            process.kill()
        for thread in self._threads:
            thread.join()

    def _next_for_here(self) -> _Asked | None:
        """A question for this process, as long as no worker is ready."""
        with self._changed:
            if self._closed or any(each.is_ready for each in self._workers):
                return None
            return next((each.waiting.popleft() for each in self._workers if each.waiting), None)

    def _serve(self, worker: _Worker) -> None:
        """The thread of a worker: question after question, until the pool is closed."""
        while not self._closed:
            if worker.process is None and not self._start(worker):
                return
            asked = self._take(worker)
            if asked is None:
                break
            found = self._ask_process(worker, asked.question)
            with self._changed:
                asked.answer = found
                self._changed.notify_all()
        self._end(worker)

    def _take(self, worker: _Worker) -> _Asked | None:
        """The next question of a worker: its own first, else the last that waits for the busiest; `None` once the pool is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or any(each.waiting for each in self._workers))
            if self._closed:
                return None
            if worker.waiting:
                return worker.waiting.popleft()
            return max(self._workers, key=lambda each: len(each.waiting)).waiting.pop()

    def _ask_process(self, worker: _Worker, question: Question) -> Answer:
        process = worker.process
        if process is None:
            return _closed_error()
        try:
            found: Answer = process.ask(pickle.dumps(question), TIME_LIMIT)[1]
        except (WarmProcessEnded, TimeoutError) as error:
            self._end(worker)
            how = process_end_text(error.status) if isinstance(error, WarmProcessEnded) else f"not in {TIME_LIMIT:.0f} s, and was ended"
            return EngineError(f"The process that planned {question.candidate} ended {how}.", ["search again", "search with workers=0"])
        return found

    def _start(self, worker: _Worker) -> bool:
        """Start the worker's process and send it the space; whether that worked. If not, others go on, or this process."""
        process = WarmProcess(MODULE)
        with self._changed:
            worker.process = process
            if self._closed:
                process.kill()
        try:
            process.wait_until_ready()
            process.ask(self._space, TIME_LIMIT)
        except (WarmProcessEnded, TimeoutError):
            self._end(worker)
            return False
        with self._changed:
            worker.is_ready = True
            self._changed.notify_all()
        return True

    def _end(self, worker: _Worker) -> None:
        with self._changed:
            process, worker.process, worker.is_ready = worker.process, None, False
        if process is not None:
            process.close()


def _closed_error() -> EngineError:
    return EngineError("The search was closed.", ["search again"])
