"""A store that can only be read: every change is refused in words, nothing that was stored is lost, and everything can still be read."""

import pytest
from sqlalchemy import update

from tests.support.action_examples import address_of, allowed_person, body_of, path_of, query_of
from tests.support.team_server import PASSWORD, add_person
from tests.support.unwritable_stores import full, only_read
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.store.tables import Token

CHANGES = [each for each in ALL_ACTIONS if each.changes]
READS = [each for each in ALL_ACTIONS if not each.changes]


@pytest.fixture(scope="module")
def client(running):
    with running.client() as client:
        yield client


@pytest.fixture
def read_only(running, world):
    with only_read(running.services.store):
        yield world


def ask(client, action, world):
    headers = {"Authorization": f"Bearer {world.tokens[allowed_person(action)]}"}
    body = {"json": body_of(action, world)} if action.body is not None else {}
    path = path_of(action, world)
    return client.request(action.method, address_of(action, path), params=query_of(action, world), headers=headers, **body)


@pytest.mark.parametrize("action", CHANGES, ids=lambda each: each.name)
def test_every_change_is_refused_in_words(action, client, read_only):
    before = read_only.dump()
    answer = ask(client, action, read_only)
    assert answer.status_code == 503, answer.text
    error = answer.json()["error"]
    assert error["kind"] == "unavailable"
    assert error["message"] == "The server may not write to its disk, so nothing was changed."
    assert "go on reading" in error["ways_out"]
    assert read_only.dump() == before


@pytest.mark.parametrize("action", READS, ids=lambda each: each.name)
def test_everything_can_be_read_also_with_a_token_whose_use_is_to_be_noted(action, client, running, world):
    with running.services.store.write() as session:
        session.execute(update(Token).values(used=None))
    with only_read(running.services.store):
        assert ask(client, action, world).status_code == 200


def test_comments_on_a_full_disk_are_stored_or_refused(client, running, world):
    room, headers = world.things["vision"]["room"], {"Authorization": f"Bearer {world.tokens['ada']}"}
    address, texts = f"/api/v1/rooms/{room}/comments", []
    with full(running.services.store):
        for number in range(100):
            text = f"{number} {'long ' * 300}".strip()
            answer = client.post(address, json={"node": 0, "text": text}, headers=headers)
            if answer.status_code != 201:
                break
            texts.append(text)
        assert answer.status_code == 507, answer.text
        assert answer.json()["error"]["kind"] == "disk_full"
        assert answer.json()["error"]["message"] == "The disk of the server is full, so nothing was changed."
        shown = [each["text"] for each in client.get(address, headers=headers).json()["items"]]
        assert set(texts) == {each for each in shown if "long" in each}
    assert client.post(address, json={"node": 0, "text": "after"}, headers=headers).status_code == 201


def test_who_signs_in_on_a_full_disk_is_signed_in_or_told(running, world):
    store = running.services.store
    add_person(store, "grace", password=PASSWORD)
    with full(store), running.client() as browser:
        for _ in range(100):
            answer = browser.post("/login", data={"name": "grace", "password": PASSWORD})
            if answer.status_code != 302:
                break
            assert running.client(browser.cookies["workbench"]).get("/api/v1/me").json()["name"] == "grace"
        assert answer.status_code == 507
        assert "The disk of the server is full" in answer.text
        assert browser.get("/api/v1/me").json()["name"] == "grace", "the login before it is as good as it was"
        wrong = browser.post("/login", data={"name": "grace", "password": "wrong wrong wrong"})
        assert wrong.status_code in (403, 507), "which may find no place in the audit"
    with running.client() as browser:
        assert browser.post("/login", data={"name": "grace", "password": PASSWORD}).status_code == 302
