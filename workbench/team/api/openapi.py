"""The description of the API, OpenAPI 3.1, made from the actions: what is described is what is checked."""

from collections.abc import Iterable, Mapping
from typing import Any

from workbench import __version__
from workbench.team.actions.action import Action
from workbench.team.actions.schemas import ERROR, Schema

ROOT = "/api/v1"

_REFUSALS = {
    "400": "something that was sent is not as it has to be",
    "401": "nobody is signed in, or the token is not good",
    "403": "the person, or the token, may not do this",
    "404": "there is no such thing, or it is not the person's to know of",
    "409": "it cannot be as things are: a name is taken, a project is archived",
    "413": "the body is larger than the action takes",
    "429": "too many attempts, or too many large requests at a time",
    "503": "a part of the server that this needs is not there, or its database does not do what it should",
    "507": "the server's disk is full; what is there can be read",
}
_ABOUT = """Everything that a person can do on this server apart from gestures in a room.

Sign in with a token, `Authorization: Bearer wbt_...`, made with `workbench login`, on the page of one's account, or with
`workbench team token`. A token has scopes: `read`, `edit` (plans and rooms), `run` (devices) and `manage` (what owners and administrators
do); besides, each action says which role in its project it takes. What is not yours to know of is answered like what does not exist.

Long lists come in parts: send `next` of an answer as `cursor` for the part that follows."""


def openapi_document(actions: Iterable[Action], address: str) -> dict[str, Any]:
    """The description for a server at `address`."""
    paths: dict[str, dict[str, Any]] = {}
    for action in actions:
        paths.setdefault(action.path, {})[action.method.lower()] = _operation(action)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sharding workbench, team server", "version": __version__, "description": _ABOUT},
        "servers": [{"url": address.rstrip("/") + ROOT}],
        "security": [{"token": []}, {"login": []}],
        "tags": [{"name": each} for each in dict.fromkeys(noun_of(action) for action in actions)],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "login": {"type": "apiKey", "in": "cookie", "name": "workbench"},
            },
            "schemas": {"Error": ERROR},
        },
    }


def noun_of(action: Action) -> str:
    """What an action is about: `plans` of `plans.push`."""
    return action.name.partition(".")[0]


def _operation(action: Action) -> dict[str, Any]:
    answers = {str(action.status): {"description": "done", "content": _json(action.answer)}}
    refused = {
        status: {"description": text, "content": _json({"$ref": "#/components/schemas/Error"})} for status, text in _REFUSALS.items()
    }
    return {
        "operationId": action.name,
        "summary": action.summary,
        "description": who_may(action),
        "tags": [noun_of(action)],
        "parameters": [*map(_path_parameter, action.parameters), *_query_parameters(action)],
        **(
            {"requestBody": {"required": bool(action.body.get("required")), "content": _json(action.body)}}
            if action.body is not None
            else {}
        ),
        "responses": {**answers, **refused},
        **({"security": []} if action.gate.who == "anyone" else {}),
        "x-scope": action.scope,
    }


def who_may(action: Action) -> str:
    """Who may do it, as a sentence."""
    who = str(action.gate)
    link = " or of a link to the room" if action.gate.guests else ""
    scope = "" if action.gate.who == "anyone" else f" A token takes the scope `{action.scope}`."
    return f"For {who}{link}.{scope}"


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(action: Action) -> list[dict[str, Any]]:
    return [_query_parameter(name, schema, name in action.required) for name, schema in action.query.items()]


def _query_parameter(name: str, schema: Schema, required: bool) -> dict[str, Any]:
    """A list is given in one value, with commas."""
    style = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
    return {"name": name, "in": "query", "required": required, "schema": dict(schema), **style}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": dict(schema)}}
