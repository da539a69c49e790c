"""Workers that answer the questions of a search: local processes, or actors of a cluster. Answers do not depend on
their number.

Questions about one traced network go to the worker that has it. An idle worker takes over questions of others if that
needs no second trace: GPT-3 on 2,048 chips asks 513 questions of 35 ms about 18 networks, each traced in 0.1 to 0.5 s,
and unrestricted takeover made the work of two workers 24 s instead of 18 s. Until the first worker is ready, this
process answers, so that the first plan is available at once. If a worker dies, its current question is refused and
another worker is started; its queued questions are answered by that one or by others.
"""

import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from workbench.core.program import Program
from workbench.core.public_error_text import last_line, process_end_text, strip_folders
from workbench.engine.partitioner.partitioner_connection import WarmProcess, WarmProcessEnded
from workbench.engine.worker.pickling import jax_settings, sendable, use_jax_settings
from workbench.errors import EngineError, WorkbenchError
from workbench.search.evaluator import Evaluator
from workbench.search.search_space import SearchSpace
from workbench.search.worker_questions import Answer, InProcess, Question, Wait

_PATIENCE = 0.1  # seconds between checks that some worker can answer, and that the search is not cancelled


class WorkerEnded(Exception):  # noqa: N818 - not an error yet: the end of a worker, which is turned into a message
    """A worker ended before it answered; `how` completes the sentence, as in `ended by SIGKILL`."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class SearchWorker(Protocol):
    """Interface of a worker, which answers one question at a time; its constructor starts it without waiting."""

    noun: str

    @property
    def is_gone(self) -> bool:
        """Whether the worker is known to have ended."""

    def wait_until_ready(self) -> None:
        """Wait for the start. Raises `WorkerEnded`."""

    def ask(self, question: Question) -> Answer:
        """Return the answer. Raises `WorkerEnded`."""

    def kill(self) -> None:
        """End the worker now, from any thread; waiting callers get `WorkerEnded`."""

    def close(self) -> None:
        """End the worker and release its local resources."""


@dataclass(eq=False)
class _Asked:
    question: Question
    answer: Answer | None = None


@dataclass(eq=False)
class _Place:
    """Slot of one worker: current worker, queued questions, and the `trace_key`s of the worker's questions."""

    waiting: deque[_Asked] = field(default_factory=deque)
    worker: SearchWorker | None = None
    is_ready: bool = False
    traced: set[Hashable] = field(default_factory=set)


class WorkerPool:
    """Answers questions with `count` workers; `close` ends them, then calls `on_close`.

    If no worker can be started, this process answers or, with `error_without`, `ask` raises its error for the last
    worker's end.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        count: int,
        make_worker: Callable[[], SearchWorker],
        *,
        error_without: Callable[[str], WorkbenchError] | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._here = InProcess(evaluator)
        self._make_worker, self._error_without, self._on_close = make_worker, error_without, on_close
        self._changed = threading.Condition()
        self._closed = False
        self._not_started: list[str] = []
        self._owners: dict[Hashable, _Place] = {}
        self._places = [_Place() for _ in range(count)]
        self._threads = [threading.Thread(target=self._serve, args=(place,), daemon=True, name="search worker") for place in self._places]
        for thread in self._threads:
            thread.start()

    def submit(self, question: Question) -> Wait:
        """Enqueue a question; the returned function waits for the answer, or until the search is cancelled."""
        asked = _Asked(question)
        with self._changed:
            self._owner_of(question).waiting.append(asked)
            self._changed.notify_all()
        return partial(self._wait_for, asked)

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        return [answer for wait in [self.submit(question) for question in questions] if (answer := wait()) is not None]

    def _wait_for(self, asked: _Asked) -> Answer | None:
        while not self._closed and asked.answer is None:
            if self._here.evaluator.is_cancelled():
                return None
            if (local := self._next_for_here()) is not None:
                local.answer = self._here.submit(local.question)()
                continue
            with self._changed:
                self._changed.wait_for(lambda: self._closed or asked.answer is not None, _PATIENCE)
        return asked.answer if asked.answer is not None else _closed_error()

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            workers = [place.worker for place in self._places if place.worker is not None]
            self._changed.notify_all()
        for worker in workers:
            worker.kill()
        for thread in self._threads:
            thread.join()
        self._on_close()

    def _owner_of(self, question: Question) -> _Place:
        """Return the place that traces the question's network; new ones go to the shortest queue, then fewest networks."""
        owners = list(self._owners.values())
        if question.trace_key not in self._owners:
            self._owners[question.trace_key] = min(self._places, key=lambda place: (len(place.waiting), owners.count(place)))
        return self._owners[question.trace_key]

    def _next_for_here(self) -> _Asked | None:
        with self._changed:
            if self._closed or any(place.is_ready for place in self._places):
                return None
            if self._error_without is not None and len(self._not_started) == len(self._places):
                raise self._error_without(self._not_started[-1])
            return next((place.waiting.popleft() for place in self._places if place.waiting), None)

    def _serve(self, place: _Place) -> None:
        while not self._closed:
            worker = place.worker or self._start(place)
            asked = self._take(place) if worker is not None else None
            if worker is None or asked is None:
                break
            if worker.is_gone:  # it died while idle
                with self._changed:
                    place.waiting.appendleft(asked)
                self._end(place)
                continue
            answer = self._ask_worker(place, worker, asked.question)
            with self._changed:
                asked.answer = answer
                self._changed.notify_all()
        self._end(place)

    def _take(self, place: _Place) -> _Asked | None:
        with self._changed:
            while not self._closed:
                if not place.waiting:
                    self._take_over(place)
                if place.waiting:
                    asked = place.waiting.popleft()
                    place.traced.add(asked.question.trace_key)
                    return asked
                self._changed.wait()
        return None

    def _take_over(self, place: _Place) -> None:
        """Move another place's questions to an idle one, about a network that it has or that is not yet traced."""
        for other in sorted(self._places, key=lambda candidate: len(candidate.waiting), reverse=True):
            for asked in reversed(other.waiting):
                key = asked.question.trace_key
                if key in place.traced:
                    moved = [asked]
                elif key not in other.traced:
                    moved = [queued for queued in other.waiting if queued.question.trace_key == key]
                    self._owners[key] = place
                else:
                    continue
                for queued in moved:
                    other.waiting.remove(queued)
                place.waiting.extend(moved)
                return

    def _ask_worker(self, place: _Place, worker: SearchWorker, question: Question) -> Answer:
        try:
            return worker.ask(question)
        except WorkerEnded as ended:
            self._end(place)
            if self._closed:
                return _closed_error()
            ways = ["search again", "search with workers=0, in this process"]
            return EngineError(f"The {worker.noun} that planned `{question.candidate}` ended {ended.how}.", ways)

    def _start(self, place: _Place) -> SearchWorker | None:
        worker = self._make_worker()
        with self._changed:
            place.worker = worker
            if self._closed:
                worker.kill()
        try:
            worker.wait_until_ready()
        except WorkerEnded as ended:
            self._not_started.append(ended.how)
            self._end(place)
            return None
        with self._changed:
            place.is_ready = True
            self._changed.notify_all()
        return worker

    def _end(self, place: _Place) -> None:
        with self._changed:
            worker, place.worker, place.is_ready = place.worker, None, False
            place.traced.clear()
            self._changed.notify_all()  # others may take over queued questions
        if worker is not None:
            worker.close()


def _closed_error() -> EngineError:
    return EngineError("The search was closed.", ["search again"])


# A worker process of the pool.

MODULE = "workbench.engine.search.search_process"
TIME_LIMIT = 600.0  # seconds for one answer


class ProcessWorker:
    """One process of this machine, with the space packed by `pack_space`."""

    noun = "process"

    def __init__(self, space: bytes) -> None:
        self._space = space
        self._process = WarmProcess(MODULE)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        return self._process.is_gone

    def wait_until_ready(self) -> None:
        """Wait until JAX is imported and the space is loaded. Raises `WorkerEnded`."""
        try:
            self._process.wait_until_ready()
            self._process.ask(self._space, TIME_LIMIT)
        except (WarmProcessEnded, TimeoutError) as error:
            raise WorkerEnded(_describe_end(error)) from None

    def ask(self, question: Question) -> Answer:
        """Return the answer; raises `WorkerEnded` if the process dies first or needs more than `TIME_LIMIT`."""
        try:
            result: Answer = self._process.ask(pickle.dumps(question), TIME_LIMIT)[1]
        except (WarmProcessEnded, TimeoutError) as error:
            raise WorkerEnded(_describe_end(error)) from None
        return result

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.close()


def _describe_end(error: WarmProcessEnded | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return f"because it took more than {TIME_LIMIT:.0f} s"
    how = process_end_text(error.status)
    if error.status == -signal.SIGKILL:
        return f"{how}: Linux does this when memory runs out, or a person did it by hand"
    words = strip_folders(last_line(error.last_words)).rstrip(".")
    return f"{how}. Last output: {words}" if words else how


# A search space for another process: programs by value without their arrays, and JAX's settings.


def pack_space(space: SearchSpace) -> bytes:
    """Serialize a space. Raises `EngineError` if a function of its program cannot be sent."""
    start = space.start.updated(program=_without_arrays(space.start.program))
    sent = replace(space, start=start, programs=tuple((traced, _without_arrays(program)) for traced, program in space.programs))
    return pickle.dumps((jax_settings(), sendable(sent, space.start.name, "search in this process, with workers=0")))


def unpack_evaluator(content: bytes) -> Evaluator:
    """Return the evaluator of a packed space, in the other process."""
    settings, body = pickle.loads(content)  # noqa: S301 - our own parent wrote it
    use_jax_settings(settings)
    return Evaluator(pickle.loads(body))  # noqa: S301 - likewise


def _without_arrays(program: Program) -> Program:
    return replace(program, step=replace(program.step, given=(), given_indices=()))
