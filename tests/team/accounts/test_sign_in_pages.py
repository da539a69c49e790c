"""Signing in and out and invitations, as a browser does them, and as an attacker would."""

import re

import httpx
import pytest
from sqlalchemy import update

from tests.support.team_server import PASSWORD, add_person, sign_in, stopped_clock, team_server, use_ways
from workbench.errors import WorkbenchError
from workbench.team.access import ProjectRole
from workbench.team.accounts.invitations import InvitationError, accept_as, delete_expired_invitations, invite
from workbench.team.accounts.logins import principal_of_login
from workbench.team.accounts.rate_limit import SignInLimits
from workbench.team.accounts.user_accounts import find_user, set_role
from workbench.team.store.store import digest_of, new_id, now
from workbench.team.store.tables import AuditEntry, Invitation, Member, Project
from workbench.team.web.security import local_path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with team_server(tmp_path_factory.mktemp("team")) as running:
        add_person(running.services.store, "ada", password=PASSWORD)
        yield running


@pytest.fixture
def visitor(server):
    with server.client() as client:
        yield client


def person_of(server, visitor):
    found = principal_of_login(server.services.store, visitor.cookies.get("workbench", ""))
    return found.name if found else None


def post_login(visitor, password=PASSWORD, **fields):
    return visitor.post("/login", data={"name": "ada", "password": password, **fields})


def new_project(store, slug="vision"):
    with store.write() as session:
        project = Project(id=new_id(), slug=f"{slug}-{new_id()[:5]}", name="Vision", created=now())
        session.add(project)
        return project.id


def new_invitation(server, **wanted):
    with server.services.store.write() as session:
        return invite(session, **wanted)


def accept(visitor, secret, name, password="four words at random", **fields):
    return visitor.post(f"/invite/{secret}", data={"name": name, "password": password, "again": password, **fields})


def test_signing_in_and_out(server, visitor):
    assert 'name="password"' in visitor.get("/login").text
    answer = post_login(visitor, next="/room/abc?x=1")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/room/abc?x=1")
    assert person_of(server, visitor) == "ada"
    assert visitor.get("/login", params={"next": "/room/abc"}).headers["Location"] == "/room/abc"
    cookie = visitor.cookies["workbench"]
    assert visitor.post("/logout").headers["Location"] == "/login"
    assert person_of(server, visitor) is None
    assert principal_of_login(server.services.store, cookie) is None


def test_signing_out_takes_a_post_from_the_servers_own_page(server, visitor):
    post_login(visitor)
    assert "Sign out" in visitor.get("/logout").text
    assert visitor.post("/logout", headers={"Origin": "https://evil.example"}).status_code == 403
    assert person_of(server, visitor) == "ada"


def test_signing_out_in_all_browsers(server, visitor):
    with server.client() as other:
        post_login(visitor)
        post_login(other)
        visitor.post("/logout", data={"everywhere": "yes"})
        assert (person_of(server, visitor), person_of(server, other)) == (None, None)


def test_signing_in_anew_ends_the_former_login_of_the_browser(server, visitor):
    post_login(visitor)
    former = visitor.cookies["workbench"]
    post_login(visitor)
    assert visitor.cookies["workbench"] != former
    assert principal_of_login(server.services.store, former) is None


def test_a_cookie_that_somebody_set_before_is_not_the_login(server):
    with server.client("chosen-by-the-attacker") as visitor:
        answer = post_login(visitor)
    assert "chosen" not in answer.headers["Set-Cookie"]


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}], ids=str)
def test_no_other_site_signs_a_visitor_in(visitor, headers):
    answer = visitor.post("/login", data={"name": "ada", "password": PASSWORD}, headers=headers)
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers


def test_wrong_names_and_passwords_get_the_same_answer(server):
    pages = []
    for name in ("ada", "nobody", "<script>alert(1)</script>"):
        with server.client() as visitor:
            answer = visitor.post("/login", data={"name": name, "password": "wrong wrong wrong"})
        assert answer.status_code == 403
        assert "Wrong name or password." in answer.text
        assert "<script>" not in answer.text
        assert "wrong wrong wrong" not in answer.text
        pages.append(re.sub(r'value="[^"]*"', "", answer.text))
    assert pages[0] == pages[1]
    with server.services.store.read() as session:
        failed = session.query(AuditEntry).filter(AuditEntry.action == "sign_in_failed").all()
    assert {"ada", "nobody"} <= {each.subject for each in failed}
    assert not any("wrong wrong" in str(vars(each)) for each in failed)


def test_guessing_is_slowed_down_in_words_with_seconds(tmp_path):
    with team_server(tmp_path) as server:
        use_ways(server, limits=SignInLimits(stopped_clock))
        add_person(server.services.store, "ada", password=PASSWORD)
        with server.client() as visitor:
            answers = [post_login(visitor, "wrong wrong wrong") for _ in range(7)]
            assert [each.status_code for each in answers[:6]] == [403] * 6
            assert answers[6].status_code == 429
            assert "Try again in 1 s." in answers[6].text
            assert answers[6].headers["Retry-After"] == "1"
            assert post_login(visitor).status_code == 429  # the right one too: it would say that it is right
        for number in range(30):
            add_person(server.services.store, f"student{number}", password=PASSWORD)
            with server.client() as neighbour:
                assert post_login(neighbour, name=f"student{number}").status_code == 302


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/%0d%0aSet-Cookie:a=b\r\nX: y",
        "javascript:alert(1)",
        "data:text/html,x",
        "http:evil.example",
        "///evil.example",
        " //evil.example",
        "/a/../../x",
        "/" + "a" * 3000,
        "//[",
        "evil.example",
    ],
)
def test_nobody_is_sent_out_of_the_server(visitor, wanted):
    assert local_path(wanted, "") == "/"
    answer = post_login(visitor, next=wanted)
    assert answer.headers["Location"] == "/"
    assert len(answer.headers.get_list("Set-Cookie")) == 1


@pytest.mark.parametrize("wanted", ["/", "/other", "/teamx", "/team", "//team/x", "/team/../x"])
def test_nobody_is_sent_out_of_the_prefix(wanted):
    assert local_path(wanted, "/team") == "/team/"


def test_over_long_inputs_are_refused_in_words(visitor):
    assert post_login(visitor, name="x" * 5000).status_code == 400
    assert post_login(visitor, "y" * 20_000).status_code == 413
    assert post_login(visitor, "y" * 9000).status_code == 403
    assert visitor.get("/invite/" + "a" * 200).status_code == 404
    assert visitor.get("/login", params={"next": "/" + "a" * 10_000}).status_code == 200


def test_an_invitation_makes_an_account_in_a_project_once(server, visitor):
    store = server.services.store
    project = new_project(store)
    secret = new_invitation(server, project_id=project, role=ProjectRole.EDITOR)
    assert "You are invited to Vision" in visitor.get(f"/invite/{secret}").text
    answer = accept(visitor, secret, "Grace", display="Grace <b>Hopper</b>")
    assert answer.headers["Location"] == "/"
    assert person_of(server, visitor) == "grace"
    with store.read() as session:
        assert session.get(Member, (project, find_user(session, "grace").id)).role == "editor"
    with server.client() as again:
        for replayed in (again.get(f"/invite/{secret}"), accept(again, secret, "mallory")):
            assert replayed.status_code == 400
            assert "Invalid invitation" in replayed.text
        assert again.post("/login", data={"name": "grace", "password": "four words at random"}).status_code == 302


def test_an_invitation_survives_a_slip(server, visitor):
    secret = new_invitation(server)
    assert "12 to 512 characters" in accept(visitor, secret, "slip", "short").text
    assert "The two passwords differ" in visitor.post(f"/invite/{secret}", data={"name": "slip", "password": "a" * 20, "again": ""}).text
    assert "The name `ada` is taken" in accept(visitor, secret, "ada").text
    assert "is not a valid name" in accept(visitor, secret, "a b").text
    assert accept(visitor, secret, "slip").status_code == 302


def test_old_forged_and_malformed_invitations_are_not_good(server, visitor):
    secret, late = new_invitation(server), new_invitation(server, lasts=-1.0)
    for wrong in (late, secret[:-1], digest_of(secret), "a"):
        assert visitor.get(f"/invite/{wrong}").status_code == 400
        assert accept(visitor, wrong, "mallory").status_code == 400
    with server.services.store.write() as session:
        delete_expired_invitations(session, now())
        assert session.get(Invitation, digest_of(late)) is None
        assert session.get(Invitation, digest_of(secret))


def test_somebody_who_is_signed_in_joins_and_loses_no_role(server):
    store = server.services.store
    project = new_project(store)
    with server.person("joiner") as visitor:
        user_id = principal_of_login(store, visitor.cookies["workbench"]).user_id
        for role, expected in ((ProjectRole.RUNNER, "runner"), (ProjectRole.VIEWER, "runner"), (ProjectRole.OWNER, "owner")):
            secret = new_invitation(server, project_id=project, role=role)
            assert "Join as Joiner" in visitor.get(f"/invite/{secret}").text
            assert visitor.post(f"/invite/{secret}").status_code == 302
            with store.read() as session:
                assert session.get(Member, (project, user_id)).role == expected


def test_the_first_administrator_comes_by_an_invitation(server, visitor):
    accept(visitor, new_invitation(server, admin=True), "boss")
    assert visitor.get("/metrics").status_code == 200


def test_an_invitation_for_a_new_password_is_for_that_person_alone_and_ends_their_logins(server, visitor):
    store = server.services.store
    user_id = add_person(store, "forgetful", password=PASSWORD)
    stolen = sign_in(store, user_id)
    secret = new_invitation(server, user_id=user_id)
    with store.write() as session, pytest.raises(InvitationError):
        accept_as(session, secret, find_user(session, "ada"))
    assert "A password for forgetful" in visitor.get(f"/invite/{secret}").text
    accept(visitor, secret, "somebody-else", "quite another secret")
    assert person_of(server, visitor) == "forgetful"
    assert principal_of_login(store, stolen) is None
    assert server.services.sign_in.local.verify("forgetful", "quite another secret") == user_id
    with pytest.raises(WorkbenchError):
        server.services.sign_in.local.verify("forgetful", PASSWORD)


def test_of_two_at_once_one_finds_an_invitation_used(server):
    secret = new_invitation(server)
    store = server.services.store
    ids = [add_person(store, name) for name in ("one", "two")]
    with store.write() as session:
        accept_as(session, secret, session.get_one(type(find_user(session, "one")), ids[0]))
    with store.write() as session:  # as if it had been opened before the other used it
        session.execute(update(Invitation).values(note="x"))
    with store.write() as session, pytest.raises(InvitationError):
        accept_as(session, secret, find_user(session, "two"))


def test_a_server_without_passwords_has_no_such_door(tmp_path):
    with team_server(tmp_path) as server:
        use_ways(server, local=None)
        with server.client() as visitor:
            assert 'type="password"' not in visitor.get("/login").text
            assert post_login(visitor).status_code == 404


def test_the_pages_have_no_inline_script_or_foreign_address(server, visitor):
    secret = new_invitation(server)
    for path in ("/login", "/logout", f"/invite/{secret}", "/nothing"):
        page = visitor.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|javascript:|https?://", page), path


def test_set_role_is_what_it_says(server):
    store = server.services.store
    project, user_id = new_project(store), add_person(store, "roles")
    with store.write() as session:
        for role in (ProjectRole.OWNER, ProjectRole.VIEWER):
            set_role(session, project, user_id, role)
            session.flush()
            assert session.get(Member, (project, user_id)).role == str(role)


def test_a_client_that_speaks_no_form_gets_words(visitor):
    answer = visitor.post("/login", content=b"\xff\xfe", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status_code in (400, 403)
    assert isinstance(answer, httpx.Response)
    assert "Traceback" not in answer.text
