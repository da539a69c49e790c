"""The process that makes board processes: `python -m workbench.app.processes.fork_server FD [module:function]`.

It imports everything a board needs, once, and then forks a child for every connection it is sent, which calls the function with its
descriptors: a fork shares those pages, and is ready in milliseconds. On macOS, where such a fork is not safe, it starts a new interpreter
instead. It starts no thread and opens no device, so that its children may. It ends when its parent does, and its children with it;
children outlive it where it ends alone.

This is `multiprocessing.forkserver` without the part that imports the parent's main module again, which would run a notebook's or a
script's own lines a second time.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType

from workbench.app.processes.message_loop import GRACE
from workbench.core.child_process import end_by_connection, end_with_parent
from workbench.core.operating_system import CAN_FORK
from workbench.core.parse_untrusted import import_jsonschema

PRELOADED = (
    "workbench.models",
    "workbench.widgets.board.board",
    "workbench.app.page.requested_visit",
    "workbench.engine.worker.submit_jobs",
    "workbench.engine.partitioner",
    "workbench.visualize.charts.empty_figure",  # Bokeh, which takes longer to import than a board to be made
    "bokeh.embed",
)
BOARD = "workbench.app.processes.board_process:serve_board"
MOST_DESCRIPTORS = 2  # sent with one request: the child's connection, and one more for a child that wants it


def main(descriptor: int, becomes: str = BOARD) -> None:
    """Fork for every connection sent on this socket, and report how each child ended: `{"pid", "status"}`, one JSON object per line."""
    end_with_parent(descriptor)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)  # for a child that is spawned
    start = partial(_fork, _preload(becomes), control) if CAN_FORK else partial(_spawn, becomes)
    children: set[int] = set()

    def reap(_signal: int, _frame: FrameType | None) -> None:
        while (ended := _ended_child()) is not None:
            children.symmetric_difference_update((ended[0],))
            _tell(control, {"pid": ended[0], "status": os.waitstatus_to_exitcode(ended[1])})

    signal.signal(signal.SIGCHLD, reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: our parent gets it too, and ends us
    end_by_connection()
    _tell(control, {"ready": True})
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, MOST_DESCRIPTORS)
        if not descriptors:
            return _end_all(children)
        child = start(descriptors)
        children.symmetric_difference_update((child,))  # gone again where it has ended already
        for each in descriptors:
            os.close(each)


def _preload(becomes: str) -> Callable[..., None]:
    """Import what boards need, and the function of a child; a library's threads would not survive the fork."""
    threads = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy starts a pool when it is imported
    module, _, function = becomes.partition(":")
    for name in (*PRELOADED, module):
        importlib.import_module(name)
    import_jsonschema()
    os.environ.pop("OPENBLAS_NUM_THREADS")
    if threads is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = threads
    gc.collect()
    gc.freeze()  # a garbage collection in a child would write to, and so copy, every page it visits
    serve_child: Callable[..., None] = getattr(sys.modules[module], function)
    return serve_child


def _fork(serve_child: Callable[..., None], control: socket.socket, descriptors: list[int]) -> int:
    if (child := os.fork()) == 0:
        control.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _become(serve_child, descriptors)
    return child


def _spawn(becomes: str, descriptors: list[int]) -> int:
    """Start a new interpreter for a child, which imports everything again: where a process that has imported libraries cannot fork."""
    command = [sys.executable, "-P", "-m", __spec__.name, becomes, *map(str, descriptors)]
    for each in descriptors:
        os.set_inheritable(each, True)
    return os.posix_spawn(sys.executable, command, os.environ)


def _become(serve_child: Callable[..., None], descriptors: list[int]) -> None:
    """In the child: never returns."""
    status = 1
    try:
        serve_child(*descriptors)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)  # without the fork server's exit handlers


def _end_all(children: set[int]) -> None:
    """End them now where they do not end by themselves; none is waited for, so that the number of each stays its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    time.sleep(GRACE)
    for each in children:
        os.kill(each, signal.SIGKILL)


def _ended_child() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _tell(control: socket.socket, message: dict[str, object]) -> None:
    with suppress(OSError):  # our parent is gone: what is received next says so
        control.sendall(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    if ":" in sys.argv[1]:  # a child that was spawned
        _become(_preload(sys.argv[1]), [int(each) for each in sys.argv[2:]])
    main(int(sys.argv[1]), *sys.argv[2:3])
