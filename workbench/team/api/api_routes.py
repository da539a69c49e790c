"""API routes and the OpenAPI document, which is public because it reveals nothing that is stored."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any

from tornado.web import HTTPError

from workbench import __version__
from workbench.team.actions.action import Action, Inputs
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.actions.perform import Context, admit, perform
from workbench.team.actions.schemas import ERROR
from workbench.team.web.base_handler import TeamHandler


class OpenApiHandler(TeamHandler):
    async def get(self) -> None:
        self.write_json(_document(self.server.address))


class ApiPageHandler(TeamHandler):
    async def get(self) -> None:
        nouns = [(noun, [_row(action) for action in actions]) for noun, actions in groupby(ALL_ACTIONS, noun_of)]
        self.write_page("api.html", nouns=nouns, root=self.server.url(ROOT), count=len(ALL_ACTIONS))


@lru_cache(maxsize=4)
def _document(address: str) -> dict[str, Any]:
    return openapi_document(ALL_ACTIONS, address)


def _row(action: Action) -> dict[str, Any]:
    body = action.body or {}
    required = set(body.get("required", ()))
    fields = [(name, name in required) for name in body.get("properties", {})]
    query = [(name, name in action.required) for name in action.query]
    row = {"name": action.name, "method": action.method, "path": action.path, "summary": action.summary, "who": who_may(action)}
    return {**row, "fields": fields, "query": query}


def api_routes() -> list[tuple[Any, ...]]:
    paths: dict[str, dict[str, Action]] = {}
    for action in ALL_ACTIONS:
        paths.setdefault(action.path, {})[action.method] = action
    described = [(rf"{ROOT}/openapi\.json", OpenApiHandler), (rf"{ROOT}/?", ApiPageHandler)]
    fixed_first = sorted(paths.items(), key=lambda item: item[0].count("{"))  # `/people/invitations` must not match a user name
    return [*described, *((ROOT + _pattern(path), ActionHandler, {"actions": actions}) for path, actions in fixed_first)]


def _pattern(path: str) -> str:
    return re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]*)", re.escape(path))


# One handler class serves all actions; each route has its actions by HTTP method.


class ActionHandler(TeamHandler):
    actions: Mapping[str, Action]

    def initialize(self, actions: Mapping[str, Action]) -> None:  # type: ignore[override]
        super().initialize()
        self.actions = actions
        self._etag: str | None = None

    @property
    def largest_body(self) -> int:
        action = self.actions.get(self.request.method or "")
        return action.largest_body if action is not None else super().largest_body

    async def prepare(self) -> None:
        """Reject unauthorized requests before reading the body."""
        await super().prepare()
        action = self.actions.get(self.request.method or "")
        if action is not None and self.announced_body != 0:
            await admit(action, Context.of(self), self.path_kwargs)

    async def carry_out(self, **path: str) -> None:
        """Write the answer of the method's action; HEAD requests get no body."""
        action = self.actions.get((self.request.method or "").replace("HEAD", "GET"))
        if action is None:
            raise HTTPError(405)
        query = {key: self.get_query_arguments(key, strip=False) for key in self.request.query_arguments}
        answer = await perform(action, Context.of(self), Inputs(path, query, await self.read_json()))
        if action.etag:
            self._etag = f'"{answer[action.etag]}"'
            self.set_header("Cache-Control", "private, no-cache")  # may be stored, but must be revalidated
        self.write_json(answer, action.status)

    get = head = post = put = patch = delete = carry_out

    def compute_etag(self) -> str | None:
        """Return the ETag; only content-addressed answers have one and can be cached."""
        return self._etag


# The OpenAPI 3.1 document, generated from the schemas that also validate requests.

ROOT = "/api/v1"

_REFUSALS = {
    "400": "invalid input",
    "401": "not signed in, or invalid token",
    "403": "the person or the token lacks the permission",
    "404": "not found, or not visible to the person",
    "409": "conflict: a name is taken, a project is archived",
    "413": "the body is larger than the action takes",
    "429": "too many attempts, or too many large requests at a time",
    "503": "a required part of the server or its database is not available",
    "507": "the disk of the server is full; reading still works",
}
_ABOUT = """Every action on this server except gestures in a room.

Sign in with a token, `Authorization: Bearer wbt_...`, created with `workbench login`, on the account page, or with
`workbench team token`. A token has scopes: `read`, `edit` (plans and rooms), `run` (devices) and `manage` (what owners and administrators
do); each action also lists the project role it needs. Resources that you may not see are reported as not found.

Long lists are paginated: send `next` of an answer as `cursor` for the next page."""


def openapi_document(actions: Iterable[Action], address: str) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for action in actions:
        paths.setdefault(action.path, {})[action.method.lower()] = _operation(action)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sharding workbench, team server", "version": __version__, "description": _ABOUT},
        "servers": [{"url": address.rstrip("/") + ROOT}],
        "security": [{"token": []}, {"login": []}],
        "tags": [{"name": noun} for noun in dict.fromkeys(noun_of(action) for action in actions)],
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
    """Return the resource of an action: `plans` of `plans.push`."""
    return action.name.partition(".")[0]


def _operation(action: Action) -> dict[str, Any]:
    success = {str(action.status): {"description": "done", "content": _json(action.answer)}}
    refusals = {
        status: {"description": text, "content": _json({"$ref": "#/components/schemas/Error"})} for status, text in _REFUSALS.items()
    }
    return {
        "operationId": action.name,
        "summary": action.summary,
        "description": who_may(action),
        "tags": [noun_of(action)],
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in action.parameters),
            *(_query_parameter(action, name) for name in action.query),
        ],
        **(
            {"requestBody": {"required": bool(action.body.get("required")), "content": _json(action.body)}}
            if action.body is not None
            else {}
        ),
        "responses": {**success, **refusals},
        **({"security": []} if action.gate.who == "anyone" else {}),
        "x-scope": action.scope,
    }


def who_may(action: Action) -> str:
    required = str(action.gate)
    link = " or of a link to the room" if action.gate.guests else ""
    scope = "" if action.gate.who == "anyone" else f" A token takes the scope `{action.scope}`."
    return f"For {required}{link}.{scope}"


def _query_parameter(action: Action, name: str) -> dict[str, Any]:
    schema, required = action.query[name], name in action.required
    style = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
    return {"name": name, "in": "query", "required": required, "schema": dict(schema), **style}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": dict(schema)}}
