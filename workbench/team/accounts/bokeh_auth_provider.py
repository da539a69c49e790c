"""Authenticate Bokeh pages and their websockets.

**Invariants**

- A page is shown to signed-in users only; its signed session token names the user and the page.
- A websocket is opened only by a browser that is signed in as that user, for that page. Another user's valid token is
  rejected.
- Clients cannot supply a session: tokens and session IDs in the address are rejected.
- When a login ends, its websockets are closed, and further messages on them are ignored.
"""

import asyncio
import re
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from bokeh.application.handlers.handler import Handler
from bokeh.server.auth_provider import AuthProvider
from bokeh.util.token import check_token_signature, get_token_payload
from tornado.httputil import HTTPServerRequest
from tornado.web import HTTPError, RequestHandler
from tornado.websocket import WebSocketHandler

from workbench.app.page.private_members import abort, tornado_of
from workbench.team.access import Principal
from workbench.team.accounts.logins import principal_of_login
from workbench.team.accounts.sign_in_flow import derive_key
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.web.team_services import TeamServices

TOKEN_LASTS = 300
"""Seconds within which a page must open its websocket."""
CLEARED = 2000
"""Milliseconds between cleanups of ended sessions."""
SIGNED_OUT = 4401
"""Websocket close code for an ended login."""
_PERSON, _PAGE = "workbench_person", "workbench_page"
_LONGEST_TOKEN = 65_536
_CLOSED_AFTER = 0.3  # seconds; other clients than browsers may not answer the closing frame


def session_options(services: TeamServices) -> dict[str, Any]:
    """Return the options of `panel.serve` and Bokeh's server that require signed-in users."""
    return {
        "auth_provider": TeamAuthProvider(services),
        "sign_sessions": True,
        "secret_key": _page_key(services),
        "generate_session_ids": True,
        "session_token_expiration": TOKEN_LASTS,
        "check_unused_sessions_milliseconds": CLEARED,
        "include_headers": [],
        "include_cookies": [],
        "xsrf_cookies": False,  # websockets check their origin, and pages accept no forms
    }


def bind_sessions(server: Any) -> None:
    """Add the user and page to all session tokens of a server that does not listen yet; websockets require both."""
    for context in tornado_of(server).applications.values():
        context.application.add(_PersonHandler())


def expire_abandoned_sessions(server: Any) -> None:
    """Expire a Bokeh session when its page closes: a reopened page starts a new one."""
    tornado = tornado_of(server)
    lose = tornado.client_lost

    def client_lost(connection: Any) -> None:
        session = connection.session
        lose(connection)
        if session.connection_count == 0:
            session.request_expiration()

    tornado.client_lost = client_lost


def principal_of(request: HTTPServerRequest) -> Principal:
    """Return the user of a request that `TeamAuthProvider` accepted."""
    principal: Principal = request.team_principal  # type: ignore[attr-defined]
    return principal


def person_of_session(payload: Mapping[str, Any]) -> str:
    """Return the user ID in a session token's payload, or an empty string."""
    return str(payload.get(_PERSON, ""))


class TeamAuthProvider(AuthProvider):  # type: ignore[misc]  # Bokeh's classes have no types here
    """Bokeh's authentication hook for pages and websockets."""

    def __init__(self, services: TeamServices) -> None:
        self._services = services
        self._page_key = _page_key(services)
        super().__init__()

    @property
    def login_url(self) -> str:
        return "/login"

    @property
    def get_user_async(self) -> Any:
        return self._identify

    async def _identify(self, handler: RequestHandler) -> Principal | None:
        """Return the user of a request, or `None` to refuse it or after a redirect to the sign-in page."""
        cookie = handler.get_cookie(self._services.cookie_name)
        try:
            person = await asyncio.to_thread(principal_of_login, self._services.store, cookie) if cookie else None
        except DatabaseProblemError as error:
            raise HTTPError(503, reason=error.message) from None
        if isinstance(handler, WebSocketHandler):
            return self._admit_websocket(handler, person)
        _verify_no_session_given(handler)
        if person is None:
            handler.redirect(f"{self._services.prefix}/login?next={quote(handler.request.uri or '', safe='')}")
            return None
        handler.request.team_principal = person  # type: ignore[attr-defined]
        return person

    def _admit_websocket(self, handler: WebSocketHandler, person: Principal | None) -> Principal | None:
        if person is None or not self._is_session_of(handler, person):
            return None
        handler.request.team_principal = person  # type: ignore[attr-defined]
        _close_with_login(self._services, handler, person)
        return person

    def _is_session_of(self, handler: WebSocketHandler, person: Principal) -> bool:
        protocols = handler.request.headers.get("Sec-WebSocket-Protocol", "")
        names = [name.strip() for name in protocols.split(",")]
        if len(protocols) > _LONGEST_TOKEN or len(names) != 2 or names[0] != "bokeh":
            return False
        try:
            if not check_token_signature(names[1], secret_key=self._page_key.encode(), signed=True):
                return False
            payload = get_token_payload(names[1])
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
            return False
        return payload.get(_PERSON) == person.user_id and payload.get(_PAGE) == _page_of(handler.request)


class _PersonHandler(Handler):  # type: ignore[misc]
    def modify_document(self, doc: Any) -> None:
        pass

    def process_request(self, request: HTTPServerRequest) -> dict[str, Any]:
        return {_PERSON: principal_of(request).user_id, _PAGE: _page_of(request)}


def _page_of(request: HTTPServerRequest) -> str:
    return re.sub(r"(/ws)?/*$", "", request.path)


def _page_key(services: TeamServices) -> str:
    return derive_key(services.secret_key, "sessions of pages")


def _verify_no_session_given(handler: RequestHandler) -> None:
    arguments = [name for name in ("bokeh-token", "bokeh-session-id") if name in handler.request.arguments]
    if arguments or "Bokeh-Session-Id" in handler.request.headers:
        raise HTTPError(403, "A page starts its own session; sessions in the address are rejected.")


def _close_with_login(services: TeamServices, handler: WebSocketHandler, person: Principal) -> None:
    unsubscribe = services.revocations.listen(person.key, lambda: _close(handler))
    close_handler = handler.on_close

    def on_close() -> None:
        unsubscribe()
        close_handler()

    handler.on_close = on_close  # type: ignore[method-assign]


def _close(handler: WebSocketHandler) -> None:
    async def ignore(_message: str | bytes) -> None:
        """Ignore messages of a signed-out user."""

    handler.on_message = ignore  # type: ignore[assignment, method-assign]
    connection = handler.ws_connection
    handler.close(SIGNED_OUT, "signed out")
    if connection is not None:  # an unresponsive client could still send for seconds
        asyncio.get_running_loop().call_later(_CLOSED_AFTER, abort, connection)
