"""One run over two processes of four devices each, as Open MPI starts them."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.engine.test_spmd_pipeline import network
from tests.support.run_programs import plan
from workbench.engine import execute, start_distributed
from workbench.errors import EngineError
from workbench.models import build
from workbench.public_plan import Plan

pytestmark = [pytest.mark.compile, pytest.mark.worker]

PROGRAM = """
import json, sys
from workbench.cli.main import main
main(["run", sys.argv[1], "--steps", "3", "--check", "--json"])  # it joins the processes
print("END OF COMMAND", flush=True)  # gloo prints more
import jax
from workbench.engine import execute
from tests.support.run_programs import plan
from tests.engine.test_distributed import pipelined
from workbench.errors import EngineError
measured = execute(plan("batch:data; d_ff:model"), steps=4, check=True)
whole = execute(plan("batch:model; d_ff:data"), steps=2, profile=False)
stages = execute(pipelined("schedule:gpipe engine:spmd"), steps=2, warmup=1, profile=False)
try:
    refused = execute(pipelined("schedule:gpipe"), steps=1)
except EngineError as error:
    refused = str(error)
print(json.dumps({
    "process": jax.process_index(), "processes": measured.processes, "devices": measured.devices, "losses": measured.losses,
    "agree": measured.shards_agree and whole.shards_agree, "error": measured.max_error, "others": whole.losses,
    "compiled": sorted(map(str, measured.compiled.items())), "refused": refused,
    "stages": {"losses": stages.losses, "compiled": sorted(map(str, stages.compiled)), "processes": stages.processes},
}))
"""


def pipelined(how):
    """A pipeline of equal layers, or with `None` the same without."""
    pipeline = None if how is None else f"stages:2 micro_batches:3 {how}"
    return Plan(network(stacked=True), "stage:2 data:4", "batch:data", pipeline=pipeline)


def launched(rank, port):
    """The environment `mpirun -n 2` gives process `rank`; JAX takes the coordinator's port from the job's number."""
    job = (port - (65535 - 4096 + 1)) * 4096
    return {
        **os.environ,
        "OMPI_MCA_orte_hnp_uri": f"{job}.0;tcp://127.0.0.1:{port}",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "4",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def free_port():
    for port in range(65535 - 4096 + 1, 65535):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no free port")


def run_two(*command):
    """What each of two launched processes printed."""
    port = free_port()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        workers = [
            stack.enter_context(subprocess.Popen([sys.executable, *command], env=launched(rank, port), **pipes)) for rank in range(2)
        ]
        stack.callback(lambda: [worker.kill() for worker in workers])
        ends = [(*worker.communicate(timeout=150), worker.returncode) for worker in workers]
    assert [code for *_, code in ends] == [0, 0], ends[0][1][-3000:]
    return ends


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The output of the command line and that of `PROGRAM`, of each of two processes."""
    path = tmp_path_factory.mktemp("plan") / "mnist.plan.json"
    Plan(build("mnist"), "data:4 model:2", "batch:data; hidden:model").save(path)
    return [out.split("END OF COMMAND\n") for out, *_ in run_two("-c", PROGRAM, str(path))]


@pytest.fixture(scope="module")
def told(printed):
    return [json.loads(text.splitlines()[-1]) for _, text in printed]


def test_the_command_line_runs_a_saved_plan_under_the_launcher(printed):
    (first, _), (second, _) = printed
    told = json.loads(first)
    assert (told["processes"], told["devices"], told["shards_agree"], len(told["losses"])) == (2, 8, True, 3)
    assert told["max_error"] < 1e-4
    assert second == ""  # process 0 speaks for all


def test_two_processes_train_as_one_does(told):
    alone = execute(plan("batch:data; d_ff:model"), steps=4)
    assert [each["process"] for each in told] == [0, 1]
    assert {**told[0], "process": 1} == told[1]
    assert (told[0]["processes"], told[0]["devices"], told[0]["agree"]) == (2, 8, True)
    assert told[0]["error"] < 1e-5
    np.testing.assert_allclose(told[0]["losses"], alone.losses, rtol=1e-6)
    np.testing.assert_allclose(told[0]["others"], alone.losses[:2], rtol=1e-5)
    assert told[0]["compiled"] == sorted(map(str, alone.compiled.items()))


def test_a_pipeline_in_step_runs_over_two_processes_and_loses_what_the_unpipelined_step_does(told):
    """Each stage is a process's four devices: what shifts goes from one process to the other."""
    stages = told[0]["stages"]
    assert stages["processes"] == 2
    assert any("stage" in each and "collective-permute" in each for each in stages["compiled"])
    alone = execute(pipelined(None), steps=2, warmup=0, profile=False)
    np.testing.assert_allclose(stages["losses"], alone.losses, rtol=5e-6)


def test_stages_that_are_programs_of_their_own_are_refused_over_processes_with_the_engine_that_can(told):
    assert "set engine:spmd in the pipeline" in told[0]["refused"]


def test_without_a_launcher_the_ways_to_start_are_named():
    with pytest.raises(EngineError, match="The processes could not join") as caught:
        start_distributed()
    assert "omit it to run in one process" in caught.value.ways_out
