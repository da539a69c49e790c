"""A wire between browser and server that can be cut, and mended again."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.servers import free_port


class Proxy:
    """Passes bytes on from `port` to the port of a server; while it is cut, whoever calls is hung up on."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target, self._cut, self._deaf = target, False, False
        self._ends: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._listening, self._ending = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._listening.wait(20)

    def cut(self) -> None:
        self._do(self._abort)

    def swallow(self) -> None:
        """From now on, what the browser sends is lost on the way; a mended wire passes it on again."""
        self._deaf = True

    def mend(self) -> None:
        self._cut = self._deaf = False

    def stop(self) -> None:
        self._do(self._abort)
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def _do(self, work) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (work(), done.set()))
        assert done.wait(20)

    def _abort(self) -> None:
        self._cut = True
        for each in self._ends:
            each.transport.abort()
        self._ends.clear()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._accept, "127.0.0.1", self.port):
            self._listening.set()
            await self._ending.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._cut:
                raise ConnectionError
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._ends |= {writer, back}
        await asyncio.gather(self._pass(reader, back, from_browser=True), self._pass(there, writer, from_browser=False))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, from_browser: bool) -> None:
        with suppress(OSError):
            while content := await source.read(1 << 16):
                if not (from_browser and self._deaf):
                    sink.write(content)
                    await sink.drain()
        sink.close()
        self._ends.discard(sink)


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    yield proxy
    proxy.stop()
