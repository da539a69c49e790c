"""Who answers a search: the same front from this process, from workers and from a cluster; a worker that dies is a message."""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from workbench.engine import open_answerer
from workbench.engine.search.worker_pool import WorkerPool
from workbench.errors import WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.make_space import make_space
from workbench.search.run_search import run_search
from workbench.search.worker_questions import Question, answer

pytestmark = pytest.mark.compile

WANTED = {"layouts": ("replicated", "megatron"), "remats": ("none", "full"), "schedules": ("1f1b",), "most_examples": 2}
ENDED_BY_KILL = (
    "The process that planned `{}` ended by SIGKILL: Linux does this when memory runs out, or a person did it by hand.\n"
    "  Try: search again · search with workers=0, in this process."
)


@pytest.fixture(scope="module")
def space():
    return make_space(Plan(build("gpt", layers=2), "", hardware="TPU v5e 2x2"), **WANTED)


@pytest.fixture(scope="module")
def states(space):
    return search(space, 0)


@pytest.fixture
def pool(space):
    made = open_answerer(Evaluator(space), 1)
    wait_for_all(made)
    yield made
    made.close()


def search(space, workers, cluster=None):
    evaluator = Evaluator(space)
    answerer = open_answerer(evaluator, workers, cluster)
    try:
        return list(run_search(space, most_evaluations=12, within=600, answerer=answerer, evaluator=evaluator))
    finally:
        answerer.close()


def wait_for_all(pool: WorkerPool) -> None:
    with pool._changed:
        assert pool._changed.wait_for(lambda: all(each.is_ready for each in pool._places), 120)


def without_time(states):
    return [replace(each, elapsed=0.0) for each in states]


def pipelines(space):
    return [each for each in space.candidates() if each.schedule == "1f1b"]


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() if os.name == "posix" else False


@pytest.mark.parametrize("workers", [1, 2])
def test_the_states_are_the_same_however_many_answer(space, states, workers):
    assert states[-1].evaluated >= 12
    assert len(states[-1].front) > 1
    assert without_time(search(space, workers)) == without_time(states)


def test_workers_answer_what_this_process_does_and_refuse_what_it_refuses(space, pool):
    candidate = pipelines(space)[0]
    illegal = replace(candidate, mesh=(("stage", 1), ("data", 1), ("model", 3)))
    questions = [Question(kind, each) for each in (candidate, illegal) for kind in ("work", "candidates", "partition", "figures")]
    here = Evaluator(space)
    found, expected = pool.ask(questions), [answer(here, each) for each in questions]
    assert found[1:4] == expected[1:4]
    assert found[0].seconds(recomputed=True) == expected[0].seconds(recomputed=True)
    assert all(isinstance(each, WorkbenchError) for each in found[4:])
    assert [str(each) for each in found[4:]] == [str(each) for each in expected[4:]]


def test_the_question_a_worker_died_of_is_refused_and_another_worker_goes_on(space, pool):
    candidates = pipelines(space)[:2]
    first = pool._places[0].worker
    os.kill(first.pid, signal.SIGSTOP)  # it is asked, and does not answer
    found: list = []
    asking = threading.Thread(target=lambda: found.extend(pool.ask([Question("figures", each) for each in candidates])))
    asking.start()
    deadline = time.monotonic() + 60
    while len(pool._places[0].waiting) != 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    asking.join(120)
    assert str(found[0]) == ENDED_BY_KILL.format(candidates[0])
    assert found[1] == Evaluator(space).evaluate(candidates[1])
    wait_for_all(pool)
    assert pool._places[0].worker.pid != first.pid
    assert pool.ask([Question("figures", candidates[0])]) == [Evaluator(space).evaluate(candidates[0])]


def test_a_worker_that_is_killed_while_nobody_asks_is_replaced(space, pool):
    candidate = pipelines(space)[0]
    first = pool._places[0].worker
    os.kill(first.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not first.is_gone and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pool.ask([Question("figures", candidate)]) == [Evaluator(space).evaluate(candidate)]


def test_what_a_worker_wrote_last_is_said(space, pool):
    candidate = replace(pipelines(space)[0], layout="nonsense")  # no search asks this: the planner has no words for it
    (found,) = pool.ask([Question("figures", candidate)])
    assert str(found) == (
        f"The process that planned `{candidate}` ended with exit code 1. Last output: KeyError: 'nonsense'.\n"
        "  Try: search again · search with workers=0, in this process."
    )


def test_a_pool_ends_while_it_is_asked_and_leaves_nothing(space, pool):
    worker = pool._places[0].worker
    os.kill(worker.pid, signal.SIGSTOP)  # it would never answer
    found: list = []
    asking = threading.Thread(target=lambda: found.extend(pool.ask([Question("figures", each) for each in pipelines(space)[:3]])))
    asking.start()
    pool.close()
    asking.join(60)
    assert [str(each) for each in found] == ["The search was closed.\n  Try: search again."] * 3
    assert worker.is_gone
    assert not is_running(worker.pid)
    assert not any(each.is_alive() for each in pool._threads)


def test_a_pool_that_is_closed_while_it_starts_leaves_nothing(space):
    pool = open_answerer(Evaluator(space), 2)
    deadline = time.monotonic() + 60
    while not all(each.worker for each in pool._places) and time.monotonic() < deadline:
        time.sleep(0.01)
    pids = [each.worker.pid for each in pool._places]
    pool.close()
    assert not any(is_running(pid) for pid in pids)
