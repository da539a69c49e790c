"""Pages of a real Bokeh server behind accounts: who sees one, who opens its websocket, and when that is closed."""

import asyncio
import json
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import panel as pn
import pytest
from bokeh.util.token import generate_jwt_token, generate_session_id, get_token_payload
from panel.io.server import WSHandler, get_server
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.httputil import HTTPHeaders
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, websocket_connect

from tests.support.servers import free_port
from tests.support.team_server import add_person, make_services, sign_in
from workbench.team.accounts import bokeh_auth_provider
from workbench.team.accounts.bokeh_auth_provider import SIGNED_OUT, bind_sessions, expire_abandoned_sessions, session_options
from workbench.team.accounts.logins import revoke_login
from workbench.team.accounts.user_accounts import disable_user, find_user
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.store.store import digest_of

SHOWN = []


def page():
    context = pn.state.curdoc.session_context
    SHOWN.append((context.token_payload, dict(context.request.cookies), dict(context.request.headers)))
    return pn.pane.Markdown("a board")


@dataclass
class Pages:
    """A Bokeh server, and what browsers do with it."""

    services: object
    url: str
    server: object
    sockets: list = field(default_factory=list)

    async def get(self, cookie, path="/room", **headers):
        given = HTTPHeaders({"Cookie": f"{self.services.cookie_name}={cookie}"} if cookie else {})
        given.update(headers)
        return await AsyncHTTPClient().fetch(HTTPRequest(self.url + path, headers=given, follow_redirects=False), raise_error=False)

    async def token(self, cookie, path="/room"):
        found = await self.get(cookie, path)
        assert found.code == 200, found.body[:500]
        return re.search(r'"token":"([^"]+)"', found.body.decode())[1]

    async def open(self, cookie, token, path="/room/ws", protocols=None):
        headers = HTTPHeaders({"Origin": self.url} | ({"Cookie": f"{self.services.cookie_name}={cookie}"} if cookie else {}))
        wanted = protocols if protocols is not None else ["bokeh", token]
        socket = await websocket_connect(HTTPRequest("ws" + self.url.removeprefix("http") + path, headers=headers), subprotocols=wanted)
        self.sockets.append(socket)
        header = await asyncio.wait_for(socket.read_message(), 20)
        assert header is not None, "closed by the server"
        assert json.loads(header)["msgtype"] == "ACK"
        for _ in range(2):  # the message's metadata and content
            await socket.read_message()
        return socket

    async def is_refused(self, cookie, token, **options):
        try:
            socket = await self.open(cookie, token, **options)
        except (HTTPClientError, AssertionError):
            return True
        socket.close()
        return False


@contextmanager
def bokeh_server(folder):
    port = free_port()
    services = make_services(folder, address=f"http://127.0.0.1:{port}")
    options = {"port": port, "address": "127.0.0.1", "allow_websocket_origin": [f"127.0.0.1:{port}"]}
    server = get_server({"room": page, "other": page}, start=False, **options, **session_options(services))
    bind_sessions(server)
    expire_abandoned_sessions(server)
    server.start()
    services.revocations.start()
    try:
        yield (pages := Pages(services, services.address, server))
        for each in pages.sockets:
            each.close()
    finally:
        services.revocations.stop()
        server.stop()
        server.unlisten()
        services.store.close()


async def until(condition):
    """Wait for what happens at the other end of a connection."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)


def test_a_database_that_does_not_answer_is_said(tmp_path, monkeypatch):
    def fail(*_arguments):
        raise DatabaseProblemError("The database does not answer.")

    async def work(pages, ada, _bob):
        token = await pages.token(ada)
        monkeypatch.setattr(bokeh_auth_provider, "principal_of_login", fail)
        answer = await pages.get(ada)
        assert (answer.code, answer.reason) == (503, "The database does not answer.")
        assert await pages.is_refused(ada, token)

    run(tmp_path, work)


def run(folder, work):
    async def main():
        with bokeh_server(folder) as pages:
            people = [sign_in(pages.services.store, add_person(pages.services.store, name)) for name in ("ada", "bob")]
            await work(pages, *people)

    asyncio.run(main())


def test_a_page_is_for_whoever_is_signed_in_and_so_is_its_websocket(tmp_path):
    async def work(pages, ada, _bob):
        away = await pages.get("", "/room?plan=a")
        assert (away.code, away.headers["Location"]) == (302, "/login?next=%2Froom%3Fplan%3Da")
        assert (await pages.get("x" * 43)).code == 302
        token = await pages.token(ada)
        payload = get_token_payload(token)
        assert (payload["headers"], payload["cookies"]) == ({}, {})
        assert ada not in str(payload)
        socket = await pages.open(ada, token)
        assert pages.services.revocations.count() == 1
        socket.close()
        await until(lambda: pages.services.revocations.count() == 0)
        assert await pages.is_refused("", token)
        assert await pages.is_refused("x" * 43, token)

    run(tmp_path, work)


def test_a_page_that_is_closed_holds_nothing_and_one_that_is_still_to_open_stays(tmp_path):
    async def work(pages, ada, _bob):
        waiting = await pages.token(ada)  # its websocket is slow to come
        closed = await pages.open(ada, await pages.token(ada))
        assert len(pages.server.get_sessions()) == 2
        closed.close()
        await until(lambda: len(pages.server.get_sessions()) == 1)
        socket = await pages.open(ada, waiting)
        assert len(pages.server.get_sessions()) == 1
        socket.close()
        await until(lambda: not pages.server.get_sessions())

    run(tmp_path, work)


def test_nobody_opens_the_session_of_another(tmp_path):
    async def work(pages, ada, bob):
        hers, his = await pages.token(ada), await pages.token(bob)
        assert await pages.is_refused(bob, hers)
        assert await pages.is_refused(ada, his)
        assert not await pages.is_refused(bob, his)
        assert await pages.is_refused(ada, hers, path="/other/ws")
        for query in (f"bokeh-token={hers}", "bokeh-session-id=abc", "bokeh-token="):
            assert (await pages.get(bob, f"/room?{query}")).code == 403
        assert (await pages.get(bob, **{"Bokeh-Session-Id": "abc"})).code == 403

    run(tmp_path, work)


def crafted_tokens(services, person):
    """Tokens that a visitor makes, of which none is this server's."""
    payload = {"headers": {}, "cookies": {}, "arguments": {}, "workbench_person": person, "workbench_page": "/room"}
    for key, signed in ((b"guess", True), (None, False), (services.secret_key, True), (services.secret_key.hex().encode(), True)):
        session_id = generate_session_id(secret_key=key, signed=signed)
        yield generate_jwt_token(session_id, secret_key=key, signed=signed, extra_payload=payload)


def test_no_visitor_makes_a_token(tmp_path):
    async def work(pages, ada, _bob):
        with pages.services.store.read() as session:
            person = find_user(session, "ada").id
        token = await pages.token(ada)
        base, _, signature = token.partition(".")
        crafted = [
            *crafted_tokens(pages.services, person),
            base,
            f"{base}.",
            f"{base}.{signature[:-2]}",
            f".{signature}",
            "a",
            "a.b.c",
            "e30.x",
        ]
        for each in crafted:
            assert await pages.is_refused(ada, each), each
        for protocols in (["bokeh"], ["bokeh", token, "x"], ["other", token], [], ["bokeh", "a" * 7000]):
            assert await pages.is_refused(ada, token, protocols=protocols), protocols
        assert not await pages.is_refused(ada, token)

    run(tmp_path, work)


@pytest.mark.parametrize("how", ["signed out here", "signed out by another process", "disabled by another process"])
def test_a_websocket_is_closed_when_its_login_ends(tmp_path, how):
    async def work(pages, ada, bob):
        store = pages.services.store
        hers = await pages.open(ada, await pages.token(ada))
        his = await pages.open(bob, await pages.token(bob))
        with store.write() as session:
            ended = disable_user(session, find_user(session, "ada")) if "disabled" in how else revoke_login(session, digest_of(ada))
        if "here" in how:
            pages.services.revocations.announce(ended)
        assert await asyncio.wait_for(hers.read_message(), 20) is None
        assert hers.close_code == SIGNED_OUT
        assert pages.services.revocations.count() == 1
        assert await pages.is_refused(ada, await pages.token(bob))
        his.close()

    run(tmp_path, work)


def test_what_a_page_learns_of_its_visitor_is_a_person_and_no_cookie(tmp_path):
    SHOWN.clear()

    async def work(pages, ada, _bob):
        await pages.token(ada)
        [(payload, cookies, headers)] = SHOWN
        with pages.services.store.read() as session:
            assert payload["workbench_person"] == find_user(session, "ada").id
        assert (cookies, headers.get("Cookie", "")) == ({}, "")

    run(tmp_path, work)


def test_whoever_does_not_answer_the_closing_frame_is_heard_no_more(tmp_path, monkeypatch):
    heard = []
    receive = WSHandler.on_message

    async def on_message(self, fragment):
        heard.append(fragment)
        await receive(self, fragment)

    monkeypatch.setattr(WSHandler, "on_message", on_message)

    async def work(pages, ada, _bob):
        socket = await pages.open(ada, await pages.token(ada))
        await socket.write_message("{}")
        await until(lambda: heard)
        monkeypatch.setattr(socket.protocol, "_handle_message", lambda _opcode, _data: None)  # it reads nothing from now on
        with pages.services.store.write() as session:
            pages.services.revocations.announce(revoke_login(session, digest_of(ada)))
        before = len(heard)
        with suppress(WebSocketClosedError, StreamClosedError):
            async with asyncio.timeout(20):
                while True:
                    await socket.write_message("{}")
                    await asyncio.sleep(0.01)
        assert len(heard) == before

    run(tmp_path, work)
