"""Child processes that end with their parent, however that ends, also by SIGKILL; and how far a process lets others go first.

A child of Linux says so itself, with `end_with_parent`, as the first thing that it does. Elsewhere the end of its connection ends it.
"""

import ctypes
import functools
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from workbench.core.operating_system import after_fork

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_Request = tuple["Future[subprocess.Popen[bytes]]", Sequence[str], Mapping[str, Any]]


def end_with_parent(connection: int | None = None) -> None:
    """Have Linux kill this process when the thread that started it ends; at once where that was before this, as the other end of its
    `connection`, a descriptor, says."""
    _set_death_signal(signal.SIGKILL)
    if connection is not None:
        hung_up = select.poll()
        hung_up.register(connection, 0)
        if hung_up.poll(0):
            os._exit(1)


def end_by_connection() -> None:
    """Take that back: this process sees the end of its connection at once, and has something to end before itself."""
    _set_death_signal(0)


def _set_death_signal(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


def start_child(command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a process from a thread that lives as long as this process: Linux takes the end of that thread for the end of the parent."""
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
    """The queue of the starting thread."""
    requests: SimpleQueue[_Request] = SimpleQueue()
    threading.Thread(target=_start_all, args=(requests,), daemon=True, name="starts processes").start()
    return requests


def _start_all(requests: "SimpleQueue[_Request]") -> None:
    while True:
        started, command, options = requests.get()
        try:
            started.set_result(_start(command, options))
        except BaseException as error:  # noqa: BLE001 - it is for whoever asked
            started.set_exception(error)


after_fork(_requests.cache_clear)  # a fork has none of its parent's threads


_MOST = 19
_OF_SESSION = Path("/proc/self/autogroup")


def raise_niceness(by: int = 0) -> None:
    """Add to the niceness of this process, and give it to its session where this process leads one.

    Linux may share the processor among sessions first, and heed niceness only within one (`sched(7)`, "The autogroup feature"): a process
    in a session of its own would else take as much as all that go first together. Where the system does not allow it, nothing happens.
    """
    if not hasattr(os, "nice"):
        return
    with suppress(OSError):
        niceness = os.nice(by)
        if os.getsid(0) == os.getpid():
            _OF_SESSION.write_text(str(niceness), encoding="ascii")


def run_when_idle() -> None:
    """Have the threads of this process, and what they start, run only where nothing else in its session wants the processor: Linux's
    `SCHED_IDLE`, elsewhere the highest niceness. There is no way back."""
    if sys.platform != "linux":
        raise_niceness(_MOST)
        return
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
