"""Start child processes that end with their parent, even after SIGKILL, exchange messages with them, and lower their
scheduling priority.

On Linux a child first calls `end_with_parent`. Elsewhere it ends when its connection closes.
"""

import base64
import ctypes
import functools
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from workbench.core.operating_system import after_fork
from workbench.errors import EngineError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_Request = tuple["Future[subprocess.Popen[bytes]]", Sequence[str], Mapping[str, Any]]


def end_with_parent(connection: int | None = None) -> None:
    """Ask Linux to kill this process when the thread that started it ends.

    Exits at once if the parent has already ended: the other end of `connection`, a file descriptor, is then closed.
    """
    _set_death_signal(signal.SIGKILL)
    if connection is not None:
        hung_up = select.poll()
        hung_up.register(connection, 0)
        if hung_up.poll(0):
            os._exit(1)


def end_by_connection() -> None:
    """Undo `end_with_parent`, for a process that watches its connection and has to clean up before it exits."""
    _set_death_signal(0)


def _set_death_signal(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


def start_child(command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a process from a thread that lives as long as this process, because Linux takes its end for the parent's."""
    if threading.current_thread() is threading.main_thread():
        return _start(command, options)
    started: Future[subprocess.Popen[bytes]] = Future()
    _requests().put((started, command, options))
    return started.result()


def _start(command: Sequence[str], options: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
    process: subprocess.Popen[bytes] = subprocess.Popen(command, **options)  # noqa: S603 - callers run this interpreter and this package
    return process


@functools.cache
def _requests() -> "SimpleQueue[_Request]":
    requests: SimpleQueue[_Request] = SimpleQueue()
    threading.Thread(target=_start_all, args=(requests,), daemon=True, name="starts processes").start()
    return requests


def _start_all(requests: "SimpleQueue[_Request]") -> None:
    while True:
        started, command, options = requests.get()
        try:
            started.set_result(_start(command, options))
        except BaseException as error:  # noqa: BLE001 - raised again in the requesting thread
            started.set_exception(error)


after_fork(_requests.cache_clear)  # a fork does not inherit its parent's threads


def encode_message(message: object) -> bytes:
    """Encode a message to another process of this package as a line, which `decode_message` reads."""
    return base64.b64encode(pickle.dumps(message)) + b"\n"


def decode_message(line: bytes) -> Any:
    return pickle.loads(base64.b64decode(line))  # noqa: S301 - our own parent or child wrote it


_MOST = 19
_OF_SESSION = Path("/proc/self/autogroup")


def raise_niceness(by: int = 0) -> None:
    """Add `by` to the niceness of this process, and to its session's if it is the session leader.

    Linux may divide the processor among sessions first and apply niceness only within one (`sched(7)`, "The autogroup
    feature"). Has no effect where the system forbids it.
    """
    if not hasattr(os, "nice"):
        return
    with suppress(OSError):
        niceness = os.nice(by)
        if os.getsid(0) == os.getpid():
            _OF_SESSION.write_text(str(niceness), encoding="ascii")


def run_when_idle() -> None:
    """Run this process's threads only on an idle processor, irrevocably: `SCHED_IDLE`, or highest niceness."""
    if sys.platform != "linux":
        raise_niceness(_MOST)
        return
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))


def file_for_last_words() -> IO[bytes]:
    """Create a file for standard error, in memory if no file can be written; raises `EngineError` if that fails too."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        if hasattr(os, "memfd_create"):
            return os.fdopen(os.memfd_create("last words"), "w+b")
        raise EngineError(
            f"A worker process needs a temporary file, and none can be written: {error.strerror or error}.",
            ["free space on the disk", "set TMPDIR to a folder in which you may write"],
        ) from None
