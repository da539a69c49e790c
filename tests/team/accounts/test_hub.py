"""Signing in with a real JupyterHub, in a process of its own.

It has no proxy (`configurable-http-proxy` is a program of Node): the test's browser sends each path to whom the proxy would.
"""

import json
import os
import subprocess
import sys
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from tests.support.servers import free_port, wait_for
from tests.support.team_server import team_server, use_ways
from tests.support.without_grammars import without_grammars
from workbench.errors import WorkbenchError
from workbench.team.access import ProjectRole
from workbench.team.accounts.identities import GroupRules
from workbench.team.accounts.jupyterhub_login import HubProvider, HubSettings
from workbench.team.accounts.logins import principal_of_login
from workbench.team.accounts.user_accounts import disable_user, find_user
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import Member, Project

PREFIX, TOKEN = "/services/workbench", "t" * 40
CONFIG = """
from jupyterhub.proxy import Proxy

class NoProxy(Proxy):
    should_start = False
    routes = {{}}
    async def add_route(self, routespec, target, data):
        self.routes[routespec] = {{"routespec": routespec, "target": target, "data": data}}
    async def delete_route(self, routespec):
        self.routes.pop(routespec, None)
    async def get_all_routes(self):
        return self.routes

c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.bind_url = "http://127.0.0.1:{unused}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.db_url = "sqlite:///:memory:"
c.JupyterHub.cookie_secret = b"c" * 32
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "open"
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {{"chief"}}
c.JupyterHub.load_groups = {{"research": {{"users": ["ada"]}}, "staff": {{"users": ["chief", "ada"]}}}}
c.JupyterHub.load_roles = [
    {{"name": "user", "scopes": ["self"]}},
    {{"name": "workbench", "scopes": ["access:services!service=workbench"], "groups": ["research", "staff"]}},
]
c.JupyterHub.services = [{{
    "name": "workbench", "url": "http://127.0.0.1:{unused}", "api_token": "{token}", "oauth_no_confirm": True,
    "oauth_client_allowed_scopes": ["read:users:name!user", "read:users:groups!user"],
}}]
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("hub"), free_port()
    (folder / "jupyterhub_config.py").write_text(CONFIG.format(port=port, unused=free_port(), token=TOKEN))
    command = [sys.executable, "-W", "ignore", "-m", "jupyterhub", "-f", str(folder / "jupyterhub_config.py")]
    light = {**os.environ, "PYTHONPATH": without_grammars(folder, *filter(None, [os.environ.get("PYTHONPATH")]))}
    with (folder / "log").open("w") as log, subprocess.Popen(command, cwd=folder, env=light, stdout=log, stderr=log) as process:
        try:
            wait_for(f"http://127.0.0.1:{port}/hub/health")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def environment(hub):
    return {
        "JUPYTERHUB_API_URL": f"{hub}/hub/api",
        "JUPYTERHUB_API_TOKEN": TOKEN,
        "JUPYTERHUB_SERVICE_PREFIX": f"{PREFIX}/",
        "JUPYTERHUB_SERVICE_NAME": "workbench",
        "JUPYTERHUB_CLIENT_ID": "service-workbench",
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps(["access:services", "access:services!service=workbench"]),
    }


RULES = GroupRules(anyone=True, admins=frozenset({"staff"}), roles={"research": {"vision": ProjectRole.RUNNER}})


@pytest.fixture
def server(hub, tmp_path):
    with team_server(tmp_path, address=f"http://127.0.0.1:5000{PREFIX}") as running:
        provider = running.thread.call(HubProvider, HubSettings(environment(hub), RULES))
        use_ways(running, hub=provider)
        with running.services.store.write() as session:
            session.add(Project(id=new_id(), slug="vision", name="Vision", created=now()))
        yield running


class Browser:
    """Follows links as behind the hub's proxy: one host, paths to two servers."""

    def __init__(self, hub, server):
        self.hub, self.server = hub, server
        self.client = httpx.Client(timeout=20, verify=False)

    def send(self, method, path, **options):
        base = self.server.url if path.startswith(PREFIX) else self.hub
        return self.client.request(method, base + path, **options)

    def get(self, path):
        """Follow redirects to the page that they lead to, or the first answer that is none."""
        answer = self.send("GET", path)
        while answer.is_redirect:
            path = self._path(urljoin(path, answer.headers["Location"]))
            if path == f"{PREFIX}/":
                return answer
            answer = self.send("GET", path)
        return answer

    def sign_in(self, name):
        """At the hub, on the way from the workbench and back."""
        self.get(f"{PREFIX}/login/hub")
        form = {"username": name, "password": "open", "_xsrf": self.client.cookies["_xsrf"]}
        assert self.send(
            "POST", "/hub/login", data=form, headers={"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "same-origin"}
        ).is_redirect
        return self.get(f"{PREFIX}/login/hub")

    def person(self):
        cookies = [each.value for each in self.client.cookies.jar if each.name == "workbench"]
        return principal_of_login(self.server.services.store, cookies[0]) if cookies else None

    @staticmethod
    def _path(address):
        parts = urlsplit(address)
        return parts.path + (f"?{parts.query}" if parts.query else "")


@pytest.fixture
def visitor(hub, server):
    made = Browser(hub, server)
    yield made
    made.client.close()


def test_a_person_of_the_hub_has_an_account_here_with_the_roles_of_their_groups(visitor, server):
    assert "Sign in with JupyterHub" in visitor.get(f"{PREFIX}/login").text
    answer = visitor.sign_in("ada")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{PREFIX}/")
    person = visitor.person()
    assert (person.name, person.admin) == ("ada", True)
    with server.services.store.read() as session:
        project = session.query(Project).filter_by(slug="vision").one()
        assert session.get(Member, (project.id, person.user_id)).role == "runner"
    again = Browser(visitor.hub, server)
    again.sign_in("ada")
    assert again.person().user_id == person.user_id
    again.client.close()


def test_whom_the_hub_does_not_let_use_the_service_is_not_let_in(visitor):
    answer = visitor.sign_in("stranger")
    assert answer.status_code in (400, 403)
    assert visitor.person() is None


def test_a_disabled_person_is_not_let_in(visitor, server):
    visitor.sign_in("ada")
    with server.services.store.write() as session:
        user = find_user(session, "ada")
        user.admin = False
        disable_user(session, user)
    assert visitor.get(f"{PREFIX}/login/hub").status_code == 403


def test_an_answer_of_the_hub_is_good_once_in_the_browser_that_began(visitor, server, hub):
    visitor.sign_in("ada")
    away = visitor.send("GET", f"{PREFIX}/login/hub").headers["Location"]
    back = Browser._path(visitor.send("GET", away).headers["Location"])
    victim = Browser(hub, server)
    assert victim.send("GET", back).status_code == 400
    assert victim.person() is None
    victim.client.close()
    assert visitor.send("GET", back + "x").status_code == 400  # another state ends nothing
    assert visitor.send("GET", back).status_code == 302
    assert visitor.send("GET", back).status_code == 400


def test_a_forged_code_signs_nobody_in(visitor):
    away = visitor.send("GET", f"{PREFIX}/login/hub").headers["Location"]
    state = httpx.URL(away).params["state"]
    answer = visitor.send("GET", f"{PREFIX}/oauth_callback?code=forged&state={state}")
    assert answer.status_code == 400
    assert "does not vouch for this sign-in" in answer.text
    assert visitor.person() is None


def test_without_a_hub_around_it_is_said_so(monkeypatch):
    monkeypatch.delenv("JUPYTERHUB_API_TOKEN", raising=False)
    with pytest.raises(WorkbenchError, match="No JupyterHub started this server: there is no JUPYTERHUB_API_TOKEN"):
        HubSettings.from_environment()
    for name, value in environment("http://127.0.0.1:1").items():
        monkeypatch.setenv(name, value)
    found = HubSettings.from_environment()
    assert found.rules == GroupRules(anyone=True)
    assert TOKEN not in repr(found)
