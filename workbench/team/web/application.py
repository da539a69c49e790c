"""The Tornado application of the server's own pages, what its log says of a request, and how it says that it lives, is ready and how it
is."""

import asyncio
import logging
import re
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from tornado.web import Application, RequestHandler

from workbench.app.processes.child_table import health_report
from workbench.team.web.base_handler import MissingPageHandler, TeamHandler
from workbench.team.web.team_services import TeamServices

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
    return [(re.escape(prefix) + route[0], *route[1:]) for route in routes]


def team_application(services: TeamServices, routes: list[tuple[Any, ...]]) -> Application:
    return Application(with_prefix(routes, services.prefix), **application_settings(services))


# Whether the server lives, whether it is ready to work, and its figures for those who watch it.
#
# No figure has a person's name, or that of a plan, in its labels.

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServerFigures:
    """The figures of one server, in a registry of their own."""

    def __init__(self, services: TeamServices) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.requests = Counter("workbench_requests", "Requests answered", ["method", "status"], registry=self.registry)
        self.seconds = Histogram("workbench_request_seconds", "Request duration in seconds", registry=self.registry)
        for name, help_text, read in (
            ("workbench_open_sockets", "Open websockets", services.revocations.count),
            ("workbench_open_rooms", "Open rooms", services.rooms.count if services.rooms else lambda: 0),
        ):
            Gauge(name, help_text, registry=self.registry).set_function(read)

    def observe(self, handler: RequestHandler) -> None:
        """Count a request; `log_function` of an application calls it."""
        self.requests.labels(handler.request.method or "", f"{handler.get_status() // 100}xx").inc()
        self.seconds.observe(handler.request.request_time())


class AliveHandler(TeamHandler):
    """`/healthz`: the process answers, and says which of its children are missing; 503 where one that it needs does not come back."""

    async def prepare(self) -> None:
        """Anybody may ask, of whatever site: nothing is asked of the store."""

    def get(self) -> None:
        report, is_alive = health_report(self.server.children())
        self.write_json(report, 200 if is_alive else 503)


class ReadyHandler(TeamHandler):
    """`/readyz`: the store answers, and so would a planner and the queue where there are some; 503 otherwise."""

    async def prepare(self) -> None:
        """Anybody may ask: the answer holds three words."""

    async def get(self) -> None:
        found = await self._probe()
        self.write_json(found, 200 if all(found.values()) else 503)

    async def _probe(self) -> dict[str, bool]:
        server = self.server
        store = await asyncio.to_thread(server.store.is_ready)
        parts = {"planner": server.planner, "queue": server.jobs}
        return {"store": store} | {name: part.is_ready() for name, part in parts.items() if part is not None}


class FiguresHandler(TeamHandler):
    """`/metrics`: for administrators, or whoever can reach the server where that is set."""

    async def get(self) -> None:
        if not self.server.open_metrics:
            self.require_admin("read")
        figures: ServerFigures = self.application.settings["figures"]
        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(await asyncio.to_thread(generate_latest, figures.registry))


def health_routes() -> list[tuple[str, Any]]:
    return [(r"/healthz", AliveHandler), (r"/readyz", ReadyHandler), (r"/metrics", FiguresHandler)]
