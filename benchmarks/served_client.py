"""One visitor of a served board without a browser: it speaks Bokeh's protocol over a websocket, as the page does."""

import asyncio
import html
import json
import re
import time
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlsplit

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from workbench.app.page.part_changes import with_change

ASKS_AGAIN = 3.0  # seconds that the page waits for the tables which the board has announced
PATIENCE = 120.0  # seconds for anything at all


class Visitor:
    """A page that is open, until it `is_gone`. `board` and `table` are what it was told last, `board_id` is what its address names from
    then on. `failure` is what the page says in the board's place."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket, self._data, self._sent = socket, "", 0
        self.board_id, self.failure = "", ""
        self.board: dict[str, Any] = {}
        self.table: dict[str, Any] = {}
        self._is_open, self._missed, self.is_gone = False, False, False
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def come(cls, url: str, query: str = "", cookie: str = "") -> Self:
        """Load the page and open its websocket, and wait for the board. `cookie` is what a browser that is signed in sends."""
        headers = {"Cookie": cookie} if cookie else {}
        page = await AsyncHTTPClient().fetch(f"{url}{query}", headers=headers, connect_timeout=PATIENCE, request_timeout=PATIENCE)
        token = re.search(r'"token":"([^"]+)"', html.unescape(page.body.decode()))
        assert token, "the page holds no token"
        site = urlsplit(url)
        request = HTTPRequest(
            f"ws://{site.netloc}{site.path.rstrip('/')}/ws",
            headers={"Origin": f"{site.scheme}://{site.netloc}", **headers},
            connect_timeout=PATIENCE,
            request_timeout=PATIENCE,
        )
        connection = await websocket_connect(request, subprotocols=["bokeh", token[1]], max_message_size=1 << 28)
        connection.protocol.stream.set_nodelay(True)  # type: ignore[attr-defined]  # as browsers do
        visitor = cls(connection)
        assert await visitor._until(lambda: visitor._is_open, PATIENCE), "the server did not acknowledge"
        await visitor._send("PULL-DOC-REQ", {})
        await visitor._say({"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": _event("document_ready")})
        is_there = lambda: bool(visitor.failure or (visitor.board.get("answer") and visitor.table))  # noqa: E731
        assert await visitor._until(is_there, PATIENCE), "no board came"
        assert not visitor.failure, visitor.failure
        return visitor

    async def edit(self, seq: int, **gesture: Any) -> tuple[float, float, bool]:
        """Seconds until the board has answered and until its tables are there; whether they came only when they were asked for again."""
        begun = time.monotonic()
        await self._gesture(seq, gesture)
        assert await self._until(lambda: self.board["answer"]["seq"] == seq, PATIENCE), "the board did not answer"
        answered = time.monotonic() - begun
        there = lambda: not self.board["follows"] or self.table["seq"] == seq  # noqa: E731 - it is asked twice
        came = await self._until(there, ASKS_AGAIN)
        if not came:
            await self._gesture(seq, {"verb": "refresh"})
            assert await self._until(there, PATIENCE), "the tables did not come"
        return answered, time.monotonic() - begun, not came

    async def leave(self) -> None:
        self._socket.close()
        await self._reading

    async def cut(self) -> None:
        """The connection is gone, without a word to the server."""
        self._socket.stream.close()  # type: ignore[attr-defined]
        await self._reading

    async def _gesture(self, seq: int, gesture: dict[str, Any]) -> None:
        asked = {"view": "load", "seq": seq, **gesture}
        await self._say({"kind": "ModelChanged", "model": {"id": self._data}, "attr": "gesture", "new": _map(asked)})

    async def _say(self, event: dict[str, Any]) -> None:
        await self._send("PATCH-DOC", {"events": [event]})

    async def _send(self, kind: str, content: dict[str, Any]) -> None:
        self._sent += 1
        for part in ({"msgid": f"{self._sent}", "msgtype": kind}, {}, content):
            await self._socket.write_message(json.dumps(part))

    async def _read(self) -> None:
        """Three frames are a message: what it is, nothing, and its content."""
        parts: list[Any] = []
        while (frame := await self._socket.read_message()) is not None:
            parts.append(json.loads(frame))
            if len(parts) == 3:
                self._is_open |= parts[0]["msgtype"] == "ACK"
                self._take(parts[2])
                parts.clear()
                if self._missed:
                    self._missed = False
                    await self._gesture(0, {"verb": "refresh"})
                await self._tell()
        self.is_gone = True
        await self._tell()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    def _take(self, content: Any) -> None:
        """The board is where a model has a `board` and a `table`, wherever in a message that stands."""
        for each in _objects(content):
            if each.get("kind") == "ModelChanged" and each["model"]["id"] == self._data:
                self._know({each["attr"]: each["new"]})
            elif each.get("attr") == "failure":
                self.failure = _text_of(each["new"])
            elif each.get("attr") == "board" and isinstance(each["new"], str):  # of the wire to the window
                self.board_id = each["new"]
            elif {"board", "table"} <= (attributes := each.get("attributes") or {}).keys():
                self._data = each["id"]
                self._know(attributes)
            elif "failure" in attributes:  # of the wire to the window, in the page as it is drawn
                self.failure = self.failure or _text_of(attributes["failure"])
                self.board_id = attributes.get("board") or self.board_id

    def _know(self, attributes: dict[str, Any]) -> None:
        for name in ("board", "table"):
            if name in attributes:
                self._show(name, _plain(attributes[name]))
        if changes := _plain(attributes.get("changes")):
            self._change(changes["part"], changes["of"], changes["by"])

    def _change(self, part: str, of: int, by: Any) -> None:
        """As `model_parts.js`: what changed of a part; the whole is asked for where an earlier change was missed."""
        before = getattr(self, part, None)
        if before and before.get("edition") == of:
            self._show(part, with_change(before, by))
        elif before and before.get("edition", 0) < of:
            self._missed = True

    def _show(self, part: str, state: dict[str, Any]) -> None:
        """A part is another now."""
        setattr(self, part, state)

    async def _until(self, is_so: Any, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait_for(lambda: self.is_gone or is_so())
        except TimeoutError:
            return False
        return bool(is_so())


def _objects(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, dict):
        yield content
    for each in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from _objects(each)


def _map(record: dict[str, Any]) -> dict[str, Any]:
    """A record as Bokeh writes it."""
    return {"type": "map", "entries": [[key, value] for key, value in record.items()]}


def _event(name: str) -> dict[str, Any]:
    return {"type": "event", "name": name, "values": _map({})}


def _text_of(failure: Any) -> str:
    """The text in a dictionary as Bokeh writes it."""
    entries = failure.get("entries", ()) if isinstance(failure, dict) else ()
    return str(dict(entries).get("text", ""))


def _plain(part: Any) -> Any:
    """A part of the board: a JSON text, or nothing yet."""
    return json.loads(part) if isinstance(part, str) and part else {}
