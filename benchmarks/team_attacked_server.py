"""Attacks on a server that runs as it does at home: no bubblewrap, one administrator, and a student with an account of their own."""

import base64
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from served_load import free_port
from team_served import SERVE, environment, wait_until_ready

from tests.team.programs.test_registry import wheel
from workbench.team.access import SCOPES
from workbench.team.accounts.revocations import issue_token
from workbench.team.accounts.user_accounts import add_user, make_personal_project
from workbench.team.store.migrate import upgrade
from workbench.team.store.store import Store
from workbench.team.store.tables import Setting

Tried = tuple[str, str]
"""What was tried, and what refused it: empty where it succeeded."""
MIB = 1 << 20
_MOST_WHEELS = 60
_PATIENCE = 10.0  # seconds: a body that is read whole takes longer on a slow machine, a refusal does not
PROGRAM = """
import pathlib
pathlib.Path({marker!r}).write_text(pathlib.Path({secret!r}).read_text(errors="replace"))
import workbench as wb
def build() -> wb.Program:
    from workbench.models import build
    return build("two_layer", batch=16, io=8, hidden=16)
"""
PLAN = {
    "format": "sharding-workbench.plan",
    "version": 1,
    "name": "mine",
    "mesh": [["data", 2]],
    "layout": {"rules": {}},
    "program": {"target": "mine:build", "arguments": {}},
}


@dataclass(frozen=True)
class AttackedServer:
    """Its address, its data, and the tokens of its people."""

    url: str
    data: Path
    project: str
    student: str
    admin: str

    def send(self, method: str, path: str, token: str, **given: object) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.request(method, f"{self.url}/api/v1{path}", headers=headers, timeout=120, **given)  # type: ignore[arg-type]


@contextmanager
def attacked_server(programs: int) -> Iterator[AttackedServer]:
    """A server on an existing data folder that everybody can read, as an operator may make it; a person may have this many programs."""
    with tempfile.TemporaryDirectory() as folder:
        data, port = Path(folder) / "data", free_port()
        data.mkdir(mode=0o755)
        (data / "team.toml").write_text(f'address = "http://localhost:{port}"\n', encoding="utf-8")
        project, student, admin = _fill(data, programs)
        log = Path(folder) / "log.txt"
        empty = Path(folder) / "nothing"
        empty.mkdir()
        with log.open("wb") as said:
            command = [sys.executable, "-c", SERVE, str(data), str(port)]
            server = subprocess.Popen(command, env=environment(PATH=str(empty)), stdout=said, stderr=said)
        try:
            wait_until_ready(port, server, log)
            yield AttackedServer(f"http://localhost:{port}", data, project, student, admin)
        finally:
            server.terminate()
            server.wait(60)


def _fill(data: Path, programs: int) -> tuple[str, str, str]:
    store = Store.open(f"sqlite:///{data / 'team.db'}")
    upgrade(store)
    with store.write() as session:
        session.add(Setting(key="accounts", value={"programs": programs}))
        student, admin = add_user(session, "sam", "Sam"), add_user(session, "root", "Root", admin=True)
        session.flush()
        project = make_personal_project(session, student).slug
        tokens = [issue_token(session, person.id, "attack", SCOPES, None).secret for person in (student, admin)]
    store.close()
    return project, *tokens


def try_takeover(server: AttackedServer) -> Iterator[Tried]:
    """The steps by which a student became an administrator, then with the help of one who approves without looking."""
    marker = server.data.parent / "marker"
    content = _wheel({"mine.py": PROGRAM.format(marker=str(marker), secret=str(server.data / "secret_key"))})
    body = {"name": "mine", "target": "mine:build", "kind": "wheel", "locator": "mine-1-py3-none-any.whl", "wheel": content}
    added = server.send("POST", f"/projects/{server.project}/programs", server.student, json=body).json()
    approval = (f"/programs/{added['id']}/approval", {"digest": added["digest"]})
    push = (f"/projects/{server.project}/plans", {"document": json.dumps(PLAN)})
    yield "the student approves it", _refusal(server.send("POST", approval[0], server.student, json=approval[1]))
    yield "the student pushes a plan of it", _refusal(server.send("POST", push[0], server.student, json=push[1]))
    server.send("POST", approval[0], server.admin, json=approval[1])
    yield "the same when an administrator has approved it", _refusal(server.send("POST", push[0], server.student, json=push[1]))
    yield "its code has run", "" if marker.exists() else "it has not"
    yield "the student lists the people", _refusal(server.send("GET", "/people", server.student))


def try_files(server: AttackedServer) -> Iterator[Tried]:
    """What other users of the machine may do with the data, in which a program is by now."""
    for path in (server.data, *sorted(server.data.rglob("*"))):
        mode = stat.S_IMODE(path.lstat().st_mode)
        inside = any(not folder.stat().st_mode & 0o077 for folder in path.parents if folder.is_relative_to(server.data))
        reason = oct(mode) if not mode & 0o077 else "within a private folder" if inside and path.parent != server.data else ""
        yield f"to read {path.relative_to(server.data)} ({oct(mode)})", reason


def _bodies() -> Iterator[tuple[str, str, str, bytes | Callable[[], Iterator[bytes]], str]]:
    """What is sent: its name, the method and the path, the body, and by whom."""
    large = b" " * (100 * MIB)
    form = "application/x-www-form-urlencoded"
    for who in ("", "student"):
        yield f"a form of 100 MB to sign in ({who or 'anonymous'})", "/login", form, large, who
        yield f"100 MB in chunks to sign in ({who or 'anonymous'})", "/login", form, lambda: (b" " * MIB for _ in range(100)), who
        yield (
            f"10 MB of JSON ({who or 'anonymous'})",
            "/api/v1/projects",
            "application/json",
            b'{"slug": "' + b"a" * (10 * MIB) + b'"}',
            who,
        )
        yield f"JSON that is 500,000 deep ({who or 'anonymous'})", "/api/v1/projects", "application/json", b"[" * 500_000, who
        yield f"a form of 100 MB to make a token ({who or 'anonymous'})", "/account/tokens/new", form, large, who
    yield "a wheel of 100 MB (student)", "/api/v1/projects/{project}/programs", "application/json", b'{"wheel": "' + large, "student"


def try_bodies(server: AttackedServer) -> Iterator[Tried]:
    """Large and deep bodies are refused at once, and meanwhile others are served."""
    with _watched(server.url) as waited:
        for name, path, kind, body, who in _bodies():
            headers = {"Content-Type": kind, "Origin": server.url} | ({"Authorization": f"Bearer {server.student}"} if who else {})
            begun = time.monotonic()
            content = body() if callable(body) else body
            try:
                answer = httpx.post(server.url + path.format(project=server.project), content=content, headers=headers, timeout=120)
                refused = f"{answer.status_code}" if answer.status_code >= 400 else ""
            except httpx.TransportError:
                refused = "connection closed"
            seconds = time.monotonic() - begun
            yield name, refused if seconds < _PATIENCE else ""
        longest = max(waited)
        yield f"somebody else waits longer than {_PATIENCE:g} s meanwhile ({longest:.2f} s)", "no" if longest < _PATIENCE else ""
        yield from _flood(server)


def _flood(server: AttackedServer) -> Iterator[Tried]:
    """Wheels until the quota says no."""
    for number in range(_MOST_WHEELS):
        content = _wheel({"data.bin": base64.b64encode(os.urandom(6 * MIB)).decode(), "mine.py": PROGRAM})
        body = {"name": f"m{number}", "target": "mine:build", "kind": "wheel", "locator": "mine-1-py3-none-any.whl", "wheel": content}
        answer = server.send("POST", f"/projects/{server.project}/programs", server.student, json=body)
        if answer.status_code >= 400:
            yield f"wheel number {number + 1} of 6 MiB (student)", _refusal(answer)
            return
    yield f"{_MOST_WHEELS} wheels of 6 MiB (student)", ""


@contextmanager
def _watched(url: str) -> Iterator[list[float]]:
    """How long somebody else waits for an answer, asked again and again."""
    waited, over = [0.0], threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not over.wait(0.02):
                begun = time.monotonic()
                client.get("/healthz")
                waited.append(time.monotonic() - begun)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waited
    finally:
        over.set()
        thread.join()


def _refusal(answer: httpx.Response) -> str:
    return "" if answer.status_code < 400 else f"{answer.status_code} {answer.json()['error']['message']}"[:110]


def _wheel(files: dict[str, str | bytes]) -> str:
    return base64.b64encode(wheel(files)).decode()


SERVER_PARTS: dict[str, Callable[[AttackedServer], Iterator[Tried]]] = {"takeover": try_takeover, "files": try_files, "bodies": try_bodies}
