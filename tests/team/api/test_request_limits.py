"""How much of a request is read: nothing before it is known who sends it, and no more than its action takes. The bodies of most of these
requests are announced and never sent, so that whatever is answered is answered without them."""

import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated
from urllib.parse import urlsplit

import pytest
from msgspec import UNSET, Meta, UnsetType

from tests.support.action_examples import allowed_person, body_of, path_of
from tests.support.team_jobs import wait_until
from tests.support.team_world import document
from workbench.app.page.request_policy import SMALL_BODY
from workbench.team.actions.action import Action
from workbench.team.actions.all_actions import ALL_ACTIONS, action_of
from workbench.team.actions.schemas import DOCUMENT, Record, largest_json, one_of, schema_of
from workbench.team.store.tables import Setting
from workbench.team.web.request_bodies import MOST_AT_ONCE

WITH_BODY = [each for each in ALL_ACTIONS if each.body is not None]
HUGE = 100 << 20


def answer_without_body(
    running, method: str, path: str, *headers: str, parts: Iterable[bytes] = (), length: int | None = HUGE
) -> tuple[int, str]:
    """The status and text of the answer to a request whose body is announced; of it only `parts` are sent."""
    address = urlsplit(running.url)
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = (f"{method} {path} HTTP/1.1", f"Host: localhost:{address.port}", f"Origin: {running.origin}", framing, *headers, "", "")
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        answer = b""
        with suppress(ConnectionError):  # it closes while there is more to be read
            for part in ("\r\n".join(lines).encode(), *parts):
                connection.sendall(part)
        with suppress(ConnectionError):
            while chunk := connection.recv(65_536):
                answer += chunk
    head, _, text_of_answer = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), text_of_answer


def token(world, name: str) -> str:
    return f"Authorization: Bearer {world.tokens[name]}"


def address(action: Action, world) -> str:
    return "/api/v1" + action.path.format(**path_of(action, world))


@pytest.mark.parametrize("action", [each for each in ALL_ACTIONS if each.gate.who != "anyone"], ids=lambda each: each.name)
def test_a_stranger_is_refused_before_anything_is_read(action, running, world):
    status, message = answer_without_body(running, action.method, address(action, world), length=SMALL_BODY)
    assert (status, json.loads(message)["error"]["kind"]) == (401, "not_signed_in")


@pytest.mark.parametrize("action", [each for each in WITH_BODY if each.gate.who == "member"], ids=lambda each: each.name)
@pytest.mark.parametrize("length", [1, None])
def test_who_has_no_role_is_refused_before_anything_is_read(action, length, running, world):
    status, message = answer_without_body(running, action.method, address(action, world), token(world, "sam"), length=length)
    assert (status, json.loads(message)["error"]["kind"]) == (404, "missing")


@pytest.mark.parametrize("action", WITH_BODY, ids=lambda each: each.name)
def test_no_more_is_read_than_an_action_takes(action, running, world):
    who, path, largest = token(world, allowed_person(action)), address(action, world), action.largest_body
    for length, parts in ((largest + 1, ()), (None, [b"%x\r\n" % HUGE, b" " * (largest + 1)])):
        status, message = answer_without_body(running, action.method, path, who, length=length, parts=parts)
        assert (status, json.loads(message)["error"]["kind"]) == (413, "too_large")
        assert "the limit is" in message


def test_who_has_as_much_as_one_may_is_refused_before_anything_is_read(running, world):
    world.do("settings.set", "root", {"value": {"programs": 1, "plans": 1, "rooms": 1, "mebibytes": 100}}, setting="accounts")
    try:
        for action in map(action_of, ("programs.add", "plans.push", "rooms.open")):
            status, message = answer_without_body(running, action.method, address(action, world), token(world, "ada"), length=60_000)
            error = json.loads(message)["error"]
            assert (status, error["kind"]) == (409, "conflict")
            assert " of 1: " in error["message"]
    finally:
        with world.store.write() as session:
            session.delete(session.get_one(Setting, "accounts"))


def test_a_body_in_chunks_within_the_limit_is_read(running, world):
    body = json.dumps(body_of(action_of("comments.add"), world)).encode()
    with running.client(Authorization=f"Bearer {world.tokens['ed']}") as client:
        answer = client.post(f"/api/v1/rooms/{world.things['vision']['room']}/comments", content=iter([body[:5], body[5:]]))
    assert answer.status_code == 201


def test_of_one_person_few_large_bodies_are_read_at_a_time(running, world):
    """Those whose connections are closed count no more."""
    place, path = urlsplit(running.url), "/api/v1/projects/vision/plans"
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Length: 1000000", "Expect: 100-continue", token(world, "ada"), "", "")
    connections = [socket.create_connection((place.hostname, place.port), timeout=20) for _ in range(MOST_AT_ONCE)]
    for each in connections:
        each.sendall("\r\n".join(lines).encode())
        assert each.recv(100).startswith(b"HTTP/1.1 100")  # it waits for the body
    status, message = answer_without_body(running, "POST", path, token(world, "ada"), length=1_000_000)
    assert (status, json.loads(message)["error"]["kind"]) == (429, "too_many")
    assert answer_without_body(running, "POST", path, token(world, "vic"), length=1_000_000)[0] == 403, "it is somebody else's"
    for each in connections:
        each.close()
    content = json.dumps({"document": document()}).encode() + b" " * SMALL_BODY
    with running.client(Authorization=f"Bearer {world.tokens['ada']}") as client:
        wait_until(lambda: client.post(path, content=content).status_code == 201)
        assert [client.post(path, content=content).status_code for _ in range(MOST_AT_ONCE + 1)] == [201] * (MOST_AT_ONCE + 1)


def test_a_form_to_sign_in_is_small(running):
    assert answer_without_body(running, "POST", "/login", length=20_000)[0] == 413
    assert answer_without_body(running, "POST", "/login", length=None, parts=[b"8000\r\n", b"a" * 20_000])[0] == 413


def test_what_has_no_body_and_addresses_that_are_none_read_none(running):
    for method, path in (("GET", "/healthz"), ("GET", "/login"), ("POST", "/api/v1/nothing"), ("POST", "/nothing")):
        status, _ = answer_without_body(running, method, path, length=None, parts=[b"20000\r\n", b"a" * (SMALL_BODY + 1)])
        assert status in (404, 413), path


def test_the_largest_body_follows_from_the_schema():
    sizes = {each.name: each.largest_body for each in ALL_ACTIONS}
    assert DOCUMENT < sizes["plans.push"] < 2.2 * DOCUMENT
    assert 12 << 20 < sizes["programs.add"] < 12.5 * (1 << 20)
    assert sizes["me.update"] == sizes["me.get"] == SMALL_BODY


class Largest(Record, frozen=True):
    name: Annotated[str, Meta(max_length=30)]
    kind: Annotated[str, one_of("short", "longer")]
    sizes: Annotated[list[Annotated[int, Meta(ge=0, le=10**12)]], Meta(max_length=50)] | None = None
    note: Annotated[str, Meta(max_length=200)] | UnsetType | None = UNSET
    options: Annotated[dict[str, Annotated[str, Meta(max_length=20)]], Meta(max_length=9)] | None = None


SCHEMA = schema_of(Largest)


def test_what_a_schema_allows_fits():
    value = {
        "name": '"' * 30,
        "kind": "longer",
        "sizes": [10**12] * 50,
        "note": "\n" * 200,
        "options": {f"{key:a>80}": "\\" * 20 for key in range(9)},
    }
    assert 1_500 < len(json.dumps(value)) < largest_json(SCHEMA) < 3 * len(json.dumps(value))
