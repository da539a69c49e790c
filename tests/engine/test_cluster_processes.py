"""Processes on a cluster are what they are here: the same results, events, cancellations and deaths. Ray itself is asked where the extra
`ray` is installed, else a stand-in that starts the same processes."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from tests.support.run_programs import plan
from tests.support.team_rooms import within
from workbench.core.import_path import python_path
from workbench.documents import dump_plan
from workbench.engine import compile_plan, start_compile, start_run
from workbench.engine.cluster.process_relay import CLUSTER, command_on_cluster
from workbench.engine.cluster.ray_cluster import verify_shared_cluster
from workbench.engine.worker.job_payload import WorkerJob
from workbench.engine.worker.worker_process import environment
from workbench.errors import EngineError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.run_events import Cancelled, Progress
from workbench.team.programs.program_registry import PLANNER

pytestmark = [pytest.mark.compile, pytest.mark.worker, pytest.mark.cold]
RAY = """
import sys, ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
print("there", flush=True)
sys.stdin.read()
"""
RELAY, WORKER = "workbench.engine.cluster.process_relay", "workbench.engine.worker.worker_main"
FAKE_RAY = str(Path(__file__).parents[1] / "support" / "fake_ray")


@pytest.fixture(params=["ray", "stand-in"])
def cluster(request, monkeypatch):
    """Its address, which worker processes find in the environment."""
    if request.param == "stand-in":
        monkeypatch.syspath_prepend(FAKE_RAY)
        monkeypatch.setenv(CLUSTER, "auto")
        yield "auto"
        return
    if importlib.util.find_spec("ray") is None:
        pytest.skip('the extra "ray" is not installed')
    monkeypatch.setenv(CLUSTER, "auto")
    with subprocess.Popen([sys.executable, "-c", RAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as head:
        assert head.stdout.readline() == b"there\n"
        yield "auto"
        head.stdin.close()


def processes(module):
    """The numbers of the processes that run a module, begun by this one or by what it began: other tests have some of their own."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if module in each.cmdline():
                found.append(each.pid)
    return found


def test_what_is_compiled_there_is_what_is_compiled_here(cluster, monkeypatch):
    wanted, events = Plan(build("two_layer"), "data:4", "batch:data", hardware="TPU v5e 2x2"), []
    monkeypatch.setenv("WORKBENCH_CACHE", "off")
    there = compile_plan(wanted, on_progress=events.append, keep=False)
    monkeypatch.delenv(CLUSTER)
    here = compile_plan(wanted, keep=False)
    assert there.memory == here.memory
    assert there.collectives == here.collectives
    assert {"lowering", "compiling"} <= {each.stage for each in events if isinstance(each, Progress)}


def test_a_compilation_there_is_cancelled_and_its_process_ends(cluster):
    events = []
    handle = start_compile(Plan(build("gpt"), "data:4", "batch:data", hardware="TPU v5e 2x2"), on_event=events.append, keep=False)
    within(lambda: processes(WORKER))
    handle.cancel()
    with pytest.raises(EngineError):
        handle.wait()
    assert isinstance(events[-1], Cancelled)
    within(lambda: not processes(WORKER))


def test_a_process_that_dies_there_is_said_as_one_that_dies_here(cluster):
    events = []
    handle = start_compile(Plan(build("gpt"), "data:4", "batch:data", hardware="TPU v5e 2x2"), on_event=events.append, keep=False)
    there = within(lambda: [each for each in processes(WORKER) if each not in processes(RELAY)])
    os.kill(there[0], signal.SIGKILL)
    with pytest.raises(EngineError, match="SIGKILL"):
        handle.wait()


def test_a_run_needs_devices_and_stays_here(cluster):
    job = WorkerJob("run", "run", plan(), {})
    assert environment(job)[CLUSTER] == ""
    assert environment(WorkerJob("compile", "compilation", plan(), {}))[CLUSTER] == cluster
    handle = start_run(plan(), steps=1)
    assert handle.wait().devices == 8


def test_a_room_is_planned_there(cluster):
    ours, theirs = socket.socketpair()
    with theirs:
        relay = subprocess.Popen(
            command_on_cluster(cluster, PLANNER, theirs.fileno()),
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": python_path()},
        )
    with Connection(ours.detach()) as connection:
        assert "ready" in json.loads(connection.recv_bytes())
        document = dump_plan(Plan(build("two_layer"), "data:4", "batch:data"))
        connection.send_bytes(json.dumps({"describe": {"document": document}, "number": 1}).encode())
        answer = json.loads(connection.recv_bytes())
        assert answer["answers"] == 1
        assert answer["described"]["target"] == "two_layer"
    assert relay.wait(30) != 0  # it is ended by us
    within(lambda: not processes(PLANNER))


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("local", "Cluster `local` supports one process, but several are needed."),
        ("ray://127.0.0.1:1", "No Ray cluster answers at ray://127.0.0.1:1."),
        ("head:6379", "`head:6379` is not an address of a cluster; it should be `ray://HOST:PORT`, `auto` or `local`."),
    ],
)
def test_an_address_that_several_cannot_join_is_refused_before_anything_starts(address, text):
    with pytest.raises(EngineError) as caught:
        verify_shared_cluster(address)
    assert caught.value.message == text


def test_a_cluster_that_is_lost_is_said_in_the_words_of_ray(monkeypatch):
    monkeypatch.syspath_prepend(FAKE_RAY)
    monkeypatch.setenv(CLUSTER, "ray://127.0.0.1:1")
    with pytest.raises(EngineError, match=r"No Ray cluster answers at ray://127\.0\.0\.1:1") as caught:
        compile_plan(Plan(build("two_layer"), "data:4", "batch:data", hardware="TPU v5e 2x2"), keep=False)
    assert "Traceback" not in str(caught.value)
