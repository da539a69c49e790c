"""A worker process that is started before there is a job for it."""

import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from tests.support.run_programs import plan
from workbench.app.runners.worker_runner import WorkerRunner
from workbench.engine import prepare_compile, start_compile
from workbench.engine.worker.submit_jobs import _compile_job
from workbench.engine.worker.worker_process import STANDBY, Standby, environment
from workbench.hardware.catalogue import parse_hardware

pytestmark = [pytest.mark.compile, pytest.mark.worker, pytest.mark.cold]


@pytest.fixture(autouse=True)
def _nothing_stays():
    yield
    STANDBY.close()


def key(subject):
    return environment(_compile_job(subject, None, {})), "compile"


def test_a_compilation_takes_the_process_that_waits_and_leaves_another_waiting():
    subject = plan()
    prepare_compile(subject)
    waiting = STANDBY.take(*key(subject))
    assert waiting is not None
    pid = waiting.group.pid
    STANDBY._waiting = waiting
    compiled = start_compile(subject, keep=False).wait()
    assert compiled.devices == subject.mesh.size
    following = STANDBY.take(*key(subject))
    assert following is not None
    assert following.group.pid != pid, "a process does one job: what a job imported is not there in the next"
    following.close()


def test_a_board_has_one_wait_for_what_can_be_compiled():
    WorkerRunner().expect(plan())
    waiting = STANDBY.take(*key(plan()))
    assert waiting is not None
    waiting.close()
    WorkerRunner().expect(plan().updated(hardware=parse_hardware("TPU v5e 2x2")))  # of another size than the mesh
    assert STANDBY._waiting is None


def test_one_prepared_twice_is_started_once_and_one_that_died_anew():
    standby, (settings, kind) = Standby(), key(plan())
    standby.prepare(settings, kind)
    first = standby._waiting
    standby.prepare(settings, kind)
    assert standby._waiting is first
    os.kill(first.group.pid, signal.SIGKILL)
    first.group.wait()
    assert standby.take(settings, kind) is None
    standby.prepare(settings, kind)
    assert standby._waiting is not first
    standby.close()


def test_another_environment_or_folder_is_not_served(monkeypatch, tmp_path):
    standby, (settings, kind) = Standby(), key(plan())
    standby.prepare(settings, kind)
    assert standby.take({**settings, "XLA_FLAGS": "--xla_other=1"}, kind) is None
    monkeypatch.chdir(tmp_path)
    assert standby.take(settings, kind) is None
    standby.close()


def test_who_lets_go_leaves_no_process_behind():
    standby, (settings, kind) = Standby(), key(plan())
    standby.prepare(settings, kind)
    pid = standby._waiting.group.pid
    standby.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("it is still there")


LOWERED = """
import os, sys
from workbench.engine.worker import worker_main

def lower(_by):
    print("jax" in sys.modules, flush=True)
    os._exit(0)

worker_main.raise_niceness = lower
worker_main.main(os.dup(2), *sys.argv[1:])
"""


@pytest.mark.parametrize(("waits_for", "job"), [([], {"kind": "compile", "behind": True}), (["search"], None)], ids=("told", "waiting"))
def test_a_background_worker_lowers_its_priority_before_it_imports_jax(waits_for, job):
    payload = pickle.dumps(job)
    sent = len(payload).to_bytes(8, "big") + payload if job else b""
    with subprocess.Popen([sys.executable, "-c", LOWERED, *waits_for], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        worker.stdin.write(sent)
        worker.stdin.flush()  # it stays open: with its end the worker ends
        assert worker.stdout.read() == b"False\n"
