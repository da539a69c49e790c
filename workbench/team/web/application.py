"""The Tornado application of pages and API, its request log, health checks and metrics."""

import asyncio
import logging
import re
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from tornado.web import RequestHandler

from workbench.app.processes.child_table import health_report
from workbench.team.web.base_handler import MissingPageHandler, TeamHandler
from workbench.team.web.team_services import TeamServices

_SECRETS = re.compile(r"(/(?:invite|share)/)[^/?]+")
_log = logging.getLogger("workbench.team.requests")


def shown_path(path: str) -> str:
    """Return a path for the log, without secrets of links and without the query, which has codes and searches.

    >>> shown_path("/team/invite/abc"), shown_path("/p/vision/")
    ('/team/invite/...', '/p/vision/')
    """
    return _SECRETS.sub(r"\1...", path)[:200]


def application_settings(services: TeamServices) -> dict[str, Any]:
    figures = ServerFigures(services)

    def log_function(handler: RequestHandler) -> None:
        figures.observe(handler)
        status, path = handler.get_status(), shown_path(handler.request.path)
        _log.log(logging.ERROR if status >= 500 else logging.DEBUG, "%d %s %s", status, handler.request.method, path)

    return {"team": services, "figures": figures, "log_function": log_function, "default_handler_class": MissingPageHandler}


# Liveness, readiness and metrics.
#
# Labels of metrics have no names of users or plans.

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServerFigures:
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
        self.requests.labels(handler.request.method or "", f"{handler.get_status() // 100}xx").inc()
        self.seconds.observe(handler.request.request_time())


class AliveHandler(TeamHandler):
    """`/healthz`: liveness and missing child processes; 503 if a required one does not come back."""

    async def prepare(self) -> None:
        """Accept any request from any site: the store is not queried."""

    def get(self) -> None:
        report, is_alive = health_report(self.server.children())
        self.write_json(report, 200 if is_alive else 503)


class ReadyHandler(TeamHandler):
    """`/readyz`: readiness of store, planner and queue; 503 if one is not ready."""

    async def prepare(self) -> None:
        """Accept any request: the answer has three flags only."""

    async def get(self) -> None:
        states = await self._probe()
        self.write_json(states, 200 if all(states.values()) else 503)

    async def _probe(self) -> dict[str, bool]:
        server = self.server
        store = await asyncio.to_thread(server.store.is_ready)
        parts = {"planner": server.planner, "queue": server.jobs}
        return {"store": store} | {name: part.is_ready() for name, part in parts.items() if part is not None}


class FiguresHandler(TeamHandler):
    """`/metrics`: for administrators, or for everybody with `open_metrics`."""

    async def get(self) -> None:
        if not self.server.open_metrics:
            self.require_admin("read")
        figures: ServerFigures = self.application.settings["figures"]
        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(await asyncio.to_thread(generate_latest, figures.registry))


def health_routes() -> list[tuple[str, Any]]:
    return [(r"/healthz", AliveHandler), (r"/readyz", ReadyHandler), (r"/metrics", FiguresHandler)]
