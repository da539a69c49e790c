"""The description of the API: it is one, and answers are as it says."""

import re

import pytest
from openapi_spec_validator import validate

from tests.support.action_examples import address_of, allowed_person, path_of, query_of
from tests.support.choosing import share_of
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.actions.check_inputs import schema_flaw
from workbench.team.actions.schemas import ERROR


@pytest.fixture(scope="module")
def client(running, world):
    with running.client() as client:
        yield client


@pytest.fixture(scope="module")
def described(client):
    return client.get("/api/v1/openapi.json").json()


@pytest.mark.compile
def test_the_description_is_openapi(described, request):
    paths = share_of(request.config, list(described["paths"]), 5)
    validate({**described, "paths": {each: described["paths"][each] for each in paths}})
    assert described["openapi"] == "3.1.0"
    operations = [(method, path) for path, methods in described["paths"].items() for method in methods]
    assert len(operations) == len(ALL_ACTIONS)
    assert all(path.startswith("/") for _, path in operations)


@pytest.mark.parametrize("action", [each for each in ALL_ACTIONS if not each.changes], ids=lambda each: each.name)
def test_real_answers_are_as_described(action, client, world, described):
    headers = {"Authorization": f"Bearer {world.tokens[allowed_person(action)]}"}
    answer = client.get(address_of(action, path_of(action, world)), params=query_of(action, world), headers=headers)
    schema = described["paths"][action.path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema_flaw(schema, answer.json()) is None
    refused = client.get(address_of(action, path_of(action, world)))
    assert schema_flaw(ERROR, refused.json()) is None


def test_every_object_is_closed_and_every_text_that_is_sent_has_a_greatest_length():
    def walk(schema, place):
        if not isinstance(schema, dict):
            return
        kind = schema.get("type")
        if kind == "object":
            assert "additionalProperties" in schema, place
        if kind == "string" and "enum" not in schema:
            assert "maxLength" in schema, place
        if kind == "array":
            assert "maxItems" in schema, place
        for key in ("properties",):
            for name, each in schema.get(key, {}).items():
                walk(each, f"{place}.{name}")
        for each in (schema.get("items"), *schema.get("anyOf", ())):
            walk(each, place)

    for action in ALL_ACTIONS:
        walk(action.body, action.name)
        for name, schema in action.query.items():
            walk(schema, f"{action.name}?{name}")


def test_a_document_is_asked_for_again_by_its_digest(client, world):
    headers = {"Authorization": f"Bearer {world.tokens['vic']}"}
    entry, digest = world.things["vision"]["entry"], world.things["vision"]["digest"]
    for path in (f"/api/v1/entries/{entry}/document", f"/api/v1/documents/{digest}"):
        first = client.get(path, headers=headers)
        assert first.headers["ETag"] == f'"{digest}"'
        again = client.get(path, headers={**headers, "If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert client.get("/api/v1/me", headers=headers).headers["Cache-Control"] == "no-store"
    assert client.head(path, headers=headers).content == b""


def test_the_page_lists_every_action_and_loads_nothing_from_elsewhere(client, running):
    page = client.get("/api/v1/")
    assert page.status_code == 200
    assert all(f'id="{each.name}"' in page.text for each in ALL_ACTIONS)
    assert set(re.findall(r'(?:src|href)="(https?://[^"]+)"', page.text)) == set()
    assert f'workbench.connect("{running.services.address}")' in page.text


def test_an_error_has_a_kind_ways_out_and_a_number(client):
    error = client.get("/api/v1/me").json()["error"]
    assert (error["kind"], bool(error["ways_out"]), len(error["request"])) == ("not_signed_in", True, 16)
