"""A worker process before it has a job: the process, the pipe on which it reports events, the file of its standard error.

Starting Python and importing JAX takes a second or more, so one may be started in advance (`Standby`). It does one job, with the user's
modules as they are then, and ends: no state of one job leaks into the next.
"""

import atexit
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import IO, Any

from workbench.engine.cluster.relay import CLUSTER, command_on_cluster
from workbench.engine.worker.process_group import ProcessGroup
from workbench.errors import EngineError

_MAIN = "workbench.engine.worker.worker_main"
IDLE_LIMIT = 600.0  # seconds after which a process that waits for a job is ended


class WorkerProcess:
    """`python -m workbench.engine.worker.worker_main`, in this environment, and on the cluster that it names; with `kind` it imports in
    advance what such a job needs.

    Raises `EngineError` where the file of its standard error cannot be created.
    """

    def __init__(self, environment: Mapping[str, str], kind: str = "") -> None:
        self.stderr = file_for_last_words()
        self.pipe, write_end = os.pipe()
        self.group = ProcessGroup(
            _command(environment.get(CLUSTER, ""), write_end, kind),
            stdin=subprocess.PIPE,
            stderr=self.stderr,
            pass_fds=(write_end,),
            env=environment,
        )
        os.close(write_end)

    def close(self) -> None:
        """End it without a job."""
        self.group.close()
        os.close(self.pipe)
        self.stderr.close()


def _command(cluster: str, descriptor: int, kind: str) -> list[str]:
    """Here, or on a cluster; relative paths mean the same there as here."""
    if cluster:
        return command_on_cluster(cluster, _MAIN, descriptor, kind, has_stdin=True)
    return [sys.executable, "-P", "-m", _MAIN, str(descriptor), kind]


class Standby:
    """At most one worker process that waits for a job of its kind, in one environment and folder. A forked child does not inherit it."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting: WorkerProcess | None = None
        self._key: tuple[Any, ...] = ()
        self._timer: threading.Timer | None = None

    def prepare(self, environment: Mapping[str, str], kind: str) -> None:
        """Start a process if none waits that would do; one that would not is ended."""
        key = _key(environment, kind)
        with self._lock:
            if self._waiting is not None and self._key == key and not self._waiting.group.has_ended:
                return
            self._let_go()
            self._waiting, self._key = WorkerProcess(environment, kind), key
            self._timer = threading.Timer(IDLE_LIMIT, self.close)
            self._timer.daemon = True
            self._timer.start()

    def take(self, environment: Mapping[str, str], kind: str) -> WorkerProcess | None:
        """The waiting process, if it suits such a job; it then belongs to the caller."""
        with self._lock:
            waiting = self._waiting
            if waiting is None or self._key != _key(environment, kind) or waiting.group.has_ended:
                return None
            self._waiting = None
            if self._timer:
                self._timer.cancel()
            return waiting

    def close(self) -> None:
        """End the waiting process, if there is one."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        waiting, self._waiting = self._waiting, None
        if self._timer:
            self._timer.cancel()
        if waiting is not None:
            waiting.close()


def _key(environment: Mapping[str, str], kind: str) -> tuple[Any, ...]:
    return kind, os.getcwd(), tuple(sorted(environment.items()))  # noqa: PTH109


STANDBY = Standby()
"""This process's standby worker. Nothing waits until it is requested (`engine.prepare_compile`)."""
atexit.register(STANDBY.close)
SEARCH_STANDBY = Standby()
"""The same for searches, so that a board may have both waiting."""
atexit.register(SEARCH_STANDBY.close)


def standby_for(kind: str) -> Standby:
    """Where a process for a job of this kind may wait."""
    return SEARCH_STANDBY if kind == "search" else STANDBY


def file_for_last_words() -> IO[bytes]:
    """A file for standard error, in memory where no file can be written; raises `EngineError` where that fails, too."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        if hasattr(os, "memfd_create"):
            return os.fdopen(os.memfd_create("last words"), "w+b")
        raise EngineError(
            f"A worker process needs a temporary file, and none can be written: {error.strerror or error}.",
            ["make room on the disk", "set TMPDIR to a folder in which you may write"],
        ) from None
