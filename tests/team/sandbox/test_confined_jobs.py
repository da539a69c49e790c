"""A job of a registered program: the command line that its supervisor starts, in a sandbox."""

import json
import subprocess
import sys

import pytest

from tests.support.team_sandbox import ability_here
from workbench.team.data_folder import private_data
from workbench.team.jobs.job_folder import write_folder
from workbench.team.jobs.job_spec import JobSpec
from workbench.team.programs.program_tree import TreeStore, seal_tree
from workbench.team.sandbox.resource_limits import OVERRIDES, SandboxLevel, SandboxPolicy

JOB = """
import json, pathlib, sys
plan, events, outside = sys.argv[1:]
found = {"plan": pathlib.Path(plan).read_text()}
for name, path in (("outside", outside), ("spec", str(pathlib.Path(plan).with_name("spec.json")))):
    try:
        pathlib.Path(path).write_text("mine")
        found[name] = "written"
    except OSError as error:
        found[name] = type(error).__name__
with open(events, "a") as file:
    file.write(json.dumps(found))
import program
print(program.NAME)
"""


@pytest.fixture
def job(tmp_path):
    """A job's folder, a program's files, as they are in the private folder of a server, and a file that is neither's."""
    data = tmp_path / "data"
    folder, trees = data / "jobs" / "job", data / "programs" / "trees"
    with private_data(data):
        write_folder(folder, JobSpec(plan="d" * 64), "a plan", [], {})
        (folder / "events.jsonl").touch()
        with (store := TreeStore(trees)).staging() as staged:
            (staged / "program.py").write_text("NAME = 'of the team'")
            store.keep(staged, digest := seal_tree(staged))
            program = trees / digest
    assert data.stat().st_mode & 0o077 == 0
    return folder, program, tmp_path / "outside"


POLICY = SandboxPolicy().arguments()


def confined(folder, program, *command):
    where = (str(folder), str(program), "60", *POLICY)
    arguments = [sys.executable, "-P", "-m", "workbench.team.sandbox.sandboxed_job_main", *where, "--", *command]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)


def test_it_reads_its_plan_and_writes_its_events_and_nothing_else(job):
    if ability_here().level is not SandboxLevel.SANDBOXED:
        pytest.skip(ability_here().reason)
    folder, program, outside = job
    spec = (folder / "spec.json").read_text()
    done = confined(folder, program, sys.executable, "-c", JOB, str(folder / "plan.json"), str(folder / "events.jsonl"), str(outside))
    assert (done.returncode, done.stdout) == (0, "of the team\n"), done.stderr
    found = json.loads((folder / "events.jsonl").read_text())
    assert found["plan"] == "a plan"
    assert found["outside"] != "written"
    assert not outside.exists()
    assert (folder / "spec.json").read_text() == spec


def test_how_it_ended_is_said_after_what_it_wrote(job):
    if ability_here().level is not SandboxLevel.SANDBOXED:
        pytest.skip(ability_here().reason)
    folder, program, _ = job
    done = confined(folder, program, sys.executable, "-c", "import sys; print('half', file=sys.stderr); sys.exit(3)")
    assert done.returncode == 1
    assert done.stderr.startswith("half")
    assert "3" in done.stderr


@pytest.mark.parametrize(("variable", "policy"), [("", ()), *((name, ()) for name in OVERRIDES), ("", ("1",))])
def test_without_a_sandbox_it_is_refused_unless_an_administrator_said_otherwise(job, tmp_path, monkeypatch, variable, policy):
    """The first case is refused; then an administrator of the machine says so in its environment, and one of the server in `team.toml`."""
    from workbench.team.sandbox import sandboxed_job_main

    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no bubblewrap
    for name in OVERRIDES:
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "1")
    folder, program, outside = job
    words = SandboxPolicy(without_sandbox=bool(policy)).arguments()
    status = sandboxed_job_main.main([str(folder), str(program), "60", *words, "--", "/bin/sh", "-c", f"echo ran > {outside}"])
    assert (status, outside.exists()) == ((0, True) if variable or policy else (sandboxed_job_main.REFUSED, False))
