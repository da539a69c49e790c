"""The warm process that asks XLA's partitioner: its answers, what ends it, and what is left of it."""

import os
import secrets
import signal
import time
from contextlib import suppress

import pytest

from benchmarks.partitioner_kills import Rounds
from workbench import engine
from workbench.core.mesh import Mesh
from workbench.engine.partitioner import partitioner_client, plan_partitioning
from workbench.engine.partitioner.partitioner_client import WarmWorker, pack_question, shared_worker
from workbench.engine.partitioner.plan_partitioning import partition_plan, start_partition
from workbench.errors import PartitionError
from workbench.models import build
from workbench.public_plan import Plan

pytestmark = [pytest.mark.compile, pytest.mark.worker]

PATIENCE = 60.0  # seconds, on a machine that does much else


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def warm():
    warm = WarmWorker()
    yield warm
    warm.close()


@pytest.fixture
def plan():
    return Plan(build("two_layer", batch=16, io=64, hidden=32), "data:4 model:2", "batch:data; hidden:model")


def wait_until(is_so):
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_there(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def stopped(warm):
    """Its process hears nothing, as one in a long computation."""
    warm.warm()
    wait_until(lambda: warm.pid is not None and not warm.is_busy)
    os.kill(warm.pid, signal.SIGSTOP)
    return warm.pid


def test_it_shares_our_session_where_its_niceness_counts_and_hears_no_interrupt_of_ours(warm, plan):
    warm.ask(plan).result(PATIENCE)
    assert os.getsid(warm.pid) == os.getsid(0)
    assert os.getpgid(warm.pid) == warm.pid


def test_the_answer_is_that_of_the_partitioner(warm, plan):
    answer = warm.ask(plan).result(PATIENCE)
    assert answer.by_axis_and_kind == plan.report().by_axis_and_kind
    assert {kind for _, kind in answer.by_axis_and_kind} == {"all-reduce"}
    assert (answer.devices, answer.asked_devices, answer.platform) == (8, 8, "")
    assert warm.ask_packed(pack_question(plan), plan.name).result(PATIENCE).collectives == answer.collectives


def test_a_question_under_way_is_cancelled_though_the_process_hears_nothing_and_the_next_one_is_answered(warm, plan):
    pid = stopped(warm)
    asked, waiting = warm.ask(plan), warm.ask(plan)
    wait_until(asked.running)
    warm.cancel(waiting)
    warm.cancel(asked)
    with pytest.raises(PartitionError, match="cancelled"):
        asked.result(PATIENCE)
    assert waiting.cancelled()
    assert not is_there(pid)
    assert warm.ask(plan).result(PATIENCE).collectives


def test_a_question_that_is_cancelled_after_a_while_may_be_answered_until_then(warm, plan):
    answered = warm.ask(plan)
    warm.cancel(answered, after=PATIENCE)
    assert answered.cancelled() or answered.result(PATIENCE).collectives
    pid = stopped(warm)
    asked = warm.ask(plan)
    wait_until(asked.running)
    warm.cancel(asked, after=0.3)
    assert is_there(pid)
    with pytest.raises(PartitionError, match="cancelled"):
        asked.result(PATIENCE)


def test_a_process_that_still_starts_is_not_ended_with_the_question_that_began_it(warm, plan):
    """On a busy machine it takes longer to start than a question may: none would ever be there."""
    warm.close()
    asked = warm.ask(plan)
    wait_until(lambda: warm.pid is not None and not _is_gone(warm))
    pid = warm.pid
    os.kill(pid, signal.SIGSTOP)
    warm.cancel(asked)
    with pytest.raises(PartitionError, match="cancelled"):
        asked.result(0)
    os.kill(pid, signal.SIGCONT)
    assert warm.ask(plan).result(PATIENCE).collectives
    assert warm.pid == pid


def _is_gone(warm):
    process = warm._process
    return process is None or process.is_gone


@pytest.mark.parametrize(("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGABRT, "SIGABRT")])
def test_a_process_that_dies_is_told_in_words_and_the_next_question_finds_another(warm, plan, number, name):
    pid = stopped(warm)
    asked, waiting = warm.ask(plan), warm.ask(plan)
    wait_until(asked.running)
    os.kill(pid, number)
    os.kill(pid, signal.SIGCONT)
    with pytest.raises(PartitionError) as caught:
        asked.result(PATIENCE)
    assert caught.value.message == f"XLA's partitioner ended by {name} while it partitioned two-layer."
    assert "keep the planned figures" in caught.value.ways_out
    assert waiting.result(PATIENCE).collectives
    assert warm.pid != pid


def test_a_process_that_died_while_nobody_asked_is_no_news(warm, plan):
    warm.ask(plan).result(PATIENCE)
    pid = warm.pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: warm._process.is_gone)
    assert warm.ask(plan).result(PATIENCE).collectives
    assert warm.pid != pid


def test_a_process_that_nobody_asks_is_let_go_and_started_again(plan, monkeypatch):
    monkeypatch.setattr(partitioner_client, "IDLE_LIMIT", 0.2)
    idle = WarmWorker()
    assert idle.ask(plan).result(PATIENCE).collectives
    pid = idle.pid
    assert pid is not None
    wait_until(lambda: not is_there(pid))
    assert idle.ask(plan).result(PATIENCE).collectives
    wait_until(lambda: idle.pid is None)


def test_a_mesh_of_more_devices_than_xla_can_have_here_is_refused_in_words(warm):
    large = Plan(build("two_layer"), "data:512 model:8", "batch:data")
    with pytest.raises(PartitionError) as caught:
        warm.ask(large).result(PATIENCE)
    assert str(caught.value) == (
        "XLA's partitioner answers here for at most 2,048 devices; the mesh has 4,096.\n"
        "  Try: make an axis smaller · keep the planned figures."
    )


class Counted:
    """A worker that counts what it is asked."""

    def __init__(self, inner):
        self.inner, self.count = inner, 0

    def ask(self, plan, platform=""):
        self.count += 1
        return self.inner.ask(plan, platform)


def test_an_answer_is_kept_on_disk_and_one_that_was_damaged_is_made_anew(warm, plan, own_cache):
    counted = Counted(warm)
    first = start_partition(plan, worker=counted).result(PATIENCE)
    wait_until(lambda: list((own_cache / "partitioned").glob("*.json")))
    again = start_partition(plan, worker=counted)
    assert again.done()
    assert (again.result(), counted.count) == (first, 1)
    (path,) = (own_cache / "partitioned").glob("*.json")
    path.write_text("{", encoding="utf-8")
    anew = start_partition(plan, worker=counted).result(PATIENCE)
    assert (anew.collectives, counted.count) == (first.collectives, 2)
    start_partition(plan, keep=False, worker=counted).result(PATIENCE)
    assert counted.count == 3


def test_only_so_many_answers_are_kept(warm, plan, own_cache, monkeypatch):
    monkeypatch.setattr(plan_partitioning, "MOST_FILES", 2)
    for mesh in ("data:4 model:2", "data:2 model:2", "data:2 model:4"):
        start_partition(plan.updated(mesh=Mesh(mesh)), worker=warm).result(PATIENCE)
    wait_until(lambda: len(list((own_cache / "partitioned").glob("*.json"))) == 1)


def test_the_one_worker_of_this_process_answers_for_plans(plan):
    assert partition_plan(plan).collectives == plan.report("partitioned").partitioned.collectives
    assert shared_worker() is engine.shared_worker()


@pytest.mark.parametrize("count", [2, pytest.param(5, marks=pytest.mark.nightly)])
def test_no_edit_is_lost_and_no_answer_is_wrong_when_the_process_is_killed_while_a_session_is_edited(count):
    found = Rounds(secrets.randbelow(1 << 32)).run(count)
    assert {name: found[name] for name in ("kills", "lost", "wrong", "silent", "left")} == {
        "kills": count,
        "lost": 0,
        "wrong": 0,
        "silent": 0,
        "left": 0,
    }, found
