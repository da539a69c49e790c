"""Shutdown of a server by SIGTERM or Ctrl-C, without loss of saved data and without a traceback."""

import asyncio
import os
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from workbench.app.page.private_members import http_of

CLOSE_TIMEOUT = 3.0
"""Time limit for closing after SIGTERM in seconds."""
DISCONNECT_TIMEOUT = 1.0  # seconds to notify the browsers


def serve_until_signal(start: Callable[[], Any], close: Callable[[], None], unix_socket: str | None = None) -> Any:
    """Serve until SIGTERM or Ctrl-C, then `close` the boards and disconnect.

    SIGTERM raises `SystemExit` with code 0, and exits with that code if closing exceeds `CLOSE_TIMEOUT`; Ctrl-C returns
    the server. A second signal exits at once.
    """
    received = Signals()
    with received.listening():
        server = start()
        received.stop = lambda: server.io_loop.asyncio_loop.call_soon_threadsafe(server.io_loop.stop)
        server.start()
        if not received.signals:
            with received.listening():  # again, because Panel replaces the handler of Ctrl-C
                server.io_loop.start()
    server.stop()
    try:
        close()
    finally:
        close_connections(server)
        if unix_socket:
            _remove_socket(Path(unix_socket))
    if signal.SIGTERM in received.signals:
        raise SystemExit(0)
    return server


class Signals:
    """The received signals. The first one stops the server once it has been built completely."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self.stop: Callable[[], object] = lambda: None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Install the handlers, on the main thread only. A second SIGTERM has its default effect."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._hear)
            before = signal.signal(signal.SIGINT, self._hear)
            try:
                yield
            finally:
                signal.signal(signal.SIGINT, before)
        else:
            yield

    def _hear(self, number: int, _frame: object) -> None:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        self.signals.append(number)
        if number == signal.SIGTERM:
            watch = threading.Timer(CLOSE_TIMEOUT, os._exit, (0,))
            watch.daemon = True
            watch.start()
        self.stop()


def close_connections(server: Any) -> None:
    """Close the connections of a stopped server on its own event loop."""
    with suppress(TimeoutError, asyncio.TimeoutError, OSError):
        leaving = http_of(server).close_all_connections()
        server.io_loop.asyncio_loop.run_until_complete(asyncio.wait_for(leaving, DISCONNECT_TIMEOUT))


def _remove_socket(path: Path) -> None:
    with suppress(OSError):
        if stat.S_ISSOCK(path.stat().st_mode) and not _is_listening(path):
            path.unlink()


def _is_listening(path: Path) -> bool:
    """Whether another server already uses the socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(DISCONNECT_TIMEOUT)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
