"""The pool that answers a search, with workers that do as they are told: order, who answers what, and what comes of a death."""

import subprocess
import sys
import threading
from collections import Counter

import pytest

from workbench.engine.search import choose_answerer
from workbench.engine.search.choose_answerer import open_answerer
from workbench.engine.search.worker_pool import WorkerEnded, WorkerPool, _Asked
from workbench.errors import EngineError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import Figures
from workbench.search.worker_questions import Question

DEADLY = PlanCandidate("", (("data", 1),), "deadly")


class Puppet:
    """Answers with the number of micro-batches as seconds, and its own number as bytes; dies of one candidate."""

    noun = "puppet"

    def __init__(self, number: int = 0, may_start: threading.Event | None = None, *, is_broken: bool = False) -> None:
        self.number, self.may_start, self.is_broken = number, may_start, is_broken
        self.is_gone = self.was_closed = False
        self.asked: list[Question] = []

    def wait_until_ready(self) -> None:
        if self.may_start is not None:
            self.may_start.wait(60)
        if self.is_gone or self.is_broken:
            raise WorkerEnded("with exit code 1")

    def ask(self, question: Question) -> Figures:
        self.asked.append(question)
        if question.candidate == DEADLY:
            self.is_gone = True
            raise WorkerEnded("by SIGSEGV")
        return Figures(float(question.candidate.micro_batches), self.number)

    def kill(self) -> None:
        self.is_gone = True
        if self.may_start is not None:
            self.may_start.set()

    def close(self) -> None:
        self.kill()
        self.was_closed = True


class Puppets(list):
    """Makes puppets, and remembers them."""

    def __call__(self) -> Puppet:
        self.append(Puppet(len(self)))
        return self[-1]


HERE = -1


class EvaluatorHere:
    """Answers in this process, with `HERE` as bytes."""

    def __init__(self) -> None:
        self.is_cancelled = lambda: False

    def evaluate(self, candidate: PlanCandidate) -> Figures:
        return Figures(float(candidate.micro_batches), HERE)


@pytest.fixture
def evaluator():
    return EvaluatorHere()


def question(micro_batches: int, layout: str = "") -> Question:
    return Question("figures", PlanCandidate("", (("data", 1),), layout, micro_batches=micro_batches))


def wait_for_all(pool: WorkerPool) -> None:
    with pool._changed:
        assert pool._changed.wait_for(lambda: all(each.is_ready for each in pool._places), 60)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_answers_are_in_the_order_of_the_questions(evaluator, workers):
    pool = WorkerPool(evaluator, workers, Puppets())
    try:
        wait_for_all(pool)
        for _ in range(20):
            counts = [7, 1, 5, 5, 3, 2, 8, 1]
            assert [each.seconds for each in pool.ask([question(count) for count in counts])] == counts
    finally:
        pool.close()


def test_questions_about_one_network_have_one_owner_and_new_ones_are_spread(evaluator):
    pool = WorkerPool(evaluator, 2, Puppets())
    try:
        wait_for_all(pool)
        with pool._changed:  # while nobody can take any
            owners = [pool._owner_of(question(count)) for count in (1, 2, 3, 4, 1, 2, 3, 4)]
        assert owners[:4] == owners[4:]
        assert sorted(Counter(map(id, owners)).values()) == [4, 4]
    finally:
        pool.close()


def test_a_worker_takes_over_what_waits_for_one_that_starts(evaluator):
    release = threading.Event()
    made: list[Puppet] = []

    def make() -> Puppet:
        made.append(Puppet(len(made), release if made else None))
        return made[-1]

    pool = WorkerPool(evaluator, 2, make)
    try:
        with pool._changed:
            assert pool._changed.wait_for(lambda: any(each.is_ready for each in pool._places), 60)
        found = pool.ask([question(count) for count in (1, 2, 3, 4)])
        assert [each.seconds for each in found] == [1, 2, 3, 4]
        assert {each.memory for each in found} == {0}
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("has_mine", "has_other", "waits", "taken"),
    [
        ((), (1,), (1, 1, 1), []),  # it would have to trace 1 a second time
        ((), (1,), (1, 2, 1, 2), [2, 2]),  # nobody has begun 2
        ((1,), (1,), (1, 1, 1), [1]),  # it has traced 1
        ((3,), (), (1, 2, 1), [1, 1]),
    ],
)
def test_a_worker_with_nothing_left_takes_over_what_costs_no_second_trace(evaluator, has_mine, has_other, waits, taken):
    pool = WorkerPool(evaluator, 2, Puppets())
    pool.close()  # its threads take nothing away
    mine, other = pool._places
    mine.traced.update(question(each).trace_key for each in has_mine)
    other.traced.update(question(each).trace_key for each in has_other)
    other.waiting.extend(_Asked(question(each)) for each in waits)
    pool._take_over(mine)
    assert [each.question.candidate.micro_batches for each in mine.waiting] == taken
    assert sorted(each.question.candidate.micro_batches for each in (*mine.waiting, *other.waiting)) == sorted(waits)


def test_the_question_a_worker_died_of_is_refused_and_the_others_are_answered(evaluator):
    puppets = Puppets()
    pool = WorkerPool(evaluator, 1, puppets)
    try:
        wait_for_all(pool)
        first, dead, last = pool.ask([question(1), Question("figures", DEADLY), question(2)])
        assert str(dead) == (
            "The puppet that planned `one device, deadly, no ZeRO, remat as traced` ended by SIGSEGV.\n"
            "  Try: search again · search with workers=0, in this process."
        )
        assert isinstance(dead, EngineError)
        assert (first.seconds, last.seconds) == (1, 2)
        wait_for_all(pool)
        assert pool.ask([question(3)])[0] == Figures(3.0, 1)
        assert puppets[0].was_closed
    finally:
        pool.close()


def test_a_worker_that_died_of_no_question_is_replaced_before_it_is_asked(evaluator):
    puppets = Puppets()
    pool = WorkerPool(evaluator, 1, puppets)
    try:
        wait_for_all(pool)
        puppets[0].is_gone = True
        assert pool.ask([question(3)])[0].seconds == 3
        wait_for_all(pool)
        assert puppets[0].asked == []
        assert pool.ask([question(3)])[0] == Figures(3.0, 1)
    finally:
        pool.close()


def test_this_process_answers_until_a_worker_is_ready(evaluator):
    release = threading.Event()
    pool = WorkerPool(evaluator, 1, lambda: Puppet(may_start=release))
    try:
        assert pool.ask([question(4)])[0] == Figures(4.0, HERE)
        release.set()
        wait_for_all(pool)
        assert pool.ask([question(5)])[0] == Figures(5.0, 0)
    finally:
        pool.close()


def test_no_answer_is_waited_for_once_the_search_is_cancelled(evaluator):
    release, has_begun = threading.Event(), threading.Event()

    class Busy(Puppet):
        def ask(self, question):
            has_begun.set()
            release.wait(60)
            return super().ask(question)

    pool = WorkerPool(evaluator, 1, Busy)
    try:
        wait_for_all(pool)
        wait = pool.submit(question(4))
        assert has_begun.wait(60)
        evaluator.is_cancelled = lambda: True
        assert wait() is None
        evaluator.is_cancelled = lambda: False
        release.set()
        assert wait() == Figures(4.0, 0), "it is still answered for whoever asks again"
    finally:
        release.set()
        pool.close()


def test_without_any_worker_this_process_answers_or_the_error_says_why(evaluator):
    pool = WorkerPool(evaluator, 2, lambda: Puppet(is_broken=True))
    try:
        assert pool.ask([question(4)])[0] == Figures(4.0, HERE)
    finally:
        pool.close()
    pool = WorkerPool(evaluator, 2, lambda: Puppet(is_broken=True), error_without=lambda how: EngineError(f"none: {how}"))
    for each in pool._threads:
        each.join(60)
    with pytest.raises(EngineError, match="none: with exit code 1"):
        pool.ask([question(4)])
    pool.close()


def test_closing_ends_workers_that_are_starting_and_answers_what_waits(evaluator):
    closed: list[bool] = []
    puppets = [Puppet(may_start=threading.Event()), Puppet(may_start=threading.Event())]
    waiting = iter(puppets)
    pool = WorkerPool(evaluator, 2, lambda: next(waiting), on_close=lambda: closed.append(True))
    pool.close()
    pool.close()
    assert closed == [True]
    assert not any(each.is_alive() for each in pool._threads)
    assert [str(each) for each in pool.ask([question(1)])] == ["The search was closed.\n  Try: search again."]


def test_there_are_no_more_workers_than_questions_at_a_time(monkeypatch):
    counts = []
    monkeypatch.setattr(choose_answerer, "WorkerPool", lambda *given: counts.append(given[1]))
    monkeypatch.setattr(choose_answerer, "count_processors", lambda: 128)
    space = make_space(Plan(build("two_layer"), "data:2"))
    for workers in (None, 3, 500):
        open_answerer(Evaluator(space), workers)
    assert counts == [16, 3, 16]


@pytest.mark.parametrize(
    ("workers", "cluster", "text"),
    [
        (-1, None, "-1 workers cannot plan.\n  Try: use 0 to plan in this process, or more."),
        (0, "local", "0 workers on a cluster cannot plan.\n  Try: give 1 or more · search without a cluster."),
    ],
)
def test_numbers_of_workers_that_cannot_be_are_said(evaluator, workers, cluster, text):
    with pytest.raises(EngineError) as caught:
        open_answerer(evaluator, workers, cluster)
    assert str(caught.value) == text


def test_a_worker_lowers_its_priority_before_it_imports_jax():
    """Otherwise it competes for a second with the first plans of the search, which are made in this process."""
    code = "import sys, workbench.engine.search.search_process; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
