"""The handler that all pages begin with, called over a real connection."""

import pytest

from tests.support.team_server import add_person, sign_in, team_server
from workbench.errors import WorkbenchError
from workbench.team.access import ForbiddenError, MissingError
from workbench.team.accounts.revocations import issue_token, revoke_token
from workbench.team.store.store import now
from workbench.team.web.base_handler import TeamHandler


class Me(TeamHandler):
    def get(self):
        self.write_json({"name": self.require_principal("read").name})

    @property
    def largest_body(self):
        return 100

    async def post(self):
        self.require_principal("edit")
        self.write_json({"read": await self.read_json()})


ERRORS = {
    "bug": RuntimeError("the secret of a bug"),
    "ours": WorkbenchError("6 does not divide 4096.", ["make it 8"]),
    "forbidden": ForbiddenError("You may not.", []),
    "missing": MissingError("plan", "abc<script>"),
}


class Boom(TeamHandler):
    def get(self, name):
        raise ERRORS[name]


class Admin(TeamHandler):
    def get(self):
        self.write_json(self.require_admin().name)


ROUTES = [(r"/me", Me), (r"/api/v1/me", Me), (r"/boom/(\w+)", Boom), (r"/api/v1/boom/(\w+)", Boom), (r"/api/v1/admin", Admin)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with team_server(tmp_path_factory.mktemp("team"), ROUTES) as running:
        yield running


@pytest.fixture(scope="module")
def ada(server):
    with server.person("ada") as client:
        yield client


def test_a_stranger_is_sent_to_sign_in_on_a_page_and_is_answered_401_by_the_api(server):
    with server.client() as stranger:
        page, api = stranger.get("/me?a=b"), stranger.get("/api/v1/me")
    assert (page.status_code, page.headers["Location"]) == (302, "/login?next=%2Fme%3Fa%3Db")
    assert (api.status_code, api.json()["error"]["message"]) == (401, "Not signed in.")


def test_whoever_is_signed_in_is_known(ada):
    assert ada.get("/api/v1/me").json() == {"name": "ada"}


def test_every_answer_has_the_security_headers_and_is_kept_nowhere(server, ada):
    for path in ("/me", "/api/v1/me", "/boom/bug", "/nothing", "/login", "/healthz"):
        headers = ada.get(path).headers
        assert headers["Cache-Control"] == "no-store", path
        assert "script-src 'self';" in headers["Content-Security-Policy"], path
        assert "unsafe-inline" not in headers["Content-Security-Policy"].split("style-src")[0], path
        assert headers["X-Frame-Options"] == "DENY", path
        assert headers["X-Content-Type-Options"] == "nosniff", path
        assert headers["Referrer-Policy"] == "same-origin", path
        assert "Server" not in headers, path


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("ours", 400, "6 does not divide 4096."),
        ("forbidden", 403, "You may not."),
        ("missing", 404, "There is no plan `abc<script>`, or you may not see it."),
    ],
)
def test_errors_are_said_in_their_own_words(ada, name, status, message):
    api, page = ada.get(f"/api/v1/boom/{name}"), ada.get(f"/boom/{name}")
    assert (api.status_code, page.status_code) == (status, status)
    assert api.json()["error"]["message"] == message
    assert message.replace("<", "&lt;").replace(">", "&gt;") in page.text
    assert "<script>" not in page.text


def test_of_a_bug_a_visitor_sees_a_number_and_the_log_has_it(ada, caplog):
    for path in ("/boom/bug", "/api/v1/boom/bug"):
        answer = ada.get(path)
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text
    number = answer.json()["error"]["request"]
    assert number in answer.json()["error"]["message"]
    assert any(number in each.getMessage() and each.exc_info for each in caplog.records)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
        {},
    ],
    ids=str,
)
def test_no_other_site_changes_anything(server, ada, headers):
    cookie = ada.cookies["workbench"]
    with server.client(cookie) as browser:
        del browser.headers["Origin"]
        answer = browser.post("/api/v1/me", json={}, headers=headers)
    assert answer.status_code == 403
    assert "without an `Origin`" in answer.json()["error"]["message"]


def test_the_servers_own_pages_do(server, ada):
    assert ada.post("/api/v1/me", json={"a": 1}).json() == {"read": {"a": 1}}
    del ada.headers["Origin"]
    try:
        assert ada.post("/api/v1/me", json=[], headers={"Sec-Fetch-Site": "same-origin"}).json() == {"read": []}
    finally:
        ada.headers["Origin"] = server.origin


def test_nothing_is_shown_within_another_site_but_a_link_is_followed(ada):
    assert (
        ada.get("/me", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}).status_code == 403
    )
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert ada.get("/me", headers=followed).status_code == 200
    assert ada.get("/me", headers={**followed, "Sec-Fetch-Dest": "iframe"}).status_code == 403


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 50, "not JSON"),
        (b"[" * 20 + b"]" * 20, "nested more than 16 levels deep"),
        (b"NaN", "NaN is not a valid number"),
        (b"x" * 101, "The request has at least 101 B; the limit is 100 B"),
        (b"[" * 100_000, "at least 97.7 KiB"),
    ],
)
def test_what_is_no_json_is_said_so(ada, body, said):
    answer = ada.post("/api/v1/me", content=body)
    assert answer.status_code in (400, 413)
    assert said in answer.json()["error"]["message"]


def test_a_token_does_no_more_than_its_scopes_needs_no_origin_and_ends(server):
    store = server.services.store
    user_id = add_person(store, "bob")
    with store.write() as session:
        token = issue_token(session, user_id, "script", ("read",))
        old = issue_token(session, user_id, "old", ("read",), expires=now() - 1)
    with server.client(Authorization=f"Bearer {token.secret}") as script:
        del script.headers["Origin"]
        assert script.get("/api/v1/me").json() == {"name": "bob"}
        assert script.post("/api/v1/me", json={}).json()["error"]["message"] == "This token may not `edit`."
        with store.write() as session:
            assert revoke_token(session, token.id, user_id)
        assert script.get("/api/v1/me").status_code == 401
    for wrong in (old.secret, token.secret[:-1], "a b", "x" * 5000):
        with server.client(sign_in(store, user_id), Authorization=f"Bearer {wrong}") as script:
            assert script.get("/api/v1/me").status_code == 401  # the cookie is no second chance


def test_a_token_is_made_with_known_scopes_only(server):
    with server.services.store.write() as session:
        for scopes, name in [(("fly",), "a"), ((), "a"), (("read",), " "), (("read",), "x" * 101)]:
            with pytest.raises(WorkbenchError):
                issue_token(session, "nobody", name, scopes)


def test_administrators_alone(server, ada):
    assert ada.get("/api/v1/admin").status_code == 403
    with server.person("root", admin=True) as root:
        assert root.get("/api/v1/admin").json() == "root"


def test_what_is_not_there_and_methods_that_mean_nothing(ada):
    assert ada.get("/api/v1/nothing").json()["error"]["message"] == "No page has this address."
    assert ada.delete("/me").status_code == 405
