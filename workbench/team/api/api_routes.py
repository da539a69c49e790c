"""The addresses of the API, and its description: an OpenAPI document for programs, a page for people. Both say nothing of what the server
holds: they are for anybody.
"""

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
    """The OpenAPI document."""

    async def get(self) -> None:
        self.write_json(_document(self.server.address))


class ApiPageHandler(TeamHandler):
    """All actions, by what they are about."""

    async def get(self) -> None:
        nouns = [(noun, [_row(each) for each in actions]) for noun, actions in groupby(ALL_ACTIONS, noun_of)]
        self.write_page("api.html", nouns=nouns, root=self.server.url(ROOT), count=len(ALL_ACTIONS))


@lru_cache(maxsize=4)
def _document(address: str) -> dict[str, Any]:
    return openapi_document(ALL_ACTIONS, address)


def _row(action: Action) -> dict[str, Any]:
    body = action.body or {}
    required = set(body.get("required", ()))
    fields = [(name, name in required) for name in body.get("properties", {})]
    query = [(name, name in action.required) for name in action.query]
    own = {"name": action.name, "method": action.method, "path": action.path, "summary": action.summary, "who": who_may(action)}
    return {**own, "fields": fields, "query": query}


def api_routes() -> list[tuple[Any, ...]]:
    paths: dict[str, dict[str, Action]] = {}
    for action in ALL_ACTIONS:
        paths.setdefault(action.path, {})[action.method] = action
    described = [(rf"{ROOT}/openapi\.json", OpenApiHandler), (rf"{ROOT}/?", ApiPageHandler)]
    return [*described, *((ROOT + _pattern(path), ActionHandler, {"actions": actions}) for path, actions in _fixed_first(paths))]


def _fixed_first(paths: dict[str, dict[str, Action]]) -> list[tuple[str, dict[str, Action]]]:
    """Addresses with fewer parameters come first: `/people/invitations` is nobody's name."""
    return sorted(paths.items(), key=lambda each: each[0].count("{"))


def _pattern(path: str) -> str:
    return re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]*)", re.escape(path))


# All actions over HTTP: one handler class, with the actions of its address by method.


class ActionHandler(TeamHandler):
    """Carries out the action of a method at one address."""

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
        """Refuse a body, before it is read, of a person who may not do this."""
        await super().prepare()
        action = self.actions.get(self.request.method or "")
        if action is not None and self.announced_body != 0:
            await admit(action, Context.of(self), self.path_kwargs)

    async def carry_out(self, **path: str) -> None:
        """Answer with what the action of the request's method answers; without a body to one that asks for the head alone."""
        action = self.actions.get((self.request.method or "").replace("HEAD", "GET"))
        if action is None:
            raise HTTPError(405)
        query = {key: self.get_query_arguments(key, strip=False) for key in self.request.query_arguments}
        answer = await perform(action, Context.of(self), Inputs(path, query, await self.read_json()))
        if action.etag:
            self._etag = f'"{answer[action.etag]}"'
            self.set_header("Cache-Control", "private, no-cache")  # it may be kept, and is asked for each time
        self.write_json(answer, action.status)

    get = head = post = put = patch = delete = carry_out

    def compute_etag(self) -> str | None:
        """Of what has a digest alone: nothing else may be kept."""
        return self._etag


# The description of the API, OpenAPI 3.1, made from the actions: what is described is what is checked.

ROOT = "/api/v1"

_REFUSALS = {
    "400": "invalid input",
    "401": "not signed in, or invalid token",
    "403": "the person or the token lacks the permission",
    "404": "not found, or not visible to the person",
    "409": "conflict: a name is taken, a project is archived",
    "413": "the body is larger than the action takes",
    "429": "too many attempts, or too many large requests at a time",
    "503": "a part of the server that this needs is not there, or its database does not do what it should",
    "507": "the server's disk is full; what is there can be read",
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
        "parameters": [
            *map(_path_parameter, action.parameters),
            *(_query_parameter(action, each) for each in action.query),
        ],
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


def _query_parameter(action: Action, name: str) -> dict[str, Any]:
    """A list is given in one value, with commas."""
    schema, required = action.query[name], name in action.required
    style = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
    return {"name": name, "in": "query", "required": required, "schema": dict(schema), **style}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": dict(schema)}}
