"""A team's server as it is served to people, with people, a project, a plan and rooms in its store; and what its processes use."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from served_load import free_port

REPOSITORY = Path(__file__).parents[1]
PROJECT = "load"
FORKS = "workbench.app.processes.fork_server"
START_SECONDS = 120.0
SERVE = """
import sys
from pathlib import Path
from workbench.team.team_config import TeamConfig
from workbench.team.serve_team import serve
serve(TeamConfig.read(Path(sys.argv[1]), listen=f"127.0.0.1:{sys.argv[2]}"), on_ready=lambda services: print("ready", flush=True))
"""
FILL = """
import json, sys
from workbench.models import build
from workbench.public_plan import Plan
from workbench.team.access import ProjectRole
from workbench.team.accounts.logins import issue_login
from workbench.team.accounts.user_accounts import add_user, set_role
from workbench.team.actions.plans import store_plan
from workbench.team.accounts.user_accounts import add_project
from workbench.team.planning.grade_answers import describe_plan
from workbench.team.store.migrate import upgrade
from workbench.team.store.store import Store, new_id, now
from workbench.team.store.tables import StoredRoom

address, wanted = sys.argv[1], json.loads(sys.argv[2])
store = Store.open(address)
upgrade(store)

def described(name, **given):
    plan = Plan(build(name, **given), "data:4 model:2", "batch:data")
    return describe_plan(plan, plan.report())

plan, slow = described("gpt", preset="gpt2-small"), described("gpt", layers=24, scan=False, remat=True)
with store.write() as session:
    people = [add_user(session, f"person{each}", f"Person {each}", admin=not each) for each in range(wanted["people"])]
    project_id = add_project(session, wanted["project"], "Load", owner=people[0].id).id
    for each in people[1:]:
        set_role(session, project_id, each.id, ProjectRole.EDITOR)
    for each in (plan, slow):
        store_plan(session, each)
    session.flush()
    same = {"project_id": project_id, "by": people[0].id, "created": now(), "touched": now()}
    firsts = [*[plan.digest] * wanted["rooms"], plan.digest, slow.digest]
    rooms = [StoredRoom(id=new_id(), name=f"Room {each}", first=first, **same) for each, first in enumerate(firsts)]
    session.add_all(rooms)
    secrets = [issue_login(session, each.id, "local") for each in people]
    found = {"cookies": secrets, "rooms": [each.id for each in rooms]}
store.close()
print(json.dumps(found))
"""
"""In a process of its own: it imports JAX, which the one that measures does not need."""


@dataclass(frozen=True)
class ServedTeam:
    """A server that runs: `cookies` of the people who are signed in, the addresses of `rooms`, of one more whose
    plan nobody has edited, and of one on a slow program."""

    url: str
    process: psutil.Process
    cookies: tuple[str, ...]
    rooms: tuple[str, ...]
    untouched_room: str
    slow_room: str
    log: Path = field(repr=False)

    def sockets(self) -> int:
        """How many websockets are open, as the server counts them."""
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Cookie": self.cookies[0]})  # noqa: S310 - of this machine
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            found = re.search(r"^workbench_open_sockets ([0-9.]+)", answer.read().decode(), re.MULTILINE)
        return int(float(found[1])) if found else -1

    def rooms_processes(self) -> list[psutil.Process]:
        """The processes of rooms: the children of the process that forks them."""
        return [child for each in self.process.children() if FORKS in " ".join(each.cmdline()) for child in each.children()]

    def problems(self) -> list[str]:
        """What the server said that it should not have had to."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [each for each in lines if re.search(r"Traceback|ERROR|Error:|WARNING", each)]


@contextmanager
def served_team(people: int, rooms: int) -> Iterator[ServedTeam]:
    """A server with so many people, all editors of one project, and so many rooms; and one more on the slowest program that a document may
    name, each of its layers traced by itself."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        wanted = {"people": people, "rooms": rooms, "project": PROJECT}
        filled = _run(FILL, f"sqlite:///{data / 'team.db'}", json.dumps(wanted))
        with _running(data) as (port, process):
            url = f"http://localhost:{port}"
            places = tuple(f"{url}/room/{each}" for each in filled["rooms"])
            cookies = tuple(f"workbench={each}" for each in filled["cookies"])
            yield ServedTeam(url, process, cookies, places[:-2], places[-2], places[-1], data / "log.txt")


def mib(processes: list[psutil.Process]) -> float:
    """Resident memory of processes; what they share counts once for each."""
    return sum(each.memory_info().rss for each in processes if each.is_running()) / 2**20


def pss_mib(processes: list[psutil.Process]) -> float:
    """Memory of processes, what they share divided among them."""
    return sum(each.memory_full_info().pss for each in processes if each.is_running()) / 2**20


def environment(**more: str) -> dict[str, str]:
    """Of a process that imports this repository."""
    paths = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths, **more}


def _run(code: str, *arguments: str) -> Mapping[str, Any]:
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment(), check=True, capture_output=True, text=True)
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def _running(data: Path) -> Iterator[tuple[int, psutil.Process]]:
    port, log = free_port(), data / "log.txt"
    with log.open("wb") as said:
        server = subprocess.Popen([sys.executable, "-c", SERVE, str(data), str(port)], env=environment(), stdout=said, stderr=said)
    try:
        wait_until_ready(port, server, log)
        yield port, psutil.Process(server.pid)
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until_ready(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Until it could open a room: the process that rooms are forked from has imported what they need."""
    end = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://localhost:{port}/readyz", timeout=5).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit(f"The server did not come up:\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}")
