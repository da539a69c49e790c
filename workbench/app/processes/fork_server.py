"""The process that makes board processes: `python -m workbench.app.processes.fork_server FD [module:function]`.

It imports everything that a board needs, then forks a child for every connection received; the child calls the function
with its descriptors. A fork shares those pages and is ready in milliseconds. On macOS, where such a fork is not safe,
it starts a new interpreter instead. It starts no thread and opens no device, so that forking is safe. It ends with its
parent and then ends its children; if it ends alone, they outlive it.

`multiprocessing.forkserver` would also import the parent's main module, and so run a notebook's or script's lines a
second time.
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
    "workbench.engine.partitioner.plan_partitioning",
    "workbench.visualize.charts.empty_figure",  # Bokeh, whose import takes longer than building a board
    "bokeh.embed",
)
BOARD = "workbench.app.processes.board_process:serve_board"
MOST_DESCRIPTORS = 2  # per request: the child's connection, and an optional second one


def main(descriptor: int, becomes: str = BOARD) -> None:
    """Fork for each connection received, and report each ended child as `{"pid", "status"}`, one JSON line each."""
    end_with_parent(descriptor)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)  # for spawned children
    start = partial(_fork, _preload(becomes), control) if CAN_FORK else partial(_spawn, becomes)
    children: set[int] = set()

    def reap(_signal: int, _frame: FrameType | None) -> None:
        while (ended := _ended_child()) is not None:
            children.symmetric_difference_update((ended[0],))
            _tell(control, {"pid": ended[0], "status": os.waitstatus_to_exitcode(ended[1])})

    signal.signal(signal.SIGCHLD, reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches our parent too, which ends us
    end_by_connection()
    _tell(control, {"ready": True})
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, MOST_DESCRIPTORS)
        if not descriptors:
            return _end_all(children)
        child = start(descriptors)
        children.symmetric_difference_update((child,))  # removes one that has ended already
        for received in descriptors:
            os.close(received)


def _preload(becomes: str) -> Callable[..., None]:
    """Import what boards need and return a child's function; library threads would not survive the fork."""
    threads = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's import starts a thread pool
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
    command = [sys.executable, "-P", "-m", __spec__.name, becomes, *map(str, descriptors)]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    return os.posix_spawn(sys.executable, command, os.environ)


def _become(serve_child: Callable[..., None], descriptors: list[int]) -> None:
    status = 1
    try:
        serve_child(*descriptors)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)  # without the fork server's exit handlers


def _end_all(children: set[int]) -> None:
    """Kill children that do not end by themselves, without reaping them, so that no pid is reused meanwhile."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    time.sleep(GRACE)
    for child in children:
        os.kill(child, signal.SIGKILL)


def _ended_child() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _tell(control: socket.socket, message: dict[str, object]) -> None:
    with suppress(OSError):  # our parent is gone, as the next receive reports
        control.sendall(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    if ":" in sys.argv[1]:  # a spawned child
        _become(_preload(sys.argv[1]), [int(argument) for argument in sys.argv[2:]])
    main(int(sys.argv[1]), *sys.argv[2:3])
