"""A server in a thread of its own, which is stopped from another. Nobody is left waiting: every connection is closed.

Panel's own thread cancels what reads the connections and leaves them open. A browser then sends its next request on one of them, and waits
for an answer that nobody gives.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from tornado.ioloop import IOLoop

from workbench.app.page.shutdown import hang_up


class ServerThread(threading.Thread):
    """Serves with the server that `make` makes for the event loop it is given as `loop`, until `stop`."""

    def __init__(self, make: Callable[..., Any]) -> None:
        super().__init__(name="page server")
        self._make = make
        self._loop = IOLoop(make_current=False)

    def run(self) -> None:
        """The thread's work: serve, hang up, and end what is left of the event loop."""
        try:
            server = self._make(loop=self._loop)
            server.start()
            self._loop.start()
            server.stop()
            hang_up(server)
            _cancel_tasks(self._loop.asyncio_loop)
        finally:
            self._loop.close()

    def stop(self) -> None:
        """End serving soon, from any thread; nothing happens where it has ended."""
        if self.is_alive():
            self._loop.add_callback(self._loop.stop)


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
