"""Whom the server answers, and what it tells a browser with every answer: judged by headers alone, and by a real server."""

import asyncio
import http.client
import logging
import socket
import sys

import panel as pn
import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tests.support.servers import free_port, wait_for
from workbench.app.page import request_policy
from workbench.app.page.request_policy import allowed_hosts, content_policy, judge_request, parse_origin
from workbench.app.page.serve import serve, verify_address
from workbench.errors import WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan

ALLOWED = allowed_hosts("127.0.0.1", 5006, ("https://plans.example.org", "[fe80::1]:81"))
HOST = {"Host": "127.0.0.1:5006"}
NAVIGATES = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        (HOST, None),
        ({"Host": "localhost:5006"}, None),
        ({"Host": "LOCALHOST:5006"}, None),
        ({"Host": "[::1]:5006"}, None),
        ({"Host": "[fe80::1]:81"}, None),
        ({"Host": "plans.example.org"}, None),  # a browser leaves out the port that https has by default
        ({}, request_policy.UNKNOWN_HOST),
        ({"Host": "evil.example:5006"}, request_policy.UNKNOWN_HOST),  # whose name was bound anew to 127.0.0.1
        ({"Host": "127.0.0.1:5007"}, request_policy.UNKNOWN_HOST),
        ({"Host": "127.0.0.1:5006,evil.example"}, request_policy.UNKNOWN_HOST),
        ({"Host": "localhost"}, request_policy.UNKNOWN_HOST),
        ({**HOST, "Origin": "http://localhost:5006"}, None),
        ({**HOST, "Origin": "http://evil.example"}, request_policy.UNKNOWN_ORIGIN),
        ({**HOST, "Origin": "http://plans.example.org"}, request_policy.UNKNOWN_ORIGIN),  # port 80: only https was named
        ({**HOST, "Origin": "null"}, request_policy.UNKNOWN_ORIGIN),
        ({**HOST, "Origin": "http://127.0.0.1:http"}, request_policy.UNKNOWN_ORIGIN),
        ({**HOST, "Sec-Fetch-Site": "none", **NAVIGATES}, None),
        ({**HOST, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "script"}, None),
        ({**HOST, "Sec-Fetch-Site": "cross-site", **NAVIGATES}, None),  # a link that was followed
        ({**HOST, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, request_policy.OTHER_SITE),
        ({**HOST, "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, request_policy.OTHER_SITE),
        ({**HOST, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, request_policy.OTHER_SITE),
    ],
)
def test_a_request_is_judged_by_the_names_and_the_site_it_tells(headers, refusal):
    assert judge_request("GET", headers, "/", ALLOWED) is refusal


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ({**HOST, "Origin": "http://127.0.0.1:5006"}, None),
        ({**HOST, "Origin": "https://plans.example.org"}, None),
        (HOST, request_policy.NO_ORIGIN),
        ({**HOST, "Origin": "http://127.0.0.1:8888"}, request_policy.UNKNOWN_ORIGIN),
        ({"Host": "evil.example:5006", "Origin": "http://127.0.0.1:5006"}, request_policy.UNKNOWN_HOST),
    ],
)
def test_a_websocket_is_opened_by_a_page_of_this_server_alone(headers, refusal):
    assert judge_request("GET", headers, "/ws", ALLOWED) is refusal
    assert judge_request("GET", {**headers, "Upgrade": "WebSocket"}, "/elsewhere", ALLOWED) is refusal


def test_at_a_socket_whoever_may_open_it_vouches_for_names_but_not_for_strange_sites():
    assert judge_request("GET", {"Host": "hub.example"}, "/board", None) is None
    assert judge_request("GET", {"Host": "hub.example", "Origin": "https://hub.example"}, "/board/ws", None) is None
    assert judge_request("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}, "/board", None) is request_policy.OTHER_SITE
    assert judge_request("POST", {}, "/board", None) is request_policy.NO_METHOD


@pytest.mark.parametrize(
    "text", ["", "*", "*:5006", "*.example.org", "ftp://a.example", "a.example/path", "a.example:x", "a:0", "me@a.example"]
)
def test_what_is_no_origin_is_said_in_words(text):
    with pytest.raises(WorkbenchError) as caught:
        parse_origin(text)
    assert str(caught.value) == (
        f"{text!r} is not an origin: an origin is the host and port of the page.\n  Try: write "
        "`plans.example.org:5006`, or `https://plans.example.org` · list each origin: there are no wildcards."
    )


@pytest.mark.parametrize("address", ["", "no such name", "203.0.113.7"])
def test_an_address_of_another_machine_is_said_in_words(address):
    with pytest.raises(WorkbenchError, match="This machine cannot listen on") as caught:
        verify_address(address)
    assert caught.value.ways_out == (
        "leave it out: the default, 127.0.0.1, is this machine only",
        "give one of this machine's addresses, or 0.0.0.0 for all of them",
    )


def test_a_page_may_run_the_scripts_that_stand_in_it_and_nothing_it_is_made_to_say():
    page = "<script nonce='once'>1</script><script>2</script><script type='application/json'>{}</script><script src='a.js'></script>"
    policy = content_policy(page, framed=False)
    scripts = next(each for each in policy.split("; ") if each.startswith("script-src"))
    assert scripts == "script-src 'self' blob: 'nonce-once' 'sha256-1HNeOiZeFu7gP1lxi5tdAwGcB9i2xR+Q2jpmbuwTqzU='"
    assert "unsafe-eval" not in policy
    assert policy.endswith("frame-ancestors 'none'")
    assert content_policy("", framed=True).endswith("frame-ancestors 'self'")


class NoRunner:
    """Boards are in this process then; nobody runs anything."""

    def start(self, *_):
        raise NotImplementedError

    compile = start


@pytest.fixture(scope="module")
def port():
    running = serve(
        Plan(build("two_layer", batch=16, io=64, hidden=32), "data:4 model:2"),
        port=(port := free_port()),
        open_browser=False,
        runner=NoRunner(),
        origins=("plans.example.org:80",),
        threaded=True,
    )
    wait_for(f"http://127.0.0.1:{port}/liveness")
    yield port
    running.stop()
    running.join(20)


def asked(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read().decode("utf-8", "replace")
    connection.close()
    return answer, body


def test_an_address_imports_no_module(port, tmp_path, monkeypatch):
    (tmp_path / "sentinel_of_a_stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("sentinel_of_a_stranger", "unittest.__main__", "panel.widgets"):
        answer, _ = asked(port, f"/components/{module}/x/y/z")
        assert answer.status == 404
    assert "sentinel_of_a_stranger" not in sys.modules
    assert asked(port, "/liveness")[0].status == 200


@pytest.mark.parametrize(
    "path",
    ["/autoload.js?bokeh-autoload-element=1", "/metadata", "/rest/session_info", "/admin", "/login", "/components/", "/no/such", "//no"],
)
def test_what_no_page_needs_is_not_there(port, path):
    answer, body = asked(port, path)
    assert (answer.status, body) == (404, "<html><title>404: Not Found</title><body>404: Not Found</body></html>")


@pytest.mark.parametrize("path", ["/", "/no/such", "/static/js/bokeh.min.js", "/static/../serve.py", "/liveness", "/favicon.ico"])
@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example"])
def test_every_answer_tells_the_browser_what_it_may_do_and_nothing_of_the_server(port, path, host):
    answer, body = asked(port, path, Host=f"{host}:{port}")
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self' blob:")
    assert "Server" not in answer.headers
    assert "Traceback" not in body
    assert str(request_policy.__file__).rsplit("/", 4)[0] not in body
    if host == "evil.example":
        assert (answer.status, body) == (403, f"{request_policy.UNKNOWN_HOST.text}\n")


def test_a_page_of_another_site_gets_nothing(port):
    picture = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert asked(port, "/", **picture)[0].status == 403
    assert asked(port, "/", Origin="http://evil.example")[0].status == 403
    assert asked(port, "/", Host="plans.example.org")[0].status == 200


def shaken_hands(port, **headers) -> int:
    """The status of the websocket's handshake; the token comes after it."""

    async def shake():
        request = HTTPRequest(f"ws://127.0.0.1:{port}/ws", headers=headers)
        try:
            connection = await websocket_connect(request, subprotocols=["bokeh", "token"])
        except HTTPClientError as error:
            return error.code
        connection.close()
        return 101

    return asyncio.run(shake())


def test_a_websocket_shakes_hands_with_pages_of_this_server_alone(port, caplog):
    caplog.set_level(logging.CRITICAL, "tornado.application")  # the token is none
    assert shaken_hands(port) == 403
    assert shaken_hands(port, Origin="http://evil.example") == 403
    assert shaken_hands(port, Origin=f"http://127.0.0.1:{port}", Host="evil.example") == 403
    assert shaken_hands(port, Origin=f"http://127.0.0.1:{port}") == 101
    assert shaken_hands(port, Origin="http://plans.example.org") == 101


def test_no_answer_waits_until_the_one_before_it_is_acknowledged(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/liveness")
    connection.getresponse().read()
    mine = connection.sock.getsockname()
    [server] = [each for each, _, _ in pn.state._servers.values() if each.port == port]
    [stream] = [each.stream for each in server._http._connections if each.stream.socket.getpeername() == mine]
    assert stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    connection.close()
