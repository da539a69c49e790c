"""The page server: Panel's, restricted to the routes that a page needs, with access control of each request."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import panel as pn
from bokeh.server.views.ico_handler import IcoHandler
from bokeh.server.views.multi_root_static_handler import MultiRootStaticHandler
from bokeh.server.views.static_handler import StaticHandler
from panel.io.server import DocHandler, RootHandler, WSHandler, get_server
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.ioloop import IOLoop
from tornado.web import Application, OutputTransform, RequestHandler

from workbench.app.page.private_members import allow_all_origins, http_of, make_documents_on_the_event_loop, patch_writes, tornado_of
from workbench.app.page.request_policy import (
    IDLE_SECONDS,
    MOST_MESSAGE,
    SMALL_BODY,
    DeniedRequest,
    Hosts,
    body_seconds,
    judge_request,
    security_headers,
)
from workbench.app.page.shutdown import close_connections
from workbench.app.processes.child_table import States, health_report

# A server in a separate thread, stopped from another thread; stopping closes every connection.
#
# Panel's own thread cancels the readers of connections but leaves them open. A browser then sends its next request on one of them and
# waits forever.


class ServerThread(threading.Thread):
    """Runs the server of `make(loop=...)` until `stop`."""

    def __init__(self, make: Callable[..., Any]) -> None:
        super().__init__(name="page server")
        self._make = make
        self._loop = IOLoop(make_current=False)

    def run(self) -> None:
        try:
            server = self._make(loop=self._loop)
            server.start()
            self._loop.start()
            server.stop()
            close_connections(server)
            _cancel_tasks(self._loop.asyncio_loop)
        finally:
            self._loop.close()

    def stop(self) -> None:
        """Stop serving soon; callable from any thread, also after the end."""
        if self.is_alive():
            self._loop.add_callback(self._loop.stop)


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


# The page, its websocket, files of Bokeh and Panel, and the favicon. Removed are Panel's `/components/`, which
# imports a module named in the URL, `/autoload.js`, which gives sessions to other sites, `/metadata`, and Panel's
# `/liveness`, which can be made to build a whole page.
HANDLERS = (DocHandler, WSHandler, StaticHandler, MultiRootStaticHandler, IcoHandler)


class HealthHandler(RequestHandler):
    """Reports liveness and missing children; 503 if a required child does not come back."""

    def initialize(self, states: Callable[[], States] = dict) -> None:
        self._states = states

    def get(self) -> None:
        report, is_alive = health_report(self._states())
        self.set_status(200 if is_alive else 503)
        self.write(report)


Pages = dict[str, Callable[[], pn.Template]]


Judge = Callable[[str, Mapping[str, str], str, Hosts | None], DeniedRequest | None]
"""Returns why a request is denied, by method, headers and path, as `judge_request`."""


def guarded_server(
    page: Pages,
    listen_options: dict[str, Any],
    allowed: Hosts | None,
    *,
    routes: Sequence[tuple[Any, ...]] = ((r"/liveness", HealthHandler),),
    judge: Judge = judge_request,
    show: str = "",
    **options: Any,
) -> Any:
    """Build, but do not start, a server that answers only accepted requests; `allowed` is `None` behind a proxy."""
    patch_writes()
    limits = {"websocket_max_message_size": MOST_MESSAGE, "http_server_kwargs": {"idle_connection_timeout": IDLE_SECONDS}}
    server = get_server(page, start=False, extra_patterns=list(routes), **limits, **options, **listen_options)
    if show:
        server.io_loop.add_callback(server.show, show)
    guard_server(server, allowed, tuple(route[1] for route in routes), judge)
    return server


def serve_in_thread(page: Pages, listen_options: dict[str, Any], allowed: Hosts | None, **options: Any) -> ServerThread:
    """Serve like `pn.serve(threaded=True)`; `stop()` of the result ends it."""
    thread = ServerThread(partial(guarded_server, page, listen_options, allowed, **options))
    thread.start()
    return thread


def guard_server(
    server: Any, allowed: Hosts | None, kept: tuple[type[RequestHandler], ...] = (HealthHandler,), judge: Judge = judge_request
) -> None:
    """Add access control to a server that does not listen yet; other servers of the process are not changed."""
    application, framed = tornado_of(server), allowed is None
    allow_all_origins(server)  # the gate judges them
    make_documents_on_the_event_loop(server)
    keep_routes(application, (*HANDLERS, *kept, RootHandler) if framed else (*HANDLERS, *kept))
    application.add_transform(partial(_SecurityHeaderTransform, framed=framed))  # it is called, once per request
    http_of(server).request_callback = RequestGate(application, allowed, judge)


def keep_routes(application: Application, handlers: tuple[type[RequestHandler], ...]) -> None:
    for router in (application.wildcard_router, application.default_router):
        router.rules[:] = [rule for rule in router.rules if rule.target in handlers or rule.target is application.wildcard_router]


class _SecurityHeaderTransform(OutputTransform):
    """Adds security headers, and removes the server's name and version."""

    def __init__(self, _request: HTTPServerRequest, *, framed: bool) -> None:
        self._framed = framed

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, _finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        page = chunk.decode("utf-8", "replace") if "html" in headers.get("Content-Type", "") else ""
        _set_security_headers(headers, page, framed=self._framed)
        return status_code, headers, chunk


def _set_security_headers(headers: HTTPHeaders, page: str, *, framed: bool) -> None:
    headers.pop("Server", None)
    for name, value in security_headers(page, framed=framed).items():
        headers.setdefault(name, value)  # a handler may have set stricter ones


class RequestGate(HTTPServerConnectionDelegate):
    """Checks each request, and passes accepted ones to the application."""

    def __init__(self, application: HTTPServerConnectionDelegate, allowed: Hosts | None, judge: Judge = judge_request) -> None:
        self._application, self._allowed, self._judge = application, allowed, judge

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        stream = getattr(request_conn, "stream", None)
        if stream is not None:
            stream.set_nodelay(True)  # an answer is several small frames, which must not wait for acknowledgements
        begin = lambda: self._application.start_request(server_conn, request_conn)  # noqa: E731
        return _JudgedRequest(self._allowed, self._judge, begin, request_conn)

    def on_close(self, server_conn: object) -> None:
        self._application.on_close(server_conn)


class _JudgedRequest(HTTPMessageDelegate):
    def __init__(self, allowed: Hosts | None, judge: Judge, begin: Callable[[], HTTPMessageDelegate], connection: HTTPConnection) -> None:
        self._allowed, self._judge, self._begin, self._connection = allowed, judge, begin, connection
        self._passed: HTTPMessageDelegate | None = None
        self._refusal: DeniedRequest | None = None

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> Awaitable[None] | None:
        assert isinstance(start_line, RequestStartLine)
        self._connection.set_max_body_size(SMALL_BODY)  # type: ignore[attr-defined]  # of `HTTP1Connection`; a handler may raise it
        self._connection.set_body_timeout(body_seconds(SMALL_BODY))  # type: ignore[attr-defined]
        self._refusal = self._judge(start_line.method, headers, start_line.path.partition("?")[0], self._allowed)
        if self._refusal:
            return None
        self._passed = self._begin()
        return self._passed.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        return self._passed.data_received(chunk) if self._passed else None

    def finish(self) -> None:
        if self._passed:
            self._passed.finish()
        elif self._refusal:
            _answer(self._connection, self._refusal, framed=self._allowed is None)

    def on_connection_close(self) -> None:
        if self._passed:
            self._passed.on_connection_close()


def _answer(connection: HTTPConnection, refusal: DeniedRequest, *, framed: bool) -> None:
    body = f"{refusal.text}\n".encode()
    headers = HTTPHeaders({"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))})
    _set_security_headers(headers, "", framed=framed)
    connection.write_headers(ResponseStartLine("", refusal.status, HTTPStatus(refusal.status).phrase), headers, body)
    connection.finish()
