"""Read request bodies up to their handler's limit, and parse them only after `prepare` accepted the request.

**Invariants**

- `prepare` runs after the headers. A request that it rejects, or that announces more than `largest_body`, is answered
  before its body is read, and its connection is closed.
- At most `largest_body` bytes are kept, whatever the request announced.
- A body that takes longer than its size allows closes its connection.
- A long body is parsed in a thread. At most `MOST_AT_ONCE` long bodies of one user are read concurrently.
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
"""Long bodies of one user that are in memory concurrently."""


class TooLargeError(WorkbenchError):
    """The body exceeds its handler's limit."""

    def __init__(self, size: int, largest: int) -> None:
        super().__init__(f"The request has at least {format_bytes(size)}; the limit is {format_bytes(largest)}.", ["send less"])


class TooManyBodiesError(WorkbenchError):
    """A user sends too many long bodies concurrently."""

    def __init__(self) -> None:
        super().__init__(f"You are already sending {MOST_AT_ONCE} large requests, which is the limit.", ["wait until one is done"])


@stream_request_body
class BodyHandler(RequestHandler):
    """A handler that reads a body of up to `largest_body` bytes."""

    def initialize(self) -> None:
        self._body = bytearray()
        self._held_for = ""  # the user whose long body is counted

    @property
    def largest_body(self) -> int:
        return SMALL_BODY

    @property
    def announced_body(self) -> int | None:
        """Announced body size in bytes, 0 without a body; `None` if unknown, as for chunked bodies."""
        text = "" if "Transfer-Encoding" in self.request.headers else self.request.headers.get("Content-Length", "0")
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else None

    async def prepare(self) -> None:
        """Reject a body announced as too large. Raises `TooLargeError`."""
        if (self.announced_body or 0) > self.largest_body:
            raise TooLargeError(self.announced_body or 0, self.largest_body)
        if self.request.connection is not None:
            self.request.connection.set_max_body_size(sys.maxsize)  # type: ignore[attr-defined]  # `data_received` enforces the limit with a message
            self.request.connection.set_body_timeout(body_seconds(self.largest_body))  # type: ignore[attr-defined]

    @property
    def is_long(self) -> bool:
        return self.announced_body is None or self.announced_body > SMALL_BODY

    def hold_body(self, user_id: str) -> None:
        """Count a long body for the user until the request is done. Raises `TooManyBodiesError`."""
        counts: Counter[str] = self.application.settings.setdefault("held_bodies", Counter())
        if self.is_long:
            if counts[user_id] >= MOST_AT_ONCE:
                raise TooManyBodiesError
            counts[user_id] += 1
            self._held_for = user_id

    def _release_body(self) -> None:
        if self._held_for:
            counts: Counter[str] = self.application.settings["held_bodies"]
            counts -= Counter({self._held_for: 1})  # subtraction drops zero counts
            self._held_for = ""

    def on_finish(self) -> None:
        self._release_body()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._release_body()

    def data_received(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > self.largest_body:
            error = TooLargeError(len(self._body), self.largest_body)
            self._body.clear()
            self.send_error(413, exc_info=(TooLargeError, error, None))

    def finish(self, chunk: Any = None) -> Any:
        """Announce that the connection closes if the body was not read."""
        if not is_body_read(self.request):
            self.set_header("Connection", "close")
        return super().finish(chunk)

    async def read_json(self) -> Any:
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
