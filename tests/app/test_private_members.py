"""The private members are those of the installed versions; what a busy websocket is told arrives; a page that is gone disturbs nobody."""

import asyncio
import json
import logging
import threading
from importlib.metadata import version

import panel as pn
import pytest
from bokeh.document import Document
from bokeh.document.events import TitleChangedEvent
from bokeh.server.tornado import BokehTornado
from panel.io import document as writing
from panel.template import base
from tornado.httpserver import HTTPServer
from tornado.websocket import WebSocketProtocol

from benchmarks import served_client
from benchmarks.served_client import PATIENCE, Visitor
from tests.support.servers import free_port, wait_for
from workbench.app.page.guarded_server import guarded_server
from workbench.app.page.page_template import template_of
from workbench.app.page.private_members import TRIED, WAITING, http_of, patch_writes, tornado_of
from workbench.app.page.request_policy import allowed_hosts
from workbench.app.page.serve import listen
from workbench.app.page.visitor_screen import Screen, on_document


class Socket:
    """Takes each message when it is let."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.taken: list[asyncio.Future] = []


class Connection:
    """Of one page, as Bokeh has them."""

    def __init__(self) -> None:
        self._socket, self.protocol = Socket(), self

    def create(self, _kind, events):
        return json.dumps([event.title for event in events])


@pytest.fixture
def connection(monkeypatch):
    def write(connection, msg):
        connection._socket.written.append(msg)
        connection._socket.taken.append(asyncio.get_running_loop().create_future())
        return connection._socket.taken[-1:]

    monkeypatch.setattr(writing, "_dispatch_msgs", writing._dispatch_msgs)
    monkeypatch.setitem(writing.extra_socket_handlers, Socket, write)
    return Connection()


MEMBERS = [
    *(("panel", writing, name) for name in ("_dispatch_msgs", WAITING, "_WRITE_BLOCK")),
    *(("panel", pn.state, name) for name in ("_loaded", "_connected")),
    ("panel", base, "_env"),
    ("panel", pn.pane.Str, "_models"),
    ("tornado", WebSocketProtocol, "_abort"),
]


@pytest.mark.parametrize(("library", "owner", "name"), MEMBERS, ids=[name for _, _, name in MEMBERS])
def test_the_installed_version_has_the_private_member(library, owner, name):
    owner = owner("") if owner is pn.pane.Str else owner
    assert hasattr(owner, name), f"{library} {version(library)} has it no more, {TRIED[library]} had: fix `app/page/private_members.py`"


def test_a_server_is_reached_through_its_private_members():
    port = free_port()

    async def serve():
        server = guarded_server(
            {"/": lambda: pn.pane.Str("")}, {"address": "127.0.0.1", "port": port}, allowed_hosts("127.0.0.1", port, ())
        )
        assert isinstance(tornado_of(server), BokehTornado)
        assert isinstance(http_of(server), HTTPServer)
        assert tornado_of(server).websocket_origins == {"*"}
        server.unlisten()

    asyncio.run(serve())  # Python 3.13 warns where no event loop runs


def test_a_message_that_comes_as_the_last_one_goes_out_is_written_too(connection):
    patch_writes()
    document, socket = Document(), connection._socket

    async def write_two():
        writing.schedule_write_events(document, [connection], [TitleChangedEvent(document, "board")])
        await asyncio.sleep(0)
        assert socket.written == ['["board"]']
        socket.taken[0].set_result(None)  # the first is out, and before its task goes on, the second comes
        writing.schedule_write_events(document, [connection], [TitleChangedEvent(document, "table")])
        for _ in range(10):
            await asyncio.sleep(0)
        assert socket.written == ['["board"]', '["table"]']
        socket.taken[1].set_result(None)
        for _ in range(10):
            await asyncio.sleep(0)
        assert document not in writing._WRITE_BLOCK
        assert document not in getattr(writing, WAITING)

    asyncio.run(write_two())


def tell(defer) -> None:
    """From a thread, as runners and board processes do."""
    thread = threading.Thread(target=defer, args=(lambda: pytest.fail("it was told"),))
    thread.start()
    thread.join()


def test_what_ends_after_its_page_is_gone_is_told_to_nobody_and_leaves_no_traceback(caplog):
    async def leave():
        document = Document()
        defer, screen = on_document(document), Screen(document)
        writing._cleanup_doc(document)  # as Panel does when a session ends
        failed = []
        threading.excepthook, kept = failed.append, threading.excepthook
        try:
            tell(defer)
            tell(lambda _: screen.show("bridge", {"busy": "4"}))
        finally:
            threading.excepthook = kept
        for _ in range(10):
            await asyncio.sleep(0)
        return failed

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(leave()) == []
    assert caplog.records == []


def visit(make, browser):
    """A visitor of the page that `make` returns, who has left again."""
    running = listen(make, port := free_port(), False, "127.0.0.1", (), None, threaded=True)
    wait_for(f"http://127.0.0.1:{port}/liveness")

    async def come():
        visitor = await browser.come(f"http://127.0.0.1:{port}/")
        await visitor.leave()
        return visitor

    try:
        return asyncio.run(come())
    finally:
        running.stop()
        running.join(20)


def test_a_board_that_opens_while_its_page_is_drawn_is_shown(monkeypatch):
    monkeypatch.setattr(served_client, "PATIENCE", 20.0)
    screens = []

    def make():
        screens.append(Screen(pn.state.curdoc))
        return template_of("", screens[-1].root)

    class SlowBrowser(Visitor):
        """Has read the document, and is not ready yet."""

        async def _say(self, event):
            if event.get("msg_type") == "bokeh_event":
                await self._until(lambda: self._read_document, PATIENCE)
                screens[-1].show("board", {"new": True, "board": '{"answer":{"seq":7}}', "table": '{"seq":7}'})
                await self._until(lambda: bool(self.board), 2.0)
            await super()._say(event)

        _read_document = False

        def _take(self, content):
            self._read_document |= "doc" in content
            super()._take(content)

    assert visit(make, SlowBrowser).board == {"answer": {"seq": 7}}


def test_what_changes_before_its_page_is_drawn_is_all_shown(monkeypatch):
    monkeypatch.setattr(served_client, "PATIENCE", 20.0)
    screens = []

    def make():
        screens.append(screen := Screen(pn.state.curdoc))
        first = {"board": '{"answer":{"seq":7},"edition":1}', "table": '{"seq":7,"edition":1}'}
        screen.show("board", {"new": True, **first})
        screen.show("board", {"changes": '{"part":"board","of":1,"by":{"answer":{"seq":[8]},"edition":[2]}}'})
        screen.show("board", {"changes": '{"part":"table","of":1,"by":{"seq":[8],"edition":[2]}}'})
        return template_of("", screen.root)

    visitor = visit(make, Visitor)
    assert visitor.board == {"answer": {"seq": 8}, "edition": 2}
    assert visitor.table == {"seq": 8, "edition": 2}
