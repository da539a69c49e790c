"""Firefox as Playwright would have it: `python -m tests.support.firefox_relay FIREFOX [its options]`.

Playwright drives an unchanged Firefox by WebDriver BiDi (`channel="moz-firefox"`), and asks it for a colour scheme before every page. The
long-term release of Firefox does not know that command, and no page would open. What stands between them here answers for it, so that a
page is as light or dark as Firefox is; everything else passes as it is. Bound to the loopback address.
"""

import asyncio
import json
import re
import signal
import sys

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler, websocket_connect

UNKNOWN = "emulation.setMediaFeaturesOverride"
LISTENING = re.compile(r"(WebDriver BiDi listening on )(ws://\S+)")
MOST_BYTES = 1 << 28  # of a message: pictures of the page among them


class Relay(WebSocketHandler):
    """One connection of Playwright's, and its own to Firefox at `address`."""

    def initialize(self, address: str) -> None:
        self.address = address

    def check_origin(self, _origin: str) -> bool:
        return True

    async def open(self, *_: str) -> None:
        self.firefox = await websocket_connect(self.address + self.request.path, max_message_size=MOST_BYTES)
        self.answers = asyncio.create_task(self._pass_answers())  # messages are read once this has returned

    async def _pass_answers(self) -> None:
        while (message := await self.firefox.read_message()) is not None:
            await self.write_message(message)
        self.close()

    async def on_message(self, message: str | bytes) -> None:
        command = json.loads(message)
        if command["method"] == UNKNOWN:
            await self.write_message(json.dumps({"type": "success", "id": command["id"], "result": {}}))
        else:
            await self.firefox.write_message(message)


def _listen(address: str) -> str:
    """The address to which Playwright is sent, in the place of Firefox's own."""
    sockets = bind_sockets(0, "127.0.0.1")
    HTTPServer(Application([(r"/.*", Relay, {"address": address})], websocket_max_message_size=MOST_BYTES)).add_sockets(sockets)
    return f"ws://127.0.0.1:{sockets[0].getsockname()[1]}"


async def main(command: list[str]) -> int:
    firefox = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, firefox.terminate)
    assert firefox.stderr is not None
    async for line in firefox.stderr:
        text = LISTENING.sub(lambda found: found[1] + _listen(found[2]), line.decode())
        print(text, end="", file=sys.stderr, flush=True)
    return await firefox.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
