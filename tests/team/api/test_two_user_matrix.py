"""Every action tried by everybody who may not, over a real connection: refused each time, and nothing in the store is another than before.

Then by who may, with the least role that is enough: done, and answered as the OpenAPI document says.
"""

import sqlite3
from contextlib import closing

import pytest

from tests.support.action_examples import EXAMPLES, address_of, allowed_person, body_of, path_of, query_of
from tests.support.team_server import new_store, team_server
from tests.support.team_world import ROLES, add_things, make_token, parts_of_server, people_world
from workbench.team.access import SCOPES, ProjectRole
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.actions.check_inputs import schema_flaw
from workbench.team.api.api_routes import api_routes
from workbench.team.store.store import now

EACH_ACTION = pytest.mark.parametrize("action", ALL_ACTIONS, ids=lambda each: each.name)
GUARDED = [each for each in ALL_ACTIONS if each.gate.who != "anyone"]
EACH_GUARDED = pytest.mark.parametrize("action", GUARDED, ids=lambda each: each.name)
NOWHERE = "zzzzzzzzzzzzzzzz"


@pytest.fixture(scope="module")
def client(running):
    with running.client() as client:
        yield client


@pytest.fixture(scope="module")
def bad_tokens(world):
    """Keys that open nothing, of people who might do everything."""
    return {
        "never made": "wbt_" + "a" * 43,
        "short": "w",
        "expired": make_token(world, "root", expires=now() - 1),
        "revoked": make_token(world, "root", revoked=True),
        "of somebody disabled": world.tokens["dora"],
    }


def ask(client, action, world, slug="vision", token="", cookie="", **headers):
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Cookie": f"workbench={cookie}"} if cookie else {}
    path = path_of(action, world, slug)
    body = {"json": body_of(action, world)} if action.body is not None else {}
    return client.request(action.method, address_of(action, path), params=query_of(action, world), headers=headers, **body)


def verify_refused(answer, status, kind):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["kind"] == kind
    assert error["message"]
    assert "Traceback" not in answer.text


CHANGED_BY = {
    ProjectRole.STUDENT: {"me.leave", "work.start", "answers.hand_in"},
    ProjectRole.VIEWER: {"me.leave", "plans.fork"},  # a fork goes into a project that they edit
}


@pytest.mark.parametrize("role", CHANGED_BY, ids=str)
def test_those_who_read_change_nothing_of_a_project_but_what_is_theirs(role):
    changes = {each.name for each in ALL_ACTIONS if each.changes and each.gate.who == "member" and each.gate.admits(role)}
    assert changes == CHANGED_BY[role]


def test_every_action_has_an_example():
    assert set(EXAMPLES) == {each.name for each in ALL_ACTIONS}
    assert len({(each.method, each.path) for each in ALL_ACTIONS}) == len(ALL_ACTIONS) == len(EXAMPLES)


@pytest.mark.compile
@EACH_GUARDED
def test_nobody_and_those_with_a_key_that_is_not_good_are_refused(action, client, world, bad_tokens):
    before = world.dump()
    for answer in [
        ask(client, action, world),
        ask(client, action, world, cookie="a" * 43),
        ask(client, action, world, cookie=world.cookies["dora"]),
    ]:
        verify_refused(answer, 401, "not_signed_in")
    for token in bad_tokens.values():
        verify_refused(ask(client, action, world, token=token), 401, "not_signed_in")
    assert world.dump() == before


@EACH_GUARDED
def test_a_token_without_the_scope_is_refused(action, client, world, scoped_tokens):
    before = world.dump()
    verify_refused(ask(client, action, world, token=scoped_tokens[action.scope]), 403, "forbidden")
    assert world.dump() == before


@pytest.fixture(scope="module")
def scoped_tokens(world):
    """Tokens of an administrator, with every scope but one."""
    return {scope: make_token(world, "root", tuple(each for each in SCOPES if each != scope)) for scope in SCOPES}


@pytest.mark.compile
@EACH_ACTION
def test_a_page_of_another_site_changes_nothing(action, client, world):
    before = world.dump()
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        answer = ask(client, action, world, cookie=world.cookies["root"], **headers)
        if action.changes:
            verify_refused(answer, 403, "forbidden")
    assert world.dump() == before


@pytest.mark.compile
@EACH_GUARDED
def test_strangers_and_those_below_the_role_are_refused(action, client, world):
    before = world.dump()
    if action.gate.who == "admin":
        for name in (*ROLES, "sam"):
            verify_refused(ask(client, action, world, token=world.tokens[name]), 403, "forbidden")
    if action.gate.who == "member":
        verify_refused(ask(client, action, world, token=world.tokens["sam"]), 404, "missing")
        verify_refused(ask(client, action, world, cookie=world.cookies["sam"]), 404, "missing")
        for name in (name for name, role in ROLES.items() if not action.gate.admits(role)):
            verify_refused(ask(client, action, world, token=world.tokens[name]), 403, "forbidden")
    assert world.dump() == before


@pytest.mark.parametrize("action", [each for each in GUARDED if each.parameters and each.gate.who != "admin"], ids=lambda each: each.name)
def test_what_is_of_another_project_is_answered_like_what_does_not_exist(action, client, world):
    """An owner of `vision` asks for the things of `other`, and for what nobody has."""
    before, of = world.dump(), action.parameters[0]
    path = path_of(action, world, "other")
    if action.gate.who == "person" and of != "digest":
        path = {of: {"login": world.cookies["sam"][:20], "token": "abcd"}[of]}
    headers = {"Authorization": f"Bearer {world.tokens['ada']}"}
    body = {"json": body_of(action, world, "other")} if action.body is not None else {}

    def try_path(path):
        answer = client.request(action.method, address_of(action, path), params=query_of(action, world), headers=headers, **body)
        verify_refused(answer, 404, "missing")
        return {**answer.json()["error"], "request": ""}

    foreign, absent = try_path(path), try_path({**path, of: NOWHERE})
    assert {**foreign, "message": foreign["message"].replace(path[of], NOWHERE)} == absent
    assert world.dump() == before


NOT_THE_AUTHOR = {"plans.update": "ed", "plans.withdraw": "ed", "comments.remove": "ed", "shares.revoke": "ed", "jobs.cancel": "rosa"}


@pytest.mark.parametrize(("name", "person"), NOT_THE_AUTHOR.items())
def test_what_is_somebody_elses_is_changed_by_owners_alone(name, person, client, world):
    before = world.dump()
    action = next(each for each in ALL_ACTIONS if each.name == name)
    verify_refused(ask(client, action, world, token=world.tokens[person]), 403, "forbidden")
    assert world.dump() == before


def test_nobody_forks_into_a_project_that_is_not_theirs(client, world):
    before = world.dump()
    action = next(each for each in ALL_ACTIONS if each.name == "plans.fork")
    for person, project, status in (("vic", "vision", 403), ("ed", "other", 404), ("ed", "nosuch", 404)):
        headers = {"Authorization": f"Bearer {world.tokens[person]}"}
        path = address_of(action, path_of(action, world))
        assert client.post(path, json={"project": project}, headers=headers).status_code == status
    assert world.dump() == before


def test_the_link_to_a_room_opens_for_nobody_who_is_not_signed_in(client, world):
    before = world.dump()
    for secret, status in ((world.things["vision"]["room_secret"], 401), ("a" * 43, 404)):
        assert client.post("/api/v1/shares/open", json={"secret": secret}).status_code == status
    assert world.dump() == before


@pytest.fixture(scope="module")
def spare(tmp_path_factory):
    """A second server, with a whole team, and a copy of its store."""
    folder = tmp_path_factory.mktemp("spare")
    store = new_store(folder)
    with team_server(folder, api_routes(), store=store, **parts_of_server(store)) as server:
        world = add_things(people_world(store, server.services))
        with closing(sqlite3.connect(folder / "team.db")) as file, closing(sqlite3.connect(":memory:")) as copy:
            file.backup(copy)
            with server.client() as client:
                yield client, world, file, copy


@pytest.fixture
def own(spare):
    """For an action that changes something: the store is as it was at first. SQLite itself puts it back, for the server may be reading."""
    client, world, file, copy = spare
    yield client, world
    copy.backup(file)


@pytest.mark.compile
@EACH_ACTION
def test_who_may_is_answered_as_described_and_each_change_is_in_the_audit(action, own):
    client, world = own
    before, person = world.dump(), allowed_person(action)
    answer = ask(client, action, world, token=world.tokens[person])
    assert answer.status_code == action.status, answer.text
    assert schema_flaw(action.answer, answer.json()) is None
    after = world.dump()
    added = [each for each in after["audit"] if each not in before["audit"]]
    if not action.changes:
        assert after == before
    else:
        assert [(each[4], each[2]) for each in added] == [(action.name, world.people[person])]
        assert action.name == "shares.open" or {**after, "audit": ()} != {**before, "audit": ()}
