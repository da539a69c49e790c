"""The body of a request: read up to the limit of its handler, and parsed only after `prepare` has let the request in.

**Invariants**

- `prepare` runs once the headers are there. A request that it refuses, or that announces more than `largest_body`, is answered before its
  body is read; its connection is then closed.
- No more than `largest_body` bytes are kept, whatever the request announced.
- A body that takes longer than its size allows closes its connection.
- A long body is parsed in a thread. Of one person at most `MOST_AT_ONCE` are read at a time.
"""

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from tornado.httputil import HTTPInputError, parse_body_arguments
from tornado.web import HTTPError, RequestHandler, stream_request_body

from workbench.app.page.private_members import is_body_read
from workbench.app.page.request_policy import SMALL_BODY, body_seconds
from workbench.core.parse_untrusted import parse_json
from workbench.errors import WorkbenchError
from workbench.units import format_bytes

Parsed = TypeVar("Parsed")
MOST_AT_ONCE = 4
"""Long bodies of one person that are in memory at a time."""


class TooLargeError(WorkbenchError):
    """A request with a larger body than its handler reads."""

    def __init__(self, size: int, largest: int) -> None:
        super().__init__(f"The request has {format_bytes(size)} or more; at most {format_bytes(largest)} are read here.", ["send less"])


class TooManyBodiesError(WorkbenchError):
    """One person sends many long bodies at a time."""

    def __init__(self) -> None:
        super().__init__(f"You send {MOST_AT_ONCE} large requests already; no more are read at a time.", ["wait until one is done"])


@stream_request_body
class BodyHandler(RequestHandler):
    """A handler that reads a body of up to `largest_body` bytes."""

    def initialize(self) -> None:
        self._body = bytearray()
        self._held_for = ""  # the person whose long body this is

    @property
    def largest_body(self) -> int:
        """The largest body that this request may have, in bytes."""
        return SMALL_BODY

    @property
    def announced_body(self) -> int | None:
        """The bytes of the body as the headers announce them, 0 if there is none; `None` where they do not say, as of one in chunks."""
        text = "" if "Transfer-Encoding" in self.request.headers else self.request.headers.get("Content-Length", "0")
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else None

    async def prepare(self) -> None:
        """Refuse a body that is announced as too large. Raises `TooLargeError`."""
        if (self.announced_body or 0) > self.largest_body:
            raise TooLargeError(self.announced_body or 0, self.largest_body)
        if self.request.connection is not None:
            self.request.connection.set_max_body_size(sys.maxsize)  # type: ignore[attr-defined]  # `data_received` counts, with a message
            self.request.connection.set_body_timeout(body_seconds(self.largest_body))  # type: ignore[attr-defined]

    @property
    def is_long(self) -> bool:
        """Whether the body may be more than a small one."""
        return self.announced_body is None or self.announced_body > SMALL_BODY

    def hold_body(self, user_id: str) -> None:
        """Count a long body as this person's until the request is done. Raises `TooManyBodiesError`."""
        held: Counter[str] = self.application.settings.setdefault("held_bodies", Counter())
        if self.is_long:
            if held[user_id] >= MOST_AT_ONCE:
                raise TooManyBodiesError
            held[user_id] += 1
            self._held_for = user_id

    def _release_body(self) -> None:
        if self._held_for:
            held: Counter[str] = self.application.settings["held_bodies"]
            held -= Counter({self._held_for: 1})  # which leaves out who has none
            self._held_for = ""

    def on_finish(self) -> None:
        self._release_body()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._release_body()

    def data_received(self, chunk: bytes) -> None:
        """Keep a part of the body, or answer that there are too many bytes."""
        self._body += chunk
        if len(self._body) > self.largest_body:
            error = TooLargeError(len(self._body), self.largest_body)
            self._body.clear()
            self.send_error(413, exc_info=(TooLargeError, error, None))

    def finish(self, chunk: Any = None) -> Any:
        """Say that the connection closes where the body was not read."""
        if not is_body_read(self.request):
            self.set_header("Connection", "close")
        return super().finish(chunk)

    async def read_json(self) -> Any:
        """Parse the body as JSON; `None` if there is no body. Raises `WorkbenchError`."""
        if not self._body:
            return None
        try:
            return await self._parse(lambda body: parse_json(body.decode()))
        except ValueError as error:
            raise WorkbenchError(
                f"The request's body is not JSON: {str(error)[:200].rstrip('.')}.", ["send a JSON object in UTF-8"]
            ) from None

    async def read_form(self) -> None:
        """Parse the body as a form, for `get_body_argument` and `request.files`."""
        request = self.request
        content_type = request.headers.get("Content-Type", "")
        parse = partial(parse_body_arguments, content_type, arguments=request.body_arguments, files=request.files, headers=request.headers)
        try:
            await self._parse(lambda body: parse(body=body))
        except HTTPInputError as error:
            raise HTTPError(400, f"The form cannot be read: {error}") from None
        for name, values in request.body_arguments.items():
            request.arguments.setdefault(name, []).extend(values)

    async def _parse(self, parse: Callable[[bytes], Parsed]) -> Parsed:
        body, self._body = bytes(self._body), bytearray()
        return await asyncio.to_thread(parse, body) if len(body) > SMALL_BODY else parse(body)
