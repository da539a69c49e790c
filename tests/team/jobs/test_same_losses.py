"""The same plan gives the same losses bit for bit whichever engine runs it, and its events are of the same shape."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

import workbench.team.jobs.job_events as events_module
from tests.support.slurm_cluster import is_installed, running_slurm
from tests.support.team_jobs import DIGEST, wait_until
from workbench.models import build
from workbench.public_plan import Plan
from workbench.team.jobs.job_events import read_events
from workbench.team.jobs.job_folder import read_exit, read_tail, write_folder
from workbench.team.jobs.job_spec import JobSpec, command_line
from workbench.team.jobs.local_engine import EngineUnavailableError, LocalEngine
from workbench.team.jobs.ray import Ray
from workbench.team.jobs.slurm import Slurm

pytestmark = [
    pytest.mark.compile,
    pytest.mark.worker,
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),  # submitit lets its controller go
]
SCHEMA = json.loads(Path(events_module.__file__).with_name("events.schema.json").read_text())
SPEC = JobSpec(plan=DIGEST, steps=3, processes=2, devices=2)
CPU = {"JAX_PLATFORMS": "cpu"}
KINDS = ["started", *["progress"] * 9, "measured", "done"]


@pytest.fixture(scope="module")
def document():
    return json.dumps(json.loads(plan_text()))


def plan_text():
    from workbench.documents import dump_plan

    return dump_plan(Plan(build("mnist", batch=16, hidden=16), "data:2", "batch:data"))


def run_by(engine, document, folder):
    """The events of both processes of a job that an engine runs."""
    write_folder(folder, SPEC, document, command_line(SPEC, folder), CPU)
    native = submitted(engine, folder)
    wait_until(lambda: read_exit(folder), 300.0)
    wait_until(lambda: engine.state(native) == "gone")
    assert read_exit(folder)["code"] == 0, read_tail(folder, "stderr")
    return found_in(folder)


def submitted(engine, folder):
    """As a lane does: an engine that has only just started is asked again."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return engine.submit(SPEC, folder)
        except EngineUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(1.0)


def found_in(folder):
    found = [read_events(folder / name) for name in ("events.jsonl", "events.1.jsonl")]
    for each in (*found[0], *found[1]):
        jsonschema.validate(each.record(), SCHEMA)
    assert [[each.kind for each in of] for of in found] == [KINDS, KINDS]
    assert [of[0].fields["process"] for of in found] == [0, 1]
    losses = [of[-2].fields["figures"]["losses"] for of in found]
    assert losses[0] == losses[1]
    assert [each.fields["loss"] for each in found[0] if each.kind == "progress" and each.fields["step"]] == losses[0]
    return losses[0]


def by_mpirun(document, folder):
    folder.mkdir()
    (folder / "plan.json").write_text(document)
    environment = {**os.environ, **CPU, "JAX_NUM_CPU_DEVICES": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = ["mpirun", *as_root, "--oversubscribe", "-n", "2", *command_line(SPEC, folder)]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    return found_in(folder)


@contextmanager
def ray_cluster(folder):
    """A cluster of this machine, with the dashboard that takes jobs."""
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0)), two.bind(("127.0.0.1", 0))
        port, dashboard = one.getsockname()[1], two.getsockname()[1]
    options = {"port": port, "dashboard-port": dashboard, "dashboard-host": "127.0.0.1", "num-cpus": 2, "object-store-memory": 80_000_000}
    command = [shutil.which("ray", path=str(Path(sys.executable).parent)), "start", "--head", "--block", "--disable-usage-stats"]
    command += [f"--{name}={value}" for name, value in options.items()]
    with subprocess.Popen([*command, f"--temp-dir={folder}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as head:
        try:
            wait_until(lambda: listens(dashboard) or head.poll() is not None, 120.0)
            yield f"http://127.0.0.1:{dashboard}"
        finally:
            head.terminate()  # ends what it has started


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def by_ray(document, folder):
    pytest.importorskip("ray")
    if importlib.util.find_spec("aiohttp_cors") is None:
        pytest.skip("Ray's Jobs API is not installed")
    with ray_cluster(Path("/tmp") / f"ray{os.getpid()}") as address:
        return run_by(Ray(address), document, folder)


def test_a_plan_runs_over_two_processes_of_this_machine_and_loses_what_it_loses_in_one(document, tmp_path):
    from workbench.documents import parse_plan
    from workbench.engine import execute

    alone = execute(parse_plan(document), steps=3, profile=False)
    assert run_by(LocalEngine(), document, tmp_path / "here") == pytest.approx(list(alone.losses), rel=1e-5)


@pytest.fixture(scope="module")
def here(document, tmp_path_factory):
    return run_by(LocalEngine(), document, tmp_path_factory.mktemp("jobs") / "here")


@pytest.mark.nightly
def test_submitit_gives_the_losses_of_this_machine_to_the_bit(here, document, tmp_path):
    assert run_by(Slurm("local"), document, tmp_path / "local") == here


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")
def test_open_mpi_gives_the_losses_of_this_machine_to_the_bit(here, document, tmp_path):
    assert by_mpirun(document, tmp_path / "mpi") == here


@pytest.mark.nightly
def test_ray_gives_the_losses_of_this_machine_to_the_bit(here, document, tmp_path):
    assert by_ray(document, tmp_path / "ray") == here


@pytest.mark.nightly
@pytest.mark.skipif(not is_installed(), reason="Slurm is not installed, or not to be started")
def test_slurm_gives_the_losses_of_this_machine_to_the_bit(here, document, tmp_path, monkeypatch):
    folder = Path("/tmp") / f"slurm{os.getpid()}"  # sockets take a short path
    folder.mkdir(mode=0o755)
    try:
        with running_slurm(folder) as configuration:
            monkeypatch.setenv("SLURM_CONF", str(configuration))
            assert run_by(Slurm(), document, tmp_path / "slurm") == here
    finally:
        shutil.rmtree(folder, ignore_errors=True)
