"""The addresses of the API."""

import re
from typing import Any

from workbench.team.actions.action import Action
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.api.action_handler import ActionHandler
from workbench.team.api.description_handlers import ApiPageHandler, OpenApiHandler
from workbench.team.api.openapi import ROOT


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
