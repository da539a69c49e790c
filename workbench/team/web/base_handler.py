"""The handler that all pages and answers of the server begin with: who is behind the request, and how an error is said.

**Invariants**

- A request that changes something and is signed in by a cookie comes from this server's own pages.
- A `WorkbenchError` is said in its own words; of anything else a visitor sees a number, under which the log has it.
- Nothing is kept in a cache.
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
"""Where a template is looked for: `base.html` of the pages comes before that of this room."""


@cache
def page_environment() -> Environment:
    """The one environment of all pages."""
    loader = FileSystemLoader([str(each) for each in FOLDERS])
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= PAGE_FILTERS
    return made


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
"""What an error of the API is called, by its status; of the others it is "invalid" or "failed"."""

_log = logging.getLogger(__name__)


class TeamHandler(BodyHandler):
    """`self.server` is what it works with, `self.principal` the person behind the request, or `None`."""

    principal: Principal | None = None

    def initialize(self) -> None:
        super().initialize()
        self.request_id = new_id()

    @property
    def server(self) -> TeamServices:
        found: TeamServices = self.application.settings["team"]
        return found

    @property
    def is_api(self) -> bool:
        """Whether the answer is JSON, errors too."""
        return self.request.path.startswith(f"{self.server.prefix}/api/")

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in page_headers().items():
            self.set_header(name, value)

    async def prepare(self) -> None:
        """Refuse foreign and too large requests, and find the person behind this one."""
        if self.server.behind_proxy:
            self.request.remote_ip = forwarded_address(self.request.headers.get("X-Forwarded-For", ""))
        await super().prepare()
        await self._identify()
        if self.principal is not None:
            self.hold_body(self.principal.user_id)

    async def _identify(self) -> None:
        """Find the person behind the request. Raises `NotSignedInError` for a token that is not good, `ForbiddenError` for another site."""
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
        """The person behind the request. Raises `NotSignedInError`, and `ForbiddenError` for a token without the scope."""
        if self.principal is None:
            raise NotSignedInError
        if not self.principal.has_scope(scope):
            raise ForbiddenError(f"This token may not `{scope}`.", [f"create a token with the scope `{scope}`"])
        return self.principal

    def require_admin(self, scope: str = "manage") -> Principal:
        """The administrator behind the request. Raises `NotSignedInError`, or `ForbiddenError`."""
        found = self.require_principal(scope)
        if not found.admin:
            raise ForbiddenError("This is for administrators of the server.", ["ask one of them"])
        return found

    def write_json(self, value: object, status: int = 200) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))

    def write_page(self, template: str, status: int = 200, **values: object) -> None:
        """Answer with a page; templates know `path` (an address within the server), `principal`, and what is given."""
        self.set_status(status)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        shared = {"path": self.path_to, "principal": self.principal, "request_id": self.request_id}
        self.finish(page_environment().get_template(template).render({**shared, **values}))

    def path_to(self, path: str) -> str:
        """The address of a path such as `/login`, under the server's prefix."""
        return self.server.prefix + path

    def redirect_to(self, path: str) -> None:
        """Send the browser to a path such as `/login` of this server."""
        self.redirect(self.path_to(path))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Say what went wrong; a visitor who is not signed in is sent to do so."""
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
        """What a person can mend is not the log's business; the rest is there under the request's number."""
        if isinstance(value, (WorkbenchError, HTTPError)):
            return
        _log.error("Request %s (%s %s) failed.", self.request_id, self.request.method, self.request.path, exc_info=(typ, value, tb))

    def _describe(self, error: BaseException | None, status: int) -> tuple[str, list[str]]:
        if isinstance(error, WorkbenchError):
            return error.message, list(error.ways_out)
        if status == 404:
            return "There is nothing at this address.", ["begin at the first page"]
        if status == 405:
            return f"{self.request.method} means nothing at this address.", []
        if isinstance(error, MissingArgumentError):
            return f"`{error.arg_name[:80]}` is missing.", []
        if isinstance(error, HTTPError) and status < 500:
            return error.log_message or "The request is not one that this server understands.", []
        return f"This failed; it is request {self.request_id} in the server's log.", ["try again", "tell an administrator the number"]


def _status_of(error: BaseException | None, status: int) -> int:
    if isinstance(error, WorkbenchError):
        return next((found for kind, found in _STATUS.items() if isinstance(error, kind)), 400)
    return status


class MissingPageHandler(TeamHandler):
    """Any other address: `default_handler_class` of the application."""

    async def prepare(self) -> None:
        await super().prepare()
        raise HTTPError(404)
