"""A worker process before it has a job: its process group, its environment, the pipe on which it reports events, the file of its standard
error.

Starting Python and importing JAX takes a second or more, so one may be started in advance (`Standby`). It does one job, with the user's
modules as they are then, and ends: no state of one job leaks into the next.
"""

import atexit
import importlib.util
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from workbench.core.child_process import start_child
from workbench.core.import_path import python_path
from workbench.core.operating_system import after_fork, require_processes
from workbench.engine.cluster.process_relay import CLUSTER, command_on_cluster
from workbench.engine.worker.job_payload import WorkerJob
from workbench.errors import EngineError
from workbench.tracing.jax_backends import NO_TPU, lacks_tpu

_MAIN = "workbench.engine.worker.worker_main"
IDLE_LIMIT = 600.0  # seconds after which a process that waits for a job is ended


class WorkerProcess:
    """`python -m workbench.engine.worker.worker_main`, in this environment, and on the cluster that it names; with `kind` it imports in
    advance what such a job needs.

    Raises `EngineError` where the file of its standard error cannot be created.
    """

    def __init__(self, environment: Mapping[str, str], kind: str = "") -> None:
        require_processes("run, compile or search")
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
        after_fork(self._begin)

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


# A process that leads its own process group: what it forks (a data loader's workers, say) ends with it, and blocks nobody.

_CHUNK = 1 << 16  # bytes


class ProcessGroup:
    """Starts a process and ends its whole group: on `kill`, and as soon as the process has ended by itself.

    Processes that have left the group (a daemon with its own session) are not ended.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._process = self._start(command, **options)
        self._lock, self._reaped = threading.Lock(), threading.Event()
        self._ended, self._ending = os.pipe()  # the second one is closed when all processes have ended
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        return start_child(command, start_new_session=True, **options)

    @property
    def stdin(self) -> IO[bytes] | None:
        return self._process.stdin

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._reaped.is_set()

    def kill(self) -> None:
        """Kill it now, and what it has started. Nothing happens if it has ended."""
        with self._lock:
            if not self._reaped.is_set():  # before it is reaped no other group gets its number
                with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS reports the latter for one that is not reaped
                    os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> int:
        """The return code, once it has ended: negative for a signal."""
        self._reaped.wait()
        return self._process.returncode

    def lines(self, pipe: int) -> Iterator[bytes]:
        """Lines from the read end of a pipe that the process writes, until that is closed or the process has ended.

        End of file alone does not suffice: a forked process that lives on holds the pipe open. The last line may be incomplete.
        """
        rest = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            selector.register(self._ended, selectors.EVENT_READ)
            while pipe in (key.fd for key, _ in selector.select()):  # what it wrote before it ended is still read
                if not (chunk := os.read(pipe, _CHUNK)):
                    break
                rest += chunk
                if b"\n" in chunk:
                    *whole, last = bytes(rest).split(b"\n")
                    rest = bytearray(last)
                    yield from (line + b"\n" for line in whole)
        if rest:
            yield bytes(rest)

    def close(self) -> None:
        """End it, and close its pipes."""
        self.kill()
        self.wait()
        with suppress(BrokenPipeError):
            self._process.stdin.close() if self._process.stdin else None
        os.close(self._ended)

    def _watch(self) -> None:
        """Kill the group before its first process is reaped: afterwards its number may be another's."""
        with suppress(ChildProcessError):  # code in this process waits for all children
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13 can only reap
                self._process.wait()
        self.kill()
        with self._lock:
            self._process.wait()
            self._reaped.set()
        os.close(self._ending)


# The environment of a worker process: this one's, with as many virtual CPU devices as its job needs where there is no accelerator.

MAX_VIRTUAL_DEVICES = 64
"""The most virtual CPU devices of a worker: each costs threads, and a copy of whatever is replicated."""

ON_CLUSTER = ("compile", "search")
"""Kinds of jobs that need no devices, and are done on a Ray cluster where there is one."""

_FORCED_DEVICES = "--xla_force_host_platform_device_count"


def environment(job: WorkerJob) -> dict[str, Any]:
    """This process's environment, with virtual CPU devices for the job, or more of them if it asks for more, and what the job adds.

    Where there is an accelerator JAX prefers that, unless the job's own variables say otherwise.
    """
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(_FORCED_DEVICES)]
    named = {flag.partition("=")[0] for flag in flags}
    flags += [flag for flag in job.flags if flag.partition("=")[0] not in named]
    return {
        **os.environ,
        "XLA_FLAGS": " ".join(flags),
        "XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),  # the notebook may hold part of a GPU
        "JAX_NUM_CPU_DEVICES": str(max(min(job.devices, MAX_VIRTUAL_DEVICES), _asked_for())),
        "PYTHONPATH": python_path(),
        CLUSTER: os.environ.get(CLUSTER, "") if job.kind in ON_CLUSTER else "",
        **_quiet_tpu(),
        **job.environment,
    }


def _quiet_tpu() -> Mapping[str, str]:
    """Silence libtpu. Where it is installed without a TPU, JAX looks for one before it turns to other devices, and libtpu logs at length to
    standard error, where a worker's crash message is read; with these variables set it logs nothing."""
    if not lacks_tpu() or "TPU_ACCELERATOR_TYPE" in os.environ or importlib.util.find_spec("libtpu") is None:
        return {}
    return NO_TPU


def _asked_for() -> int:
    """The number of virtual CPU devices that this process's environment asks for."""
    forced = re.findall(rf"{_FORCED_DEVICES}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return max((int(number) for number in (*forced, os.environ.get("JAX_NUM_CPU_DEVICES", "")) if number.isdecimal()), default=0)
