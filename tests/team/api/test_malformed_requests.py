"""What nobody meant to be sent: never an error of the server, a traceback or an import, and nothing is changed by what is refused.

A sample of it is in every run, ten thousand requests in the nights.
"""

import json
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.action_examples import address_of, body_of, path_of, query_of
from tests.support.team_world import DIGEST, document
from workbench.team.actions.all_actions import ALL_ACTIONS

DEEP = "[" * 5_000 + "]" * 5_000
RAW_BODIES = {
    "empty text": b'""',
    "null": b"null",
    "list": b"[]",
    "number": b"3",
    "NaN": b'{"days": NaN}',
    "infinity": b'{"days": 1e999}',
    "huge number": b'{"days": ' + b"9" * 5_000 + b"}",
    "half a character": b'{"name": "\\ud800"}',
    "half a character as a key": b'{"\\ud800": 1}',
    "character zero": b'{"name": "a\\u0000b"}',
    "no UTF-8": b'{"name": "\xff\xfe"}',
    "deep": DEEP.encode(),
    "deep object": (b'{"a":' * 3_000) + b"1" + b"}" * 3_000,
    "cut": b'{"name": "a',
    "twice": b'{"name": "a", "name": "b"}',
    "form": b"name=a&role=owner",
    "code": b"__import__('os').system('true')",
    "pickle": b"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
}
TEXTS = [
    *("", " ", "\n", "abc\n", "a" * 5_000, "\ud800", "a\0b", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "'; DROP TABLE user; --"),
    *(
        '" OR 1=1 --',
        "<script>alert(1)</script>",
        "{{7*7}}",
        "%s%n",
        "${jndi:ldap://x}",
        "nul\\u0000",
        "١٢٣",
        "１２",
        "true",
        "-1",
        "1e9",
        "NaN",
    ),
    *(
        "os:system",
        "tests.support.importable:does_not_say",
        "data:4 model:0",
        "\u202egpj.exe",
        "💥" * 40,
        "a,b,c",
        "%",
        "_",
        "\\",
        "[]",
        "{}",
    ),
]
VALUES = [
    *TEXTS,
    None,
    True,
    False,
    0,
    -1,
    1,
    3.5,
    10**20,
    -(10**20),
    float("1e300"),
    [],
    {},
    [[]],
    {"a": {"b": 1}},
    ["read"] * 50,
    {"": ""},
]


@pytest.fixture(scope="module")
def client(running, world):
    with running.client(Authorization=f"Bearer {world.tokens['root']}") as client:
        yield client


def verify_answered(answer):
    """Whatever it is, it is an answer that was meant."""
    assert answer.status_code < 500, (answer.request.method, str(answer.request.url), answer.request.content[:200], answer.text)
    assert "Traceback" not in answer.text
    assert 'File "' not in answer.text
    if answer.status_code >= 400:
        error = answer.json()["error"]
        assert error["kind"] in ("invalid", "missing", "conflict", "forbidden", "not_signed_in", "no_such_method", "too_large")
        assert 0 < len(error["message"]) < 2_000


def send(client, action, world, body=None, query=None, path=None, raw=None):
    """One request; `raw` is sent as it is, in place of a body. A text that is no UTF-8 is sent as JSON writes it."""
    content = raw if raw is not None else json.dumps(body).encode() if body is not None else None
    return client.request(action.method, path or address_of(action, path_of(action, world)), params=query, content=content)


@pytest.mark.compile
@pytest.mark.share(3)
@pytest.mark.parametrize("action", [each for each in ALL_ACTIONS if each.body is not None], ids=lambda each: each.name)
def test_bodies_that_are_none_are_refused(action, client, world):
    before = world.dump()
    accepts_nothing = not action.body.get("required")
    for name, raw in RAW_BODIES.items():
        answer = send(client, action, world, raw=raw)
        verify_answered(answer)
        assert answer.status_code == 400 or (accepts_nothing and name == "null"), (name, answer.text)
    assert accepts_nothing or world.dump() == before


@pytest.mark.compile
@pytest.mark.share(3)
@pytest.mark.parametrize("action", [each for each in ALL_ACTIONS if each.parameters], ids=lambda each: each.name)
def test_paths_that_lead_nowhere(action, client, world):
    before = world.dump()
    names = [
        "%2e%2e",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "%00",
        "%ff",
        "a" * 3_000,
        "'%20OR%20'1'='1",
        "%F0%9F%92%A5",
        "-",
        "%7B%7D",
        "vision%0a",
        "%C0%AF",
    ]
    for name in names:
        address = address_of(action, {**path_of(action, world), action.parameters[0]: name})
        answer = send(client, action, world, body=body_of(action, world), path=address)
        assert answer.status_code in (400, 404, 405), (address, answer.text)
        verify_answered(answer)
    assert world.dump() == before


@pytest.mark.compile
@pytest.mark.share(3)
@pytest.mark.parametrize("action", [each for each in ALL_ACTIONS if each.method == "GET"], ids=lambda each: each.name)
def test_queries_that_mean_nothing(action, client, world):
    before, known = world.dump(), query_of(action, world)
    for key in (*action.query, "nosuch", "\ud800", "a\0b", "limit[]"):
        shown = key.encode("utf-8", "surrogatepass")
        for value in (
            b"",
            b"\xff",
            b"%00",
            b"-1",
            b"1e9",
            b"9" * 400,
            b"NaN",
            b"' OR 1=1",
            b"a" * 3_000,
            b"%ED%A0%80",
            b"bm9uZQ",
            b"WzFlOTk5LCJhIl0",
        ):
            answer = client.get(address_of(action, path_of(action, world)), params=None if key == "" else {**known, shown: value})
            verify_answered(answer)
            assert key in action.query or answer.status_code == 400
    assert world.dump() == before


def test_a_parameter_given_twice_or_that_is_not_known_is_refused_in_words(client):
    answer = client.get("/api/v1/plans?limit=1&limit=2")
    assert answer.json()["error"]["message"] == "`limit` is given 2 times."
    answer = client.get("/api/v1/plans?limt=1")
    assert answer.json()["error"]["ways_out"] == ["did you mean `limit`?"]


def test_what_is_wrong_is_said_with_its_place(client, world):
    things = world.things["vision"]
    answer = client.post(f"/api/v1/rooms/{things['room']}/comments", json={"node": 1, "text": ""})
    assert answer.json()["error"]["message"] == "Invalid body at `text`: '' should be non-empty."
    answer = client.put("/api/v1/projects/vision/hardware/pod", json={"hardware": "9 Quantum Processors"})
    assert "Quantum Processors" in answer.json()["error"]["message"]
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        DEEP,
        "not json",
        document().replace("two_layer", "tests.support.importable:does_not_say"),
        document().replace("two_layer", "os:system"),
        document().replace("two_layer", "no_such_model"),
        document().replace('["data", 4]', '["data", -4]'),
        document().replace('["data", 4]', '["data", 1e400]'),
        document().replace('"version": 1', '"version": 99'),
        document().replace('"batch"', '"\\ud800"', 1),
        document()[:-20],
    ],
    ids=range(12),
)
def test_documents_that_are_none_are_refused_and_nothing_is_imported(text, client, world):
    before, loaded = world.dump(), set(sys.modules)
    answer = client.post("/api/v1/projects/vision/plans", json={"document": text})
    verify_answered(answer)
    assert answer.status_code == 400
    assert world.dump() == before
    assert not {name for name in set(sys.modules) - loaded if name.startswith(("tests.", "mine"))}


def test_a_program_that_is_not_approved_is_not_imported(client, world):
    text = document().replace("two_layer", "mine:build")
    answer = client.post("/api/v1/projects/vision/plans", json={"document": text})
    assert answer.json()["error"]["message"] == "`mine:build` is fetched but not approved yet; it runs only after it is approved."
    assert "mine" not in sys.modules


def test_a_method_or_an_address_that_there_is_not(client):
    for method, path, status in (
        ("DELETE", "/api/v1/me", 405),
        ("POST", "/api/v1/plans", 405),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v2/me", 404),
    ):
        answer = client.request(method, path)
        verify_answered(answer)
        assert answer.status_code == status


def test_a_request_that_is_too_large_is_refused(client):
    answer = client.post("/api/v1/projects/vision/plans", content=b'{"document": "' + b"a" * (14 << 20) + b'"}')
    assert answer.status_code == 413


JSON = st.recursive(
    st.sampled_from(VALUES) | st.text(max_size=20) | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.share(3)
@pytest.mark.parametrize("action", [each for each in ALL_ACTIONS if each.body is not None], ids=lambda each: each.name)
def test_bodies_drawn_at_random_are_answered(action, client, world):
    keys = st.sampled_from([*action.body["properties"], "id", "admin", "project_id"])

    @settings(max_examples=8)
    @given(st.dictionaries(keys, JSON, max_size=4))
    def check(body):
        verify_answered(send(client, action, world, body=body))

    check()


def mutated(body, generator):
    """A body that is right but for one place."""
    copy = json.loads(json.dumps(body if isinstance(body, dict) else {}))
    key = generator.choice([*copy, "extra"])
    copy[key] = generator.choice(VALUES)
    return copy


@pytest.fixture(scope="module")
def right(world):
    """Of each action what is right, from before anything was changed."""
    return {each.name: (body_of(each, world), query_of(each, world), path_of(each, world)) for each in ALL_ACTIONS}


@pytest.mark.compile
@pytest.mark.parametrize("block", [pytest.param(block, marks=() if block == 0 else pytest.mark.nightly) for block in range(40)])
def test_requests_that_are_wrong_in_one_place_are_answered(block, client, right, request):
    """250 in each block."""
    generator = random.Random(f"{request.config.getoption('--hypothesis-seed')} {block}")
    loaded = {name for name in sys.modules if name.startswith("tests.")}
    for _ in range(250):
        action = generator.choice(ALL_ACTIONS)
        body, query, path = right[action.name]
        path = dict(path)
        place = generator.choice(["body"] * 3 + ["query", "path", "token"])
        if place == "query":
            query = {**query, generator.choice([*action.query, "x"]): generator.choice(TEXTS).encode("utf-8", "surrogatepass")}
        if place == "path" and path:
            path[generator.choice(list(path))] = generator.choice(["..", "%2e", "%00", "a" * 99, DIGEST, "0", "%f0%28%8c%28", "a%20b"])
        headers = {"Authorization": f"Bearer {generator.choice([TEXTS[4], 'x', 'wbt_' + 'a' * 43])}"} if place == "token" else {}
        if place == "body":
            body = mutated(body, generator)
        content = json.dumps(body).encode() if body is not None and action.body is not None else None
        verify_answered(client.request(action.method, address_of(action, path), params=query, content=content, headers=headers))
    assert {name for name in sys.modules if name.startswith("tests.")} == loaded
