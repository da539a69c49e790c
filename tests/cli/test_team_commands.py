"""`workbench login`, `push`, `pull`, `submit`, `jobs` against a real server; `workbench team` on a folder of its own."""

import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.team_server import new_store, team_server
from tests.support.team_world import add_things, document, exercise_document, parts_of_server, people_world
from workbench.cli.main import main
from workbench.team.api.api_routes import api_routes
from workbench.team.store.tables import StoredJob
from workbench.team_client import client as client_module

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    store = new_store(folder)
    with team_server(folder, api_routes(), store=store, **parts_of_server(store)) as server:
        yield server, add_things(people_world(store, server.services))


@pytest.fixture
def signed_in(served, tmp_path, monkeypatch, capsys):
    """As Ada, in a folder with a plan."""
    server, world = served
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("WORKBENCH_SERVER", "WORKBENCH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(client_module, "ASKED_EVERY", (0.01, 0.02))
    monkeypatch.chdir(tmp_path)
    Path("my.plan.json").write_text(document(), encoding="utf-8")
    assert main(["login", server.url, "--token", world.tokens["ada"]]) == 0
    capsys.readouterr()
    return server, world


@pytest.mark.compile
def test_a_class_from_the_command_line(signed_in, capsys):
    Path("exercise.json").write_text(exercise_document(), encoding="utf-8")
    Path("right.plan.json").write_text(document("batch:data", hardware="TPU v5e 2x2"), encoding="utf-8")
    of = ["--project", "vision"]
    assert main(["hand-out", "exercise.json", *of, "--name", "Week 7", "--deadline", "2040-06-30T18:00", "--zone", "Mars/Olympus"]) == 1
    assert "no time zone" in capsys.readouterr().err
    assert main(["hand-out", "exercise.json", *of, "--name", "Week 7", "--deadline", "2040-06-30T18:00"]) == 0
    assignment = capsys.readouterr().out.strip().rpartition("/")[2]
    with pytest.raises(SystemExit) as ended:
        main(["hand-in", assignment, "devices", "--answer", "5"])
    assert ended.value.code == 1
    assert "Not yet: 0 of 1 points, try 1." in capsys.readouterr().out
    assert main(["hand-in", assignment, "split", "right.plan.json"]) == 0
    assert capsys.readouterr().out == "Right: 1 of 1 points, try 1.\n"
    assert main(["hand-in", assignment, "split"]) == 1
    assert "give one of PLAN.json and --answer" in capsys.readouterr().err
    assert main(["send-plan", assignment, "--question", "split"]) == 0
    assert capsys.readouterr().out == "Sent to 0 boards; students can undo it.\n"
    assert main(["assignments", *of]) == 0
    assert f"{assignment}           1         3  Week 7, Saturday, 30 June 2040, 18:00 (UTC)" in capsys.readouterr().out
    assert main(["assignments", *of, "--json"]) == 0
    assert assignment in [each["id"] for each in json.loads(capsys.readouterr().out)]


def test_a_login_is_checked_before_it_is_kept(served, tmp_path, monkeypatch, capsys):
    server, world = served
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO(world.tokens["ada"] + "\n"))
    assert main(["login", f"{server.url}/", "--token", "wbt_wrong"]) == 1
    assert "rejected the token" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main(["login", f"{server.url}/"]) == 0
    file = tmp_path / "sharding-workbench" / "logins.json"
    assert capsys.readouterr().out == f"You are Ada (`ada`) at {server.url}; the token is in {file}.\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert main(["logout"]) == 0
    assert main(["push", "my.plan.json"]) == 1


def test_push_prints_the_address_of_the_page_and_pull_gives_the_same_document(signed_in, capsys):
    assert main(["push", "my.plan.json", "--project", "vision", "--note", "half the traffic"]) == 0
    page = capsys.readouterr().out.strip()
    assert main(["pull", page.rpartition("=")[2], "-o", "theirs.plan.json"]) == 0
    assert Path("theirs.plan.json").read_text(encoding="utf-8") == document()
    assert main(["push", "theirs.plan.json", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["project"] == "ada"
    assert main(["pull", entry["digest"]]) == 0
    assert capsys.readouterr().out == document()


def test_submit_follows_a_job_to_its_end(signed_in, capsys, monkeypatch):
    _, world = signed_in
    submit = type(world.services.jobs).submit

    async def run_at_once(self, request):
        job = await submit(self, request)
        events = [{"kind": "started"}, {"kind": "progress", "stage": "compiling"}]
        step = {"kind": "progress", "stage": "running", "of": 20, "loss": 2.5, "seconds": 0.01}
        events += [{**step, "step": number} for number in range(1, 21)] + [{"kind": "done", "seconds": 3.0}]
        self.reported[job] = [{**each, "seq": number + 1, "time": 1.0} for number, each in enumerate(events)]
        with self.store.write() as session:
            session.get_one(StoredJob, job).state = state
            session.get_one(StoredJob, job).problem = "Out of memory." if state == "failed" else ""
        return job

    monkeypatch.setattr(type(world.services.jobs), "submit", run_at_once)
    state = "done"
    assert main(["submit", "my.plan.json", "--project", "vision", "--steps", "20", "--follow"]) == 0
    printed = capsys.readouterr()
    assert re.fullmatch(r"job \w{16} is done\n", printed.out)
    assert printed.err.splitlines()[1:4] == ["started", "compiling ...", "step 1 of 20: 10.0 ms, loss 2.5000"]
    assert len(printed.err.splitlines()) == 14
    state = "failed"
    assert main(["submit", world.things["vision"]["entry"], "--project", "vision", "--follow"]) == 1
    assert "failed. Out of memory." in capsys.readouterr().err


def test_jobs_are_listed_followed_and_cancelled(signed_in, capsys):
    _, world = signed_in
    assert main(["submit", "my.plan.json", "--project", "vision", "--option", "partition=gpu", "--memory", "8 GiB"]) == 0
    job = capsys.readouterr().out.splitlines()[0]
    assert main(["jobs", "--project", "vision", "--state", "queued"]) == 0
    assert job in capsys.readouterr().out
    assert main(["jobs", "cancel", job]) == 0
    assert capsys.readouterr().out == f"Cancelling job {job}.\n"
    with world.store.write() as session:
        session.get_one(StoredJob, job).state = "cancelled"
    assert main(["jobs", "follow", job]) == 0
    assert capsys.readouterr().out == f"job {job} is cancelled\n"
    for words in (["jobs", "follow", job, "--json"], ["jobs", "--json", "follow", job], ["jobs", "cancel", job, "--json"]):
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["state"] == "cancelled"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["push", "nosuch.json"], "`nosuch.json` cannot be read: No such file or directory."),
        (["push", "."], "`.` cannot be read: Is a directory."),
        (["push", "my.plan.json", "--project", "other"], "There is no project `other`, or you may not see it."),
        (["push", "my.plan.json", "--server", "http://127.0.0.1:9", "--token", "x"], "http://127.0.0.1:9 does not answer"),
        (["push", "my.plan.json", "--server", "nowhere"], "`nowhere` is not an address of a server."),
        (["pull", "a" * 16], f"There is no entry `{'a' * 16}`, or you may not see it."),
        (["pull", "../../etc/passwd"], "There is no entry"),
        (["submit", "my.plan.json", "--memory", "much"], '"much" is not an amount of memory.'),
        (["jobs", "cancel", "nosuch"], "There is no job `nosuch`, or you may not see it."),
        (["jobs", "--state", "lost"], "'lost' is not one of"),
    ],
)
def test_what_goes_wrong_is_said_in_words(signed_in, capsys, words, said):
    assert main(words) == 1
    printed = capsys.readouterr()
    assert said in printed.err
    assert "Try: " in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.fixture
def data(tmp_path, monkeypatch, capsys):
    """The folder of a server that was made just now."""
    monkeypatch.setenv("WORKBENCH_TEAM", str(tmp_path / "data"))
    assert main(["team", "init", "--address", "https://plans.example.org/x"]) == 0
    printed = capsys.readouterr().out
    assert "workbench team user add NAME --admin" in printed
    return tmp_path / "data"


def test_a_server_is_made_once_and_left_alone_after(data, capsys):
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    before = (data / "team.toml").read_text()
    assert main(["team", "init", "--address", "https://other.example"]) == 0
    assert (data / "team.toml").read_text() == before


def test_people_are_added_with_a_link_listed_and_disabled(data, capsys):
    assert main(["team", "user", "add", "Ada", "--admin", "--display", "Ada L."]) == 0
    assert re.search(r"https://plans\.example\.org/x/invite/[\w-]{43}\n$", capsys.readouterr().out)
    assert main(["team", "user", "add", "eve"]) == 0
    assert main(["team", "user", "disable", "eve"]) == 0
    capsys.readouterr()
    assert main(["team", "user", "list", "--json"]) == 0
    people = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["admin"], each["active"]) for each in people] == [("ada", True, True), ("eve", False, False)]
    assert main(["team", "user", "list"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ada", "Ada", "L.", "administrator"],
        ["eve", "eve", "disabled"],
    ]
    assert main(["team", "user", "enable", "eve"]) == 0
    assert main(["team", "user", "password", "eve"]) == 0
    assert "/invite/" in capsys.readouterr().out
    for words, said in (
        (["disable", "ada"], "administrator"),
        (["disable", "nobody"], "There is no user `nobody`."),
        (["add", "ada"], "The name `ada` is taken."),
        (["add", "<script>"], "is not a valid name"),
    ):
        assert main(["team", "user", *words]) == 1
        assert said in capsys.readouterr().err


def test_a_token_is_printed_once_and_scopes_are_checked(data, capsys):
    assert main(["team", "user", "add", "ada"]) == 0
    capsys.readouterr()
    assert main(["team", "token", "ada", "--scopes", "read,edit", "--days", "3"]) == 0
    assert re.fullmatch(r"wbt_[\w-]{43}\n", capsys.readouterr().out)
    assert main(["team", "token", "ada", "--scopes", "everything"]) == 1
    assert "There is no scope `everything`" in capsys.readouterr().err


def test_a_backup_is_restored_and_a_store_is_moved(data, tmp_path, capsys):
    assert main(["team", "user", "add", "ada"]) == 0
    for name in ("jobs/a/stdout", "jobs/a/plan.json", "programs/trees/d/mine.py"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text("")
        (data / name).chmod(0o644)
    assert main(["team", "backup", str(tmp_path / "b.tar.gz")]) == 0
    assert main(["team", "backup", str(tmp_path / "b.tar.gz")]) == 1
    assert main(["team", "--data", str(tmp_path / "again"), "restore", str(tmp_path / "b.tar.gz")]) == 0
    again = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "again").rglob("*")}
    assert {name for name, mode in again.items() if mode & 0o077} == {"plan.json", "trees", "d", "mine.py"}
    assert stat.S_IMODE((tmp_path / "b.tar.gz").stat().st_mode) == 0o600
    assert main(["team", "move", f"sqlite:///{tmp_path}/moved.db"]) == 0
    capsys.readouterr()
    assert main(["team", "--data", str(tmp_path / "again"), "user", "list"]) == 0
    assert capsys.readouterr().out.split() == ["ada", "ada"]


def test_a_folder_that_is_none_and_a_database_that_does_not_answer(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WORKBENCH_TEAM", str(tmp_path / "none"))
    assert main(["team", "user", "list"]) == 1
    assert "There is no data of a team server in" in capsys.readouterr().err
    assert main(["team", "init", "--database", "postgresql://nobody:secret@127.0.0.1:9/none"]) == 1
    printed = capsys.readouterr().err
    assert "The database does not answer" in printed
    assert "secret" not in printed
    assert main(["team", "init", "--database", "oracle-of-delphi"]) == 1
    assert "is not an address of a database" in capsys.readouterr().err


@pytest.mark.compile
@pytest.mark.cold
def test_the_served_team_answers_a_token_and_ends_with_sigterm(data, capsys):
    """The server as a process of its own, which has not imported JAX."""
    assert main(["team", "user", "add", "ada"]) == 0
    capsys.readouterr()
    assert main(["team", "token", "ada"]) == 0
    token = capsys.readouterr().out.strip()
    command = [
        sys.executable,
        "-m",
        "workbench.cli",
        "team",
        "--data",
        str(data),
        "serve",
        "--listen",
        f"127.0.0.1:{(port := free_port())}",
    ]
    for name, wide in ((".", 0o755), ("team.toml", 0o644), ("team.db", 0o644)):
        (data / name).chmod(wide)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*command, "--address", f"http://localhost:{port}"], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "Starting the team server ...\n"
        assert process.stdout.readline() == f"The team server is at http://localhost:{port}\n"
        answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/me", headers={"Authorization": f"Bearer {token}"}, timeout=60)
        assert answer.json()["projects"][0]["project"] == "ada"
        if (maps := Path(f"/proc/{process.pid}/maps")).exists():
            assert "jaxlib" not in maps.read_text()
        names = {path: stat.S_IMODE(path.stat().st_mode) for path in (data, *data.rglob("*"))}
        assert {path.name for path, mode in names.items() if mode & 0o077} == {"trees"}
        for words in (["serve", "--listen", f"127.0.0.1:{free_port()}"], ["move", f"sqlite:///{data}/moved.db"]):
            assert main(["team", *words]) == 1
            assert f"The server at http://localhost:{port} uses this database." in capsys.readouterr().err
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
