"""Workers that answer the questions of a search: processes of this machine, or actors of a cluster. The answers are the same however many.

Questions that read one traced network go to one worker, which has it. A worker with nothing left takes what waits for others if that costs
no second trace: GPT-3 on 2,048 chips asks 513 questions of 35 ms about 18 networks, each traced in 0.1 to 0.5 s, and taking whatever waits
made the work of two workers 24 s in place of 18 s. Until the first worker is ready, questions are answered in this process, so that the
first plan stands at once. A worker that dies is a message: the question it died of is refused, and another worker is started; what waited
for it is answered by that one or by others.
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
from workbench.engine.worker.job_payload import jax_settings, sendable, use_jax_settings
from workbench.errors import EngineError, WorkbenchError
from workbench.search.evaluator import Evaluator
from workbench.search.search_space import SearchSpace
from workbench.search.worker_questions import Answer, InProcess, Question, Wait

_PATIENCE = 0.1  # seconds after which one looks again whether anybody is left to answer, and whether the answer is still wanted


class WorkerEnded(Exception):  # noqa: N818 - not an error yet: how a worker ended, from which a message is made
    """A worker ended before it answered; `how`, as in `ended by SIGKILL`."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class SearchWorker(Protocol):
    """Who answers one question at a time, as the pool needs it; its constructor starts it and does not wait."""

    noun: str

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have ended."""

    def wait_until_ready(self) -> None:
        """Raises `WorkerEnded`."""

    def ask(self, question: Question) -> Answer:
        """Raises `WorkerEnded`."""

    def kill(self) -> None:
        """End it now, from any thread; whoever waits for it gets `WorkerEnded`."""

    def close(self) -> None:
        """End it, and free what it holds here."""


@dataclass(eq=False)
class _Asked:
    question: Question
    answer: Answer | None = None


@dataclass(eq=False)
class _Place:
    """The place of one worker: who holds it now, the questions that wait for it, and the `trace_key`s that it was asked about."""

    waiting: deque[_Asked] = field(default_factory=deque)
    worker: SearchWorker | None = None
    is_ready: bool = False
    traced: set[Hashable] = field(default_factory=set)


class WorkerPool:
    """Answers with so many workers; `close` ends them, then calls `on_close`.

    Where none can be started, this process answers, or, with `error_without`, `ask` raises the error that this makes of how the last ended.
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
        self._threads = [threading.Thread(target=self._serve, args=(each,), daemon=True, name="search worker") for each in self._places]
        for each in self._threads:
            each.start()

    def submit(self, question: Question) -> Wait:
        """Give a question to a worker; what is returned waits for the answer, or until the search is cancelled."""
        asked = _Asked(question)
        with self._changed:
            self._owner_of(question).waiting.append(asked)
            self._changed.notify_all()
        return partial(self._wait_for, asked)

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """The answers, in the order of the questions."""
        return [answer for wait in [self.submit(each) for each in questions] if (answer := wait()) is not None]

    def _wait_for(self, asked: _Asked) -> Answer | None:
        while not self._closed and asked.answer is None:
            if self._here.evaluator.is_cancelled():
                return None
            if (mine := self._next_for_here()) is not None:
                mine.answer = self._here.submit(mine.question)()
                continue
            with self._changed:
                self._changed.wait_for(lambda: self._closed or asked.answer is not None, _PATIENCE)
        return asked.answer if asked.answer is not None else _closed_error()

    def close(self) -> None:
        """End all workers now."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            workers = [each.worker for each in self._places if each.worker is not None]
            self._changed.notify_all()
        for worker in workers:
            worker.kill()
        for thread in self._threads:
            thread.join()
        self._on_close()

    def _owner_of(self, question: Question) -> _Place:
        """Where the question's network is traced; a new one goes where least waits and fewest are."""
        owners = list(self._owners.values())
        if question.trace_key not in self._owners:
            self._owners[question.trace_key] = min(self._places, key=lambda each: (len(each.waiting), owners.count(each)))
        return self._owners[question.trace_key]

    def _next_for_here(self) -> _Asked | None:
        """A question for this process, as long as no worker is ready."""
        with self._changed:
            if self._closed or any(each.is_ready for each in self._places):
                return None
            if self._error_without is not None and len(self._not_started) == len(self._places):
                raise self._error_without(self._not_started[-1])
            return next((each.waiting.popleft() for each in self._places if each.waiting), None)

    def _serve(self, place: _Place) -> None:
        """The thread of a place: question after question, until the pool is closed or no worker can be started."""
        while not self._closed:
            worker = place.worker or self._start(place)
            asked = self._take(place) if worker is not None else None
            if worker is None or asked is None:
                break
            if worker.is_gone:  # it died of no question
                with self._changed:
                    place.waiting.appendleft(asked)
                self._end(place)
                continue
            found = self._ask_worker(place, worker, asked.question)
            with self._changed:
                asked.answer = found
                self._changed.notify_all()
        self._end(place)

    def _take(self, place: _Place) -> _Asked | None:
        """The next question of a place, once there is one; `None` once the pool is closed."""
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
        """Let a place that has nothing left have what waits elsewhere: about a network that it has, one that nobody has begun, or, while a
        worker starts, any."""
        for other in sorted(self._places, key=lambda each: len(each.waiting), reverse=True):
            for asked in reversed(other.waiting):
                key = asked.question.trace_key
                if key in place.traced:
                    moved = [asked]
                elif key not in other.traced:
                    moved = [each for each in other.waiting if each.question.trace_key == key]
                    self._owners[key] = place
                else:
                    continue
                for each in moved:
                    other.waiting.remove(each)
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
        """A new worker, once it is ready; `None` where it does not start: others go on, or this process."""
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
            self._changed.notify_all()  # others may take over what waits here
        if worker is not None:
            worker.close()


def _closed_error() -> EngineError:
    return EngineError("The search was closed.", ["search again"])


# A worker process of a search, as its pool holds it.

MODULE = "workbench.engine.search.search_process"
TIME_LIMIT = 600.0  # seconds for one answer


class ProcessWorker:
    """One process of this machine, with the space that `pack_space` made."""

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
        """Until JAX is imported and the space is there. Raises `WorkerEnded`."""
        try:
            self._process.wait_until_ready()
            self._process.ask(self._space, TIME_LIMIT)
        except (WarmProcessEnded, TimeoutError) as error:
            raise WorkerEnded(_describe_end(error)) from None

    def ask(self, question: Question) -> Answer:
        """The answer. Raises `WorkerEnded` where the process dies first or needs more than `TIME_LIMIT`."""
        try:
            found: Answer = self._process.ask(pickle.dumps(question), TIME_LIMIT)[1]
        except (WarmProcessEnded, TimeoutError) as error:
            raise WorkerEnded(_describe_end(error)) from None
        return found

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


# A search space for another process: programs by value, without the arrays they were given, and JAX's settings.


def pack_space(space: SearchSpace) -> bytes:
    """The bytes of a space. Raises `EngineError` if a function of its program cannot be sent."""
    start = space.start.updated(program=_without_arrays(space.start.program))
    sent = replace(space, start=start, programs=tuple((traced, _without_arrays(program)) for traced, program in space.programs))
    return pickle.dumps((jax_settings(), sendable(sent, space.start.name, "search in this process, with workers=0")))


def unpack_evaluator(content: bytes) -> Evaluator:
    """The evaluator of a packed space, in the other process."""
    settings, body = pickle.loads(content)  # noqa: S301 - our own parent wrote it
    use_jax_settings(settings)
    return Evaluator(pickle.loads(body))  # noqa: S301 - likewise


def _without_arrays(program: Program) -> Program:
    """Planning reads shapes alone."""
    return replace(program, step=replace(program.step, given=(), given_indices=()))
