"""`wb.connect` against a real server on the loopback address."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import workbench as wb
from tests.support.team_server import new_store, team_server
from tests.support.team_world import add_things, document, exercise_document, make_token, parts_of_server, people_world
from workbench.documents import parse_plan
from workbench.team.api.api_routes import api_routes
from workbench.team.store.tables import StoredJob
from workbench.team_client import client as client_module
from workbench.team_client.saved_logins import ServerLogin, TeamServerError, find_login, forget_login, login_file, save_login

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    store = new_store(folder)
    with team_server(folder, api_routes(), address="", store=store, **parts_of_server(store)) as server:
        yield server, add_things(people_world(store, server.services))


@pytest.fixture(autouse=True)
def nobodys_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("WORKBENCH_SERVER", "WORKBENCH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(client_module, "ASKED_EVERY", (0.01, 0.02))


@pytest.fixture
def team(served):
    server, world = served
    with wb.connect(server.url, world.tokens["ada"]) as team:
        yield team


def test_what_is_pushed_is_pulled_again(team):
    plan = parse_plan(document())
    entry = team.push(plan, "vision", name="Split batch", note="half the traffic")
    assert (entry.name, entry.note, entry.author, entry.mesh) == ("Split batch", "half the traffic", "ada", "data:4")
    assert team.pull(entry.digest) == team.pull(entry.id) == plan
    assert team.document(entry.digest) == document()
    assert entry.figures["planned"]["peak_bytes"] > 0
    assert entry.page.endswith(f"/p/vision/?plan={entry.id}")


def test_a_class_hands_out_and_in(served):
    server, world = served
    with wb.connect(server.url, world.tokens["ed"]) as teacher, wb.connect(server.url, world.tokens["stu"]) as student:
        made = teacher.hand_out(exercise_document(), "vision", name="Week 5", deadline="2040-06-30T18:00", zone="Europe/Berlin")
        assert (made.name, made.points, made.begun) == ("Week 5", 3.0, 0)
        assert "/room/" in student.begin(made.id)
        wrong = student.hand_in(made.id, "split", parse_plan(document("", hardware="TPU v5e 2x2")))
        assert not wrong
        assert wrong.hints == ("Split the batch.",)
        assert student.hand_in(made.id, "split", document("batch:data", hardware="TPU v5e 2x2"))
        assert student.hand_in(made.id, "devices", "4").score == 1.0
        student.hand_in(made.id, "devices", "4")
        assert teacher.send_plan(made.id, question="split") == 0, "who has answered keeps the board"
        assert "/room/" in teacher.begin(made.id)
        assert teacher.send_plan(made.id, "stu") == 1
        with pytest.raises(TeamServerError, match="has not started"):
            teacher.send_plan(made.id, "vic")
        [mine] = [each for each in student.assignments("vision") if each.id == made.id]
        assert (mine.score, mine.begun, mine.deadline_text) == (2.0, 2, "Saturday, 30 June 2040, 18:00 (Europe/Berlin)")


def test_a_plan_without_a_project_goes_into_ones_own(team):
    assert team.push(document("hidden:data")).project == "ada"
    assert {(each.slug, each.role, each.personal) for each in team.projects()} == {("ada", "owner", True), ("vision", "owner", False)}


def test_plans_are_searched_over_all_parts_of_a_list(team):
    for number in range(5):
        team.push(document("", f"data:{2**number}"), "ada", name=f"many {number}")
    found = team.plans("ada", q="many", limit=3)
    assert len(found) == 3
    assert {each.name for each in team.plans(q="many")} >= {f"many {number}" for number in range(5)}
    assert team.plans("vision", hardware="v5e", dimension="hidden", fits=True)[0].hardware == "TPU v5e 2x4"


def test_a_job_is_submitted_followed_and_waited_for(team, served):
    _, world = served
    job = team.submit(parse_plan(document()), "vision", steps=3)
    assert job.get().state == "queued"
    with pytest.raises(TeamServerError, match="is queued after 0 seconds"):
        job.wait(0)
    end = {"seq": 2, "time": 2.0, "kind": "done", "seconds": 1.0}
    world.services.jobs.reported[job.id] = [{"seq": 1, "time": 1.0, "kind": "started"}, end]
    with world.store.write() as session:
        session.get_one(StoredJob, job.id).state = "done"
    assert [each["kind"] for each in job.events()] == ["started", "done"]
    assert job.wait().has_ended
    assert team.job(job.id).get() == team.jobs("vision", state="done")[0]
    waiting = team.submit(team.plans("vision")[0], steps=1)
    assert not waiting.cancel().has_ended


def test_events_come_as_they_are_written(team, served):
    _, world = served
    job = team.submit(parse_plan(document()), "vision")
    events, seen = world.services.jobs.reported.setdefault(job.id, []), []

    def follow():
        seen.extend(job.events())

    thread = threading.Thread(target=follow)
    thread.start()
    for seq in range(1, 4):
        events.append({"seq": seq, "time": 1.0, "kind": "progress", "step": seq, "of": 3})
    with world.store.write() as session:
        session.get_one(StoredJob, job.id).state = "done"
    thread.join(20)
    assert [each["seq"] for each in seen] == [1, 2, 3]


def test_what_the_server_refuses_is_said_in_its_words(team, served):
    server, world = served
    with pytest.raises(TeamServerError) as refused:
        team.push("{}", "vision")
    assert refused.value.status == 400
    assert "not a plan document" in str(refused.value)
    with pytest.raises(TeamServerError, match="There is no project `nosuch`, or you may not see it"):
        team.plans("nosuch")
    with wb.connect(server.url, make_token(world, "ada", ("read",))) as reader, pytest.raises(TeamServerError, match="may not `edit`"):
        reader.push(document(), "vision")
    with wb.connect(server.url, "wbt_wrong") as stranger, pytest.raises(TeamServerError) as refused:
        stranger.me()
    assert refused.value.ways_out[0] == f"workbench login {server.url}"
    with pytest.raises(TeamServerError, match="`plan` is 3"):
        team.push(3)


def test_a_server_that_does_not_answer_is_said_in_words():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with wb.connect(url, "wbt_x") as team, pytest.raises(TeamServerError) as error:
        team.me()
    assert str(error.value) == (
        f"{url} does not answer: connection refused.\n"
        "  Try: check the address · is the server running? `workbench team serve` starts one · workbench login URL for another."
    )


class Stranger(BaseHTTPRequestHandler):
    """A page of somebody else, and a redirect that would take the token along."""

    seen = ()

    def do_GET(self):
        Stranger.seen += (self.headers["Authorization"],)
        self.send_response(302 if "projects" in self.path else 200)
        self.send_header("Location", "/stolen")
        self.end_headers()
        self.wfile.write(b"<html>Sign in</html>")

    def log_message(self, *_):
        pass


def test_another_server_is_said_in_words_and_no_redirect_is_followed():
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with wb.connect(f"http://127.0.0.1:{server.server_port}", "wbt_x") as team:
            for ask, status in ((team.me, 200), (team.projects, 302)):
                with pytest.raises(TeamServerError, match=rf"answers \(HTTP {status}\), but it is not a team server"):
                    ask()
        server.shutdown()
    assert Stranger.seen == ("Bearer wbt_x",) * 2


def test_a_login_is_kept_where_its_owner_alone_can_read_it(monkeypatch):
    with pytest.raises(TeamServerError, match="No team server is given"):
        find_login()
    save_login(ServerLogin("https://a.example", "wbt_a"))
    path = save_login(ServerLogin("https://b.example/x", "wbt_b"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (find_login().token, find_login("https://a.example/").token) == ("wbt_b", "wbt_a")
    with pytest.raises(TeamServerError, match="no token for https"):
        find_login("https://other.example")
    monkeypatch.setenv("WORKBENCH_SERVER", "https://a.example")
    assert find_login() == ServerLogin("https://a.example", "wbt_a")
    monkeypatch.setenv("WORKBENCH_TOKEN", "wbt_env")
    assert find_login().token == "wbt_env"
    assert "wbt" not in repr(find_login())
    assert forget_login("https://b.example/x")
    assert not forget_login("https://b.example/x")
    assert json.loads(path.read_text())["default"] == "https://a.example"
    login_file().write_text("{")
    with pytest.raises(TeamServerError, match="cannot be read"):
        find_login()


@pytest.mark.parametrize("url", ["plans.example.org", "ftp://x", "https://", "https://u:p@x", "http://[::1", "http://x:99999", ""])
def test_an_address_that_is_none(url):
    with pytest.raises(TeamServerError):
        find_login(url or " ", "wbt_x")


def test_connecting_and_pushing_text_imports_neither_jax_nor_the_server():
    code = (
        "import sys, workbench as wb\n"
        "team = wb.connect('http://127.0.0.1:9', 'wbt_x')\n"
        "try: team.push('{}', 'p')\n"
        "except wb.WorkbenchError as error: print(error.message)\n"
        "print(sorted(each for each in sys.modules if each in ('jax', 'numpy', 'sqlalchemy', 'tornado', 'workbench.team')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stdout.splitlines() == ["http://127.0.0.1:9 does not answer: connection refused.", "[]"]
