"""The addresses of the API, and its description: an OpenAPI document for programs, a page for people. Both say nothing of what the server
holds: they are for anybody."""

import re
from functools import lru_cache
from itertools import groupby
from typing import Any

from workbench.team.actions.action import Action
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.api.action_handler import ActionHandler
from workbench.team.api.openapi import ROOT, noun_of, openapi_document, who_may
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
    """For Tornado, without the server's prefix."""
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
