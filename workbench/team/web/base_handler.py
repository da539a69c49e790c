"""The base handler of pages and API: authentication and error responses.

**Invariants**

- A state-changing request authenticated by a cookie comes from this server's own pages.
- A `WorkbenchError` is shown with its message; for other errors users see a request ID that the log has too.
- Responses are not cached.
"""

import asyncio
import json
import logging
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from tornado.web import HTTPError, MissingArgumentError

from workbench.errors import WorkbenchError
from workbench.team.access import ConflictError, ForbiddenError, MissingError, NotSignedInError, Principal, UnavailableError
from workbench.team.accounts.logins import principal_of_login
from workbench.team.accounts.rate_limit import TooManyAttemptsError
from workbench.team.accounts.revocations import principal_of_token
from workbench.team.pages.page_words import PAGE_FILTERS
from workbench.team.store.database_errors import DatabaseProblemError, FullDiskError, as_database_problem
from workbench.team.store.store import new_id
from workbench.team.web.request_bodies import BodyHandler, TooLargeError, TooManyBodiesError
from workbench.team.web.security import forwarded_address, page_headers, verify_origin
from workbench.team.web.team_services import TeamServices

_TEAM = Path(__file__).parents[1]
FOLDERS = (_TEAM / "pages" / "templates", _TEAM / "web" / "templates", _TEAM / "api" / "templates")
"""Template folders in search order: `base.html` of the pages comes before the one of this package."""


@cache
def page_environment() -> Environment:
    loader = FileSystemLoader([str(folder) for folder in FOLDERS])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= PAGE_FILTERS
    return environment


BEARER = "bearer"
_STATUS = {
    NotSignedInError: 401,
    ForbiddenError: 403,
    MissingError: 404,
    ConflictError: 409,
    TooLargeError: 413,
    TooManyAttemptsError: 429,
    TooManyBodiesError: 429,
    UnavailableError: 503,
    FullDiskError: 507,
    DatabaseProblemError: 503,
}
_KINDS = {
    401: "not_signed_in",
    403: "forbidden",
    404: "missing",
    405: "no_such_method",
    409: "conflict",
    413: "too_large",
    429: "too_many",
    503: "unavailable",
    507: "disk_full",
}
"""API error kinds by status; others are "invalid" or "failed"."""

_log = logging.getLogger(__name__)


class TeamHandler(BodyHandler):
    """Base handler: `self.server` has the services, `self.principal` the authenticated user or `None`."""

    principal: Principal | None = None

    def initialize(self) -> None:
        super().initialize()
        self.request_id = new_id()

    @property
    def server(self) -> TeamServices:
        services: TeamServices = self.application.settings["team"]
        return services

    @property
    def is_api(self) -> bool:
        return self.request.path.startswith(f"{self.server.prefix}/api/")

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in page_headers().items():
            self.set_header(name, value)

    async def prepare(self) -> None:
        """Reject foreign and too large requests, and authenticate the user."""
        if self.server.behind_proxy:
            self.request.remote_ip = forwarded_address(self.request.headers.get("X-Forwarded-For", ""))
        await super().prepare()
        await self._identify()
        if self.principal is not None:
            self.hold_body(self.principal.user_id)

    async def _identify(self) -> None:
        scheme, _, token = self.request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == BEARER:
            self.principal = await asyncio.to_thread(principal_of_token, self.server.store, token.strip())
            if self.principal is None:
                raise NotSignedInError
            return
        verify_origin(self.request.method or "", self.request.headers, self.server.own_origins)
        if cookie := self.get_cookie(self.server.cookie_name):
            self.principal = await asyncio.to_thread(principal_of_login, self.server.store, cookie)

    def require_principal(self, scope: str = "read") -> Principal:
        """Return the authenticated user. Raises `NotSignedInError`, and `ForbiddenError` for a token without the scope."""
        if self.principal is None:
            raise NotSignedInError
        if not self.principal.has_scope(scope):
            raise ForbiddenError(f"This token may not `{scope}`.", [f"create a token with the scope `{scope}`"])
        return self.principal

    def require_admin(self, scope: str = "manage") -> Principal:
        principal = self.require_principal(scope)
        if not principal.admin:
            raise ForbiddenError("This is for administrators of the server.", ["ask one of them"])
        return principal

    def write_json(self, value: object, status: int = 200) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))

    def write_page(self, template: str, status: int = 200, **values: object) -> None:
        """Render a page; templates get `path` (address within the server), `principal` and the given values."""
        self.set_status(status)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        shared = {"path": self.path_to, "principal": self.principal, "request_id": self.request_id}
        self.finish(page_environment().get_template(template).render({**shared, **values}))

    def path_to(self, path: str) -> str:
        return self.server.prefix + path

    def redirect_to(self, path: str) -> None:
        self.redirect(self.path_to(path))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        error = as_database_problem(error) or error
        if isinstance(error, TooManyAttemptsError):
            self.set_header("Retry-After", str(error.seconds))
        status = _status_of(error, status_code)
        if isinstance(error, NotSignedInError) and not self.is_api and self.request.method in ("GET", "HEAD"):
            self.redirect_to(f"/login?next={quote(self.request.uri or '', safe='')}")
            return
        message, ways_out = self._describe(error, status)
        if self.is_api:
            kind = _KINDS.get(status, "failed" if status >= 500 else "invalid")
            self.write_json({"error": {"message": message, "ways_out": ways_out, "kind": kind, "request": self.request_id}}, status)
        else:
            self.write_page("error.html", status, message=message, ways_out=ways_out, error_status=status)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log unexpected errors with the request ID; errors that users can fix are not logged."""
        if isinstance(value, (WorkbenchError, HTTPError)):
            return
        _log.error("Request %s (%s %s) failed.", self.request_id, self.request.method, self.request.path, exc_info=(typ, value, tb))

    def _describe(self, error: BaseException | None, status: int) -> tuple[str, list[str]]:
        if isinstance(error, WorkbenchError):
            return error.message, list(error.ways_out)
        if status == 404:
            return "No page has this address.", ["go to the home page"]
        if status == 405:
            return f"{self.request.method} means nothing at this address.", []
        if isinstance(error, MissingArgumentError):
            return f"`{error.arg_name[:80]}` is missing.", []
        if isinstance(error, HTTPError) and status < 500:
            return error.log_message or "The server does not support this request.", []
        return f"The request failed; the server log has it as request {self.request_id}.", [
            "try again",
            "give an administrator this number",
        ]


def _status_of(error: BaseException | None, status: int) -> int:
    if isinstance(error, WorkbenchError):
        return next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)
    return status


class MissingPageHandler(TeamHandler):
    """Respond 404 to unknown addresses; the application's `default_handler_class`."""

    async def prepare(self) -> None:
        await super().prepare()
        raise HTTPError(404)
