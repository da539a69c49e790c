"""Shutdown of a server: by SIGTERM, which service managers send, or by Ctrl-C. Nothing saved is lost, and no traceback is printed."""

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
"""Seconds that closing may take after SIGTERM."""
DISCONNECT_TIMEOUT = 1.0  # seconds for the browsers to learn that the connection is closed


def serve_until_signal(start: Callable[[], Any], close: Callable[[], None], unix_socket: str | None = None) -> Any:
    """Serve with the server that `start` makes, until SIGTERM or Ctrl-C comes; then refuse new visitors, `close` what visitors have, and
    disconnect.

    After SIGTERM it raises `SystemExit` with code 0, and ends the process with that code if closing takes longer than `CLOSE_TIMEOUT`;
    after Ctrl-C it returns the server. A second signal ends it at once.
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
        hang_up(server)
        if unix_socket:
            _remove_socket(Path(unix_socket))
    if signal.SIGTERM in received.signals:
        raise SystemExit(0)
    return server


class Signals:
    """The received signals; the first one stops a server, if there is one yet: one under construction is not left half made."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self.stop: Callable[[], object] = lambda: None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Install the handlers; only the main thread can, elsewhere nothing is changed. A second SIGTERM has its default effect."""
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
        """The signal handler; it interrupts whatever the main thread does."""
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        self.signals.append(number)
        if number == signal.SIGTERM:
            watch = threading.Timer(CLOSE_TIMEOUT, os._exit, (0,))
            watch.daemon = True
            watch.start()
        self.stop()


def hang_up(server: Any) -> None:
    """Close the connections of a stopped server, on its own event loop."""
    with suppress(TimeoutError, asyncio.TimeoutError, OSError):
        leaving = http_of(server).close_all_connections()
        server.io_loop.asyncio_loop.run_until_complete(asyncio.wait_for(leaving, DISCONNECT_TIMEOUT))


def _remove_socket(path: Path) -> None:
    with suppress(OSError):
        if stat.S_ISSOCK(path.stat().st_mode) and not _is_listening(path):
            path.unlink()


def _is_listening(path: Path) -> bool:
    """Whether another server listens there by now."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(DISCONNECT_TIMEOUT)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
