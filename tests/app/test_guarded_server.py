"""How much a page's server reads of one request and of one message, and that one that was stopped keeps nobody waiting."""

import asyncio
import http.client
import re
import subprocess
import sys
from contextlib import contextmanager, suppress

import panel as pn
import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httputil import HTTPHeaders
from tornado.websocket import WebSocketClosedError, websocket_connect

from tests.support.servers import free_port, wait_for
from workbench.app.page.guarded_server import guarded_server, serve_in_thread
from workbench.app.page.request_policy import MOST_MESSAGE, SMALL_BODY, allowed_hosts


@contextmanager
def serving():
    """The address of a page that says nothing."""
    port = free_port()
    server = guarded_server(
        {"/": lambda: pn.pane.Markdown("a board")}, {"address": "127.0.0.1", "port": port}, allowed_hosts("127.0.0.1", port, ())
    )
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
        server.unlisten()


async def ask(url: str, body: bytes, **headers: str):
    request = HTTPRequest(url, "GET", HTTPHeaders(headers), body, allow_nonstandard_methods=True)
    return await AsyncHTTPClient().fetch(request, raise_error=False)


@pytest.mark.parametrize(("path", "host"), [("/", ""), ("/liveness", ""), ("/liveness", "evil.example"), ("/nothing", "")])
def test_a_large_body_is_not_read(path, host):
    async def work():
        with serving() as url:
            headers = {"Host": host} if host else {}
            small, large = [await ask(url + path, b"x" * size, **headers) for size in (SMALL_BODY, SMALL_BODY + 1)]
        assert small.code == {"/nothing": 404}.get(path, 403 if host else 200)
        assert large.code == 400

    asyncio.run(work())


@pytest.mark.parametrize("sent", ["", "GET /liveness HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\nx"], ids=["headers", "body"])
def test_who_sends_nothing_more_is_not_waited_for(sent, monkeypatch):
    monkeypatch.setattr("workbench.app.page.guarded_server.IDLE_SECONDS", 0.2)
    monkeypatch.setattr("workbench.app.page.request_policy.LEAST_BODY_SECONDS", -0.8)  # 0.2 s for a small body

    async def work():
        with serving() as url:
            host = url.removeprefix("http://")
            reader, writer = await asyncio.open_connection(*host.split(":"))
            writer.write(sent.format(host=host).encode())
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
            assert (await ask(f"{url}/liveness", b"")).code == 200

    asyncio.run(work())


def test_a_message_that_is_too_large_closes_its_websocket():
    async def work():
        with serving() as url:
            token = re.search(r'"token":"([^"]+)"', (await ask(url, b"")).body.decode())[1]
            request = HTTPRequest("ws" + url.removeprefix("http") + "/ws", headers=HTTPHeaders({"Origin": url}))
            socket = await websocket_connect(request, subprotocols=["bokeh", token])
            for _ in range(3):  # that it is open: a header, metadata and content
                assert await socket.read_message() is not None
            await socket.write_message("x" * MOST_MESSAGE)  # the header of a message, of which nothing is read until all is there
            with suppress(WebSocketClosedError):  # it closes while there is more to be read
                await socket.write_message("x" * (MOST_MESSAGE + 1))
            assert await asyncio.wait_for(socket.read_message(), 20) is None
            socket.close()

    asyncio.run(work())


def test_a_stopped_server_closes_the_connections_that_it_kept():
    port = free_port()
    page = {"/": lambda: pn.pane.Markdown("a board")}
    running = serve_in_thread(page, {"address": "127.0.0.1", "port": port}, allowed_hosts("127.0.0.1", port, ()))
    wait_for(f"http://127.0.0.1:{port}/liveness")
    visitor = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    visitor.request("GET", "/liveness")
    assert visitor.getresponse().read()
    assert visitor.sock is not None, "the server keeps the connection for the next request"
    running.stop()
    assert visitor.sock.recv(1) == b""
    running.join(30)
    assert not running.is_alive()


def test_a_served_page_that_waits_for_visitors_has_loaded_no_solver():
    """OR-tools brings pandas: 30 MiB in each process of a server."""
    code = "import sys, workbench.app.page.serve; print([name for name in ('ortools', 'pandas') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
