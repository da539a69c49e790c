"""Who answers a search: the same front from this process, from workers and from a cluster; a worker that dies is a message."""

import os
import signal
import time

import pytest

from workbench.engine import open_answerer
from workbench.engine.search.verify_plans import verify_plans
from workbench.engine.search.worker_pool import WorkerPool
from workbench.errors import EngineError
from workbench.models import build
from workbench.plan.plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.find_plans import find_plans
from workbench.search.make_space import make_space
from workbench.search.questions import Question
from workbench.search.run_search import run_search

pytestmark = pytest.mark.compile

WANTED = {"layouts": ("replicated", "megatron"), "remats": ("none", "full"), "schedules": ("1f1b",), "most_examples": 2}


@pytest.fixture(scope="module")
def space():
    return make_space(Plan(build("gpt"), "", hardware="TPU v5e 2x2"), **WANTED)


def search(space, workers):
    evaluator = Evaluator(space)
    answerer = open_answerer(evaluator, workers)
    try:
        return list(run_search(space, most_evaluations=20, within=600, answerer=answerer, evaluator=evaluator))
    finally:
        answerer.close()


def test_the_front_is_the_same_whoever_answers(space):
    here, there = search(space, 0), search(space, 2)
    assert here[-1].evaluated >= 20
    assert [(each.front, each.evaluated, each.open, each.least) for each in here] == [
        (each.front, each.evaluated, each.open, each.least) for each in there
    ]


def start_pool(space) -> WorkerPool:
    pool = WorkerPool(Evaluator(space), 1)
    deadline = time.monotonic() + 120
    while not pool._workers[0].is_ready and time.monotonic() < deadline:
        time.sleep(0.05)
    return pool


def test_a_worker_that_dies_is_a_message_and_another_goes_on(space):
    pool = start_pool(space)
    try:
        candidate = next(each for each in space.candidates() if each.schedule == "1f1b")
        process = pool._workers[0].process
        os.kill(process.pid, signal.SIGSTOP)  # it is asked, and dies of it
        os.kill(process.pid, signal.SIGKILL)
        (found,) = pool.ask([Question("figures", candidate)])
        if isinstance(found, EngineError):
            assert found.message.startswith(f"The process that planned {candidate} ended ")
        again = pool.ask([Question("figures", candidate)] * 2)
        assert again[0] == again[1] == Evaluator(space).evaluate(candidate)
    finally:
        pool.close()


def test_a_pool_ends_at_once_and_leaves_nothing(space):
    pool = start_pool(space)
    process = pool._workers[0].process
    pool.close()
    assert process.is_gone
    assert not any(each.is_alive() for each in pool._threads)
    assert isinstance(pool.ask([Question("figures", next(space.candidates()))])[0], EngineError)


def test_what_cannot_answer_is_said(space):
    with pytest.raises(EngineError, match="-1 workers cannot plan anything"):
        open_answerer(Evaluator(space), -1)


def test_a_cluster_answers_as_this_process_does(space):
    pytest.importorskip("ray", reason='the extra "ray" is not installed')
    evaluator = Evaluator(space)
    answerer = open_answerer(evaluator, 2, "local")
    try:
        states = list(run_search(space, most_evaluations=20, within=600, answerer=answerer, evaluator=evaluator))
    finally:
        answerer.close()
    assert states[-1].front == search(space, 0)[-1].front


def test_a_cluster_that_does_not_answer_is_said(space):
    pytest.importorskip("ray", reason='the extra "ray" is not installed')
    with pytest.raises(EngineError, match=r"No Ray cluster answers at ray://127\.0\.0\.1:1\.\n  Ways out: check the address"):
        open_answerer(Evaluator(space), None, "ray://127.0.0.1:1")


def test_a_cluster_without_ray_is_said(space, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(EngineError, match=r"A search on a cluster needs Ray, which is not installed.") as caught:
        open_answerer(Evaluator(space), None, "local")
    assert caught.value.ways_out == ('pip install "sharding-workbench[ray]"',)


def test_the_best_plans_are_compiled_for_their_hardware():
    plan = Plan(build("two_layer"), "", hardware="TPU v5e 2x2")
    result = find_plans(plan, within=60)
    (verified,) = verify_plans(result, 1)
    assert verified.candidate == result.front[0][0]
    assert verified.refusal or abs(verified.memory_error) < 0.1
