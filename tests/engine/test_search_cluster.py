"""Actors of a Ray cluster that answer a search. What needs Ray is skipped where the extra `ray` is not installed."""

import os
import signal
import socket
import sys

import pytest

from tests.engine.test_search_workers import WANTED, pipelines, search, wait_for_all, without_time
from workbench.engine import open_answerer
from workbench.errors import EngineError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.make_space import make_space
from workbench.search.worker_questions import Question

pytestmark = pytest.mark.compile
WAYS = "\n  Try: check the address, ray://HOST:10001 as a rule · start one here, cluster=local · search with workers=2 on this machine."


@pytest.fixture(scope="module")
def space():
    return make_space(Plan(build("gpt"), "", hardware="TPU v5e 2x2"), **WANTED)


@pytest.fixture
def pool(space):
    pytest.importorskip("ray", reason='the extra "ray" is not installed')
    made = open_answerer(Evaluator(space), 2, "local")
    wait_for_all(made)
    yield made
    made.close()


def test_a_cluster_answers_as_this_process_does(space):
    pytest.importorskip("ray", reason='the extra "ray" is not installed')
    assert without_time(search(space, 2, "local")) == without_time(search(space, 0))


def test_an_actor_that_dies_is_a_message_and_another_goes_on(space, pool):
    first, *others = pipelines(space)[:4]
    pids = [each.worker.pid for each in pool._places]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    found = pool.ask([Question("figures", each) for each in (first, *others)])
    assert str(found[0]).startswith(f"The actor that planned `{first}` ended with ActorDiedError: The actor died ")
    assert sum(isinstance(each, EngineError) for each in found) <= len(pids)
    wait_for_all(pool)
    assert not {*pids} & {each.worker.pid for each in pool._places}
    expected = Evaluator(space)
    assert pool.ask([Question("figures", each) for each in others]) == [expected.evaluate(each) for each in others]


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("ray://127.0.0.1:1", "No Ray cluster answers at ray://127.0.0.1:1."),
        ("ray://nowhere.invalid:10001", "No Ray cluster answers at ray://nowhere.invalid:10001."),
        ("127.0.0.1:6379", "`127.0.0.1:6379` is not an address of a cluster; it should be `ray://HOST:PORT`, `auto` or `local`."),
        ("ray://127.0.0.1", "`ray://127.0.0.1` is not an address of a cluster; it should be `ray://HOST:PORT`, `auto` or `local`."),
    ],
)
def test_a_cluster_that_does_not_answer_is_said(space, address, text, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", object())  # it is not asked
    with pytest.raises(EngineError) as caught:
        open_answerer(Evaluator(space), None, address)
    assert str(caught.value) == text + WAYS


class LostRay:
    """Answers nobody."""

    @staticmethod
    def init(**_):
        raise ConnectionError("ray client connection timeout")


def test_a_cluster_that_cannot_be_joined_is_said(space, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", LostRay)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"ray://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(EngineError) as caught:
            open_answerer(Evaluator(space), None, address)
    assert str(caught.value) == f"The cluster at {address} cannot be joined: ConnectionError: ray client connection timeout.{WAYS}"


def test_a_cluster_that_does_not_start_is_said(space, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", LostRay)
    with pytest.raises(EngineError) as caught:
        open_answerer(Evaluator(space), None, "local")
    assert str(caught.value) == (
        "No Ray cluster starts on this machine: ConnectionError: ray client connection timeout.\n"
        "  Try: search with workers=2 on this machine."
    )


def test_a_cluster_without_ray_is_said(space, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError) as caught:
        open_answerer(Evaluator(space), None, "local")
    assert str(caught.value) == ('A cluster needs Ray, which is not installed.\n  Try: pip install -e ".[ray]" in the checkout.')
