"""Every engine that can be had on one machine: the same job, submitted, followed, cancelled, found again."""

import os
import stat
import sys

import pytest

from tests.support.team_jobs import Heard, dispatching, in_a_process, job_of, states_of, tiny_command, tiny_spec, wait_until
from workbench.team.jobs.dispatcher import Dispatcher
from workbench.team.jobs.job_events import read_events
from workbench.team.jobs.job_folder import read_exit
from workbench.team.jobs.job_spec import JobError, JobSpec
from workbench.team.jobs.job_supervisor import own_processes, process_variables
from workbench.team.jobs.local_engine import LocalEngine
from workbench.team.jobs.slurm import Slurm
from workbench.team.team_setup import ALL_ENGINES

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")  # submitit lets its controller go

SLURM = {
    "sbatch": 'setsid bash "$1" >/dev/null 2>&1 & echo $! > "$HERE/42"; echo "Submitted batch job 42"',
    "srun": 'while [ "${1#-}" != "$1" ]; do case "$1" in --output|--error) shift;; esac; shift; done; exec "$@"',
    "squeue": 'kill -0 $(cat "$HERE/42") 2>/dev/null && echo RUNNING || { echo "error: Invalid job id specified" >&2; exit 1; }',
    "scancel": 'kill -TERM -- -$(cat "$HERE/42")',
}
"""Four commands that answer as Slurm's do, and have one job: the script that submitit has written runs on this machine."""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """The engine of Slurm with stand-ins for its commands."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in SLURM.items():
        (folder / name).write_text(f"#!/bin/bash\nHERE={folder}\n{script}\n")
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    engine = Slurm()
    engine.patience, engine.interval = 1.0, 0.2
    return engine


@pytest.fixture(params=["here", "submitit", "slurm"])
def engine(request):
    if request.param == "slurm":
        return request.getfixturevalue("slurm")
    return Slurm("local") if request.param == "submitit" else LocalEngine()


def dispatcher_of(store, tmp_path, engine):
    return Dispatcher(store, tmp_path / "jobs", [engine], command=tiny_command)


def test_a_job_runs_to_its_end(engine, store, tmp_path):
    with dispatching(dispatcher_of(store, tmp_path, engine)) as dispatcher:
        heard = Heard(dispatcher)
        job_id = dispatcher.put(tiny_spec(steps=2), engine.name, project_id="alpha", author_id="ada")
        heard.wait_for(lambda it: it.states(job_id)[-1:] in (["done"], ["failed"]))
    assert job_of(store, job_id).problem == ""
    assert heard.kinds(job_id) == ["started", "progress", "progress", "measured", "done"]
    assert not list((tmp_path / "jobs" / job_id).rglob("*.pkl"))


def test_a_job_is_cancelled_by_the_server_after_the_one_that_submitted_it(engine, store, tmp_path):
    first = dispatcher_of(store, tmp_path, engine)
    job_id = first.put(tiny_spec(steps=10_000, options={} if engine.name == "slurm" else {"pause": "5"}), engine.name, **ADA)
    with dispatching(first):
        wait_until(lambda: bool(first.read_events(job_id)))
    with dispatching(dispatcher_of(store, tmp_path, engine)) as second:
        second.end(job_id)
        wait_until(lambda: states_of(store)[job_id] == "cancelled")
    assert second.lanes[engine.name].reattached == 1
    assert second.read_events(job_id)[-1].kind == "cancelled"


ADA = {"project_id": "alpha", "author_id": "ada"}


def test_slurm_is_given_a_script_with_what_the_spec_says_and_nothing_of_the_servers_environment(slurm, store, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "of the server")
    options = {"partition": "gpu", "gpus_per_node": "4", "constraint": "a100&ib"}
    spec = tiny_spec(minutes=10, memory=3 << 30, options=options, environment={"XLA_FLAGS": "--xla_cpu_use_thunk_runtime=true"})
    with dispatching(dispatcher_of(store, tmp_path, slurm)) as dispatcher:
        job_id = dispatcher.put(spec, "slurm", **ADA)
        wait_until(lambda: states_of(store)[job_id] == "done")
    (script,) = (tmp_path / "jobs" / job_id / "submitit").glob("*_submission.sh")
    lines = script.read_text().splitlines()
    for line in ("partition=gpu", "gpus-per-node=4", "constraint='a100&ib'", "mem=3072MB", "time=13", "export=NONE", "nodes=1"):
        assert f"#SBATCH --{line}" in lines
    assert lines[-1].endswith(f"{sys.executable} -m workbench.team.jobs.job_supervisor {tmp_path / 'jobs' / job_id}")
    assert "of the server" not in script.read_text()


def test_a_job_that_slurm_refuses_fails_with_slurms_words(slurm, store, tmp_path):
    (tmp_path / "bin" / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: gpu' >&2\nexit 1\n")
    with dispatching(dispatcher_of(store, tmp_path, slurm)) as dispatcher:
        job_id = dispatcher.put(tiny_spec(), "slurm", **ADA)
        wait_until(lambda: states_of(store)[job_id] == "failed")
    assert "Slurm rejected the job: sbatch: error: invalid partition specified: gpu" in job_of(store, job_id).problem


@pytest.mark.parametrize("make", ALL_ENGINES, ids=lambda make: make.name)
def test_every_engine_refuses_in_words_what_it_cannot_do(make, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "ray", None)
    tmp_path.joinpath("spec.json").write_text("{}")
    with pytest.raises(JobError) as caught:
        make().submit(tiny_spec(), tmp_path)
    assert caught.value.ways_out


RANKS = [
    ({}, (0, 4)),
    ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, (3, 1)),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, (0, 4)),
    ({"SUBMITIT_LOCAL_GLOBALID": "1", "SUBMITIT_LOCAL_NTASKS": "4"}, (1, 1)),
    ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, (2, 1)),
    ({"WORKBENCH_HOST": "1"}, (2, 2)),
    ({"JOB_COMPLETION_INDEX": "1"}, (2, 2)),
]


@pytest.mark.parametrize(("environment", "expected"), RANKS, ids=str)
def test_a_supervisor_finds_out_which_processes_are_its_own(environment, expected):
    assert own_processes(environment, tiny_spec(hosts=2, processes=2, devices=8)) == expected


HOSTS = {"": "127.0.0.1", "node1": "node1", "node001,host2": "node001", "node[001-015],host2": "node001", "n[7]": "n7", "n[07,9]": "n07"}


@pytest.mark.parametrize("nodes", HOSTS)
def test_processes_meet_at_the_first_host_at_the_jobs_own_port(nodes):
    spec = tiny_spec(hosts=2, processes=2, devices=8)
    found = process_variables(3, spec, "abc", {"SLURM_STEP_NODELIST": nodes})
    host, _, port = found["JAX_COORDINATOR_ADDRESS"].partition(":")
    assert (host, found["WORKBENCH_PROCESSES"], found["WORKBENCH_PROCESS"], found["JAX_NUM_CPU_DEVICES"]) == (HOSTS[nodes], "4", "3", "2")
    assert port != process_variables(3, spec, "another", {})["JAX_COORDINATOR_ADDRESS"].partition(":")[2]
    assert process_variables(0, JobSpec(plan=spec.plan, devices=8), "abc", {}) == {}


def test_of_several_processes_one_that_fails_ends_the_others(store, tmp_path):
    script = '[ "$WORKBENCH_PROCESS" = 1 ] && exit 7; sleep 1000'
    dispatcher = Dispatcher(store, tmp_path / "jobs", [LocalEngine()], command=lambda *_: ["/bin/sh", "-c", script])
    folder = dispatcher._write_folder("abc", tiny_spec(processes=2, devices=2), LocalEngine())
    code = f"from workbench.team.jobs import job_supervisor; job_supervisor.PEERS_GRACE = 0.1; job_supervisor.main([{str(folder)!r}])"
    with in_a_process(code) as supervisor:
        supervisor.wait(timeout=60)
    assert read_exit(folder)["code"] == 7
    (ending,) = read_events(folder / "events.jsonl")
    assert ending.fields["message"].startswith("Process 1 of the job ended with exit code 7")
    assert (folder / "stdout.1").exists()
