"""The warm process of a run: `python -m tests.support.warm_process FD` forks a worker process whenever that is asked for on socket FD.

It has imported what workers import; so that forks may, it starts no thread and opens no device. It ends when the connection does.
"""

import gc
import os
import pickle
import socket
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from tests.support import compiling
from workbench.engine.worker import worker_main


class Told(NamedTuple):
    """What a worker is told that a process which is started has from whoever starts it."""

    kind: str
    folder: str
    environment: Mapping[str, str]


def main(descriptor: int) -> None:
    for each in worker_main.WORK.values():
        worker_main._function(each)
    warnings.filterwarnings("ignore", message="os.fork")  # JAX's, which knows not that it has no thread here yet
    gc.collect()
    gc.freeze()  # a collection in a fork would write to, and so copy, every page it looks at
    with socket.socket(fileno=descriptor) as connection:
        found = _forked(connection)
    if found is not None:
        _work(*found)


def _forked(connection: socket.socket) -> tuple[Told, Sequence[int]] | None:
    """In each worker, what it is told and its descriptors; in the warm process nothing, when it ends."""
    while True:
        told, descriptors, *_ = socket.recv_fds(connection, 1 << 18, 5)
        _reap()
        if not told:
            return None
        if os.fork() == 0:
            *own, speaking = descriptors
            waits, leads = os.pipe()
            if (child := os.fork()) == 0:
                os.close(speaking)
                os.close(waits)
                os.setsid()
                os.close(leads)
                return Told(*pickle.loads(told)), own
            os.close(leads)
            os.read(waits, 1)  # its end: the worker leads its group, which can be killed from now on
            os.close(waits)
            _look_after(child, own, speaking)
        for each in descriptors:
            os.close(each)


def _reap() -> None:
    """Those who have looked after a worker."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _look_after(child: int, own: Sequence[int], speaking: int) -> None:
    """Say how the worker ends, and reap it only after the tests have ended its group: until then its number is its own."""
    for each in own:
        os.close(each)
    with suppress(OSError), socket.socket(fileno=speaking) as connection:  # the tests may be gone, and with them the worker
        connection.send(str(child).encode())
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        connection.send(str(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status).encode())
        connection.recv(1)
        os.waitpid(child, 0)
    os._exit(0)


def _work(told: Told, own: Sequence[int]) -> None:
    """What `python -m workbench.engine.worker.worker_main` does."""
    import jax

    *standard, pipe = own
    for number, each in enumerate(standard):
        os.dup2(each, number)
        os.close(each)
    os.chdir(told.folder)
    os.environ.clear()
    os.environ.update(told.environment)
    jax.config.update("jax_num_cpu_devices", int(told.environment["JAX_NUM_CPU_DEVICES"]))
    if folder := told.environment.get(compiling.FOLDER):
        compiling.share_compiled(folder)
    worker_main.main(pipe, told.kind)


if __name__ == "__main__":
    main(int(sys.argv[1]))
