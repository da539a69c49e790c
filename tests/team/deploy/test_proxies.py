"""The proxies of docs/team_server.md, as they stand there, before a server with a prefix: signing in, a room's websocket, who asks."""

import asyncio
import html
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from sqlalchemy import select
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.support.servers import free_port
from tests.support.team_server import PASSWORD, quick_hasher
from tests.support.team_world import described, document
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.user_accounts import find_user
from workbench.team.actions.plans import store_plan
from workbench.team.actions.projects import add_project
from workbench.team.store.store import Store, new_id, now
from workbench.team.store.tables import AuditEntry, StoredRoom

ROOT = Path(__file__).parents[3]
HOST, PREFIX = "plans.example.org", "/workbench"
PATIENCE = 60
PROXIES = [pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name}")) for name in ("nginx", "caddy")]


def documented(language: str) -> str:
    """The first block of a language on the page."""
    return re.search(rf"```{language}\n(.*?)```", (ROOT / "docs" / "team_server.md").read_text(), re.DOTALL)[1]


def nginx_command(folder: Path, port: int, server_port: int) -> list[str]:
    """The documented server without its certificate, in an nginx whose files are all in a folder."""
    site = documented("nginx").replace("listen 443 ssl;", f"listen 127.0.0.1:{port};").replace("127.0.0.1:5007", f"127.0.0.1:{server_port}")
    site = re.sub(r" *ssl_certificate.*\n", "", site)
    places = "".join(f"{name}_temp_path {folder}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    conf = f"daemon off; master_process off; pid {folder}/pid; events {{}}\nhttp {{ access_log off; {places}\n{site}}}\n"
    (folder / "nginx.conf").write_text(conf)
    return ["nginx", "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]


def caddy_command(folder: Path, port: int, server_port: int) -> list[str]:
    """The documented site without a certificate."""
    site = documented("caddy").replace("plans.example.org {", f"http://plans.example.org:{port} {{")
    site = site.replace("127.0.0.1:5007", f"127.0.0.1:{server_port}")
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n}}\n{site}")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


COMMANDS = {"nginx": nginx_command, "caddy": caddy_command}


@dataclass(frozen=True)
class ServedRoom:
    """A server with Ada, and a room of hers."""

    port: int
    store: Store
    room: str


@contextmanager
def running(command: list[str], **options):
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {name: free_port() for name in COMMANDS}


@pytest.fixture(scope="module")
def served(ports, tmp_path_factory):
    """A server that is reached through both, started in a new folder by the command line."""
    data, port = tmp_path_factory.mktemp("team"), free_port()
    origins = ", ".join(f'"http://{HOST}:{each}"' for each in ports.values())
    address = f"http://{HOST}:{ports['nginx']}{PREFIX}"
    lines = (f'address = "{address}"', f'listen = "127.0.0.1:{port}"', f"origins = [{origins}]")
    (data / "team.toml").write_text("\n".join(lines))
    command = [sys.executable, "-m", "workbench.cli", "team", "--data", str(data)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with running([*command, "serve"], env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline().endswith(f"{PREFIX}\n")
        hint = server.stdout.readline()
        assert hint.endswith(f"workbench team --data {data} user add NAME --admin\n")
        made = subprocess.run([*command, "user", "add", "ada", "--admin"], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        assert f"{PREFIX}/invite/" in made.stdout
        store = Store.open(f"sqlite:///{data / 'team.db'}")
        yield ServedRoom(port, store, add_room(store))
        store.close()


def add_room(store: Store) -> str:
    """The id of a room of Ada, who gets a password."""
    plan, room_id = described(document()), new_id()
    with store.write() as session:
        ada, accounts = find_user(session, "ada"), LocalAccounts(store, quick_hasher())
        accounts.set(session, ada, accounts.hash("ada", PASSWORD))
        project = add_project(session, "vision", "Vision", owner=ada.id)
        store_plan(session, plan)
        session.flush()
        own = {"id": room_id, "project_id": project.id, "by": ada.id}
        session.add(StoredRoom(**own, name="Tuesday", first=plan.digest, created=now(), touched=now()))
    return room_id


@pytest.fixture(params=PROXIES)
def proxy_port(request, ports, served, tmp_path):
    port = ports[request.param]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with running(COMMANDS[request.param](tmp_path, port, served.port), env=environment, stderr=subprocess.DEVNULL):
        wait_for_port(port)
        yield port


def wait_for_port(port: int) -> None:
    """Until somebody listens."""
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE):
            return
        time.sleep(0.1)
    raise TimeoutError(port)


@pytest.mark.cold
@pytest.mark.worker
def test_a_person_signs_in_through_a_proxy_and_has_the_room_s_websocket(proxy_port, served):
    origin = f"http://{HOST}:{proxy_port}"
    headers = {"Host": f"{HOST}:{proxy_port}", "X-Forwarded-For": "192.0.2.66"}
    with httpx.Client(base_url=f"http://127.0.0.1:{proxy_port}", headers=headers, timeout=PATIENCE) as browser:
        assert browser.get(f"{PREFIX}/healthz").json()["alive"]
        assert browser.get(f"{PREFIX}/").headers["location"] == f"{PREFIX}/login?next=%2Fworkbench%2F"
        form = {"name": "ada", "password": PASSWORD}
        assert browser.post(f"{PREFIX}/login", data=form, headers={"Origin": "https://evil.example"}).status_code == 403
        answer = browser.post(f"{PREFIX}/login", data=form, headers={"Origin": origin})
        assert (answer.status_code, answer.headers["location"]) == (302, f"{PREFIX}/")
        assert f"Path={PREFIX}/" in answer.headers["set-cookie"]
        cookie = answer.headers["set-cookie"].partition(";")[0]
        page = browser.get(f"{PREFIX}/room/{served.room}", headers={"Cookie": cookie})
        assert page.status_code == 200
        script = re.search(r'src="([^"]*/static/[^"]+\.js[^"]*)"', page.text)[1]
        assert browser.get(urljoin(str(page.url), html.unescape(script)), headers={"Cookie": cookie}).status_code == 200
    token = re.search(r'"token":"([^"]+)"', html.unescape(page.text))[1]
    assert asyncio.run(first_message(proxy_port, served.room, {**headers, "Cookie": cookie, "Origin": origin}, token)) == "ACK"
    with served.store.read() as session:
        said = set(session.scalars(select(AuditEntry.address).where(AuditEntry.action == "sign_in")))
    assert said == {"127.0.0.1"}  # whom the proxy saw, and not what the visitor said


async def first_message(port: int, room: str, headers: dict[str, str], token: str) -> str:
    """The kind of the first message that the server sends through a websocket."""
    request = HTTPRequest(f"ws://127.0.0.1:{port}{PREFIX}/room/{room}/ws", headers=headers, request_timeout=PATIENCE)
    connection = await websocket_connect(request, subprotocols=["bokeh", token])
    found = await asyncio.wait_for(connection.read_message(), PATIENCE)
    connection.close()
    return json.loads(found)["msgtype"]
