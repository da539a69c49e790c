"""Who is behind a page of Bokeh and behind its websocket, and that they are one person.

**Invariants**

- A page is shown to somebody who is signed in, and to nobody else; the token of its session, which the server signs, says to whom and
  which page.
- A websocket is opened by a browser that is signed in as that person, for that page; not even another person's own, signed token opens
  theirs.
- No visitor brings a session of their own: neither a token nor a session's id in the address is accepted.
- When a login ends, its websockets are closed, and nothing more that comes through them is heard.
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
"""Seconds between a page and its websocket."""
CLEARED = 2000
"""Milliseconds after which sessions that have ended are cleared away."""
SIGNED_OUT = 4401
"""Code with which a websocket is closed whose login has ended."""
_PERSON, _PAGE = "workbench_person", "workbench_page"
_LONGEST_TOKEN = 65_536
_CLOSED_AFTER = 0.3  # seconds: a browser answers the closing frame, somebody else may not


def session_options(services: TeamServices) -> dict[str, Any]:
    """Options of `panel.serve`, and of Bokeh's server, with which pages are for those who are signed in."""
    return {
        "auth_provider": TeamAuthProvider(services),
        "sign_sessions": True,
        "secret_key": _page_key(services),
        "generate_session_ids": True,
        "session_token_expiration": TOKEN_LASTS,
        "check_unused_sessions_milliseconds": CLEARED,
        "include_headers": [],
        "include_cookies": [],
        "xsrf_cookies": False,  # websockets are held to their origin, and a page takes no form
    }


def bind_sessions(server: Any) -> None:
    """Have the tokens of all sessions of a server, which does not listen yet, say whose they are. Without it no websocket is opened."""
    for context in tornado_of(server).applications.values():
        context.application.add(_PersonHandler())


def end_left_sessions(server: Any) -> None:
    """End a session of Bokeh at the next clearing once its page is closed: a page that comes back begins another, and those that nobody
    comes back to hold memory."""
    tornado = tornado_of(server)
    lose = tornado.client_lost

    def client_lost(connection: Any) -> None:
        session = connection.session
        lose(connection)
        if session.connection_count == 0:
            session.request_expiration()

    tornado.client_lost = client_lost


def principal_of(request: HTTPServerRequest) -> Principal:
    """The person behind a request that `TeamAuthProvider` has accepted."""
    found: Principal = request.team_principal  # type: ignore[attr-defined]
    return found


def person_of_session(payload: Mapping[str, Any]) -> str:
    """The id of the person whose a session is, by the payload of its signed token; empty if it does not say."""
    return str(payload.get(_PERSON, ""))


class TeamAuthProvider(AuthProvider):  # type: ignore[misc]  # Bokeh's classes have no types here
    """Bokeh asks it about each page and websocket."""

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
        """The person behind a request; `None` has it refused, unless it was answered here."""
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
        """Whether the token of a websocket is this server's, of a page that was shown to this person at this address."""
        given = handler.request.headers.get("Sec-WebSocket-Protocol", "")
        names = [each.strip() for each in given.split(",")]
        if len(given) > _LONGEST_TOKEN or len(names) != 2 or names[0] != "bokeh":
            return False
        try:
            if not check_token_signature(names[1], secret_key=self._page_key.encode(), signed=True):
                return False
            payload = get_token_payload(names[1])
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
            return False
        return payload.get(_PERSON) == person.user_id and payload.get(_PAGE) == _page_of(handler.request)


class _PersonHandler(Handler):  # type: ignore[misc]
    """Makes no document: writes into the token of a session whose it is."""

    def modify_document(self, doc: Any) -> None:
        pass

    def process_request(self, request: HTTPServerRequest) -> dict[str, Any]:
        return {_PERSON: principal_of(request).user_id, _PAGE: _page_of(request)}


def _page_of(request: HTTPServerRequest) -> str:
    return re.sub(r"(/ws)?/*$", "", request.path)


def _page_key(services: TeamServices) -> str:
    return derive_key(services.secret_key, "sessions of pages")


def _verify_no_session_given(handler: RequestHandler) -> None:
    given = [name for name in ("bokeh-token", "bokeh-session-id") if name in handler.request.arguments]
    if given or "Bokeh-Session-Id" in handler.request.headers:
        raise HTTPError(403, "A page starts its own session; sessions in the address are rejected.")


def _close_with_login(services: TeamServices, handler: WebSocketHandler, person: Principal) -> None:
    """Close a websocket when its login ends."""
    forget = services.revocations.listen(person.key, lambda: _close(handler))
    closed = handler.on_close

    def on_close() -> None:
        forget()
        closed()

    handler.on_close = on_close  # type: ignore[method-assign]


def _close(handler: WebSocketHandler) -> None:
    async def ignore(_message: str | bytes) -> None:
        """What a person who is signed out still sends."""

    handler.on_message = ignore  # type: ignore[assignment, method-assign]
    connection = handler.ws_connection
    handler.close(SIGNED_OUT, "signed out")
    if connection is not None:  # a client that does not answer the closing frame would be heard for seconds
        asyncio.get_running_loop().call_later(_CLOSED_AFTER, abort, connection)
