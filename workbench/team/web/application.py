"""The Tornado application of the server's own pages, and what its log says of a request."""

import logging
import re
from typing import Any

from tornado.web import Application, RequestHandler

from workbench.team.web.base_handler import MissingPageHandler
from workbench.team.web.health import ServerFigures
from workbench.team.web.services import TeamServices

_SECRETS = re.compile(r"(/(?:invite|share)/)[^/?]+")
_log = logging.getLogger("workbench.team.requests")


def shown_path(path: str) -> str:
    """A path as the log has it: without the secret of a link, and without a query, where codes and searches are.

    >>> shown_path("/team/invite/abc"), shown_path("/p/vision/")
    ('/team/invite/...', '/p/vision/')
    """
    return _SECRETS.sub(r"\1...", path)[:200]


def application_settings(services: TeamServices) -> dict[str, Any]:
    """Settings that every application of the server has."""
    figures = ServerFigures(services)

    def log_function(handler: RequestHandler) -> None:
        figures.observe(handler)
        status, path = handler.get_status(), shown_path(handler.request.path)
        _log.log(logging.ERROR if status >= 500 else logging.DEBUG, "%d %s %s", status, handler.request.method, path)

    return {"team": services, "figures": figures, "log_function": log_function, "default_handler_class": MissingPageHandler}


def with_prefix(routes: list[tuple[Any, ...]], prefix: str) -> list[tuple[Any, ...]]:
    """Routes under the server's prefix."""
    return [(re.escape(prefix) + route[0], *route[1:]) for route in routes]


def team_application(services: TeamServices, routes: list[tuple[Any, ...]]) -> Application:
    """An application with these routes, which are without the prefix."""
    return Application(with_prefix(routes, services.prefix), **application_settings(services))
