"""A worker process before it has a job: process group, environment, event pipe, and standard error file.

Starting Python and importing JAX takes a second or more, so a process may be started in advance (`Standby`). It does
one job, with the user's modules at that time, and ends, so that no state leaks between jobs.
"""

import atexit
import importlib.util
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from workbench.core.child_process import file_for_last_words, start_child
from workbench.core.import_path import python_path
from workbench.core.jax_installation import NO_TPU, has_no_tpu
from workbench.core.operating_system import after_fork, require_processes
from workbench.engine.cluster.process_relay import CLUSTER, command_on_cluster
from workbench.engine.worker.job_payload import WorkerJob

_MAIN = "workbench.engine.worker.worker_main"
IDLE_LIMIT = 600.0  # seconds after which a standby process is ended


class WorkerProcess:
    """`python -m workbench.engine.worker.worker_main` in this environment, on its cluster if it names one.

    `kind` imports a job's modules in advance. Raises `EngineError` if the standard error file cannot be created.
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
        self.group.close()
        os.close(self.pipe)
        self.stderr.close()


def _command(cluster: str, descriptor: int, kind: str) -> list[str]:
    """Return the local command line or that on a cluster, where relative paths mean the same."""
    if cluster:
        return command_on_cluster(cluster, _MAIN, descriptor, kind, has_stdin=True)
    return [sys.executable, "-P", "-m", _MAIN, str(descriptor), kind]


class Standby:
    """At most one worker process that waits for a job of its kind; forked children do not inherit it."""

    def __init__(self) -> None:
        self._begin()
        after_fork(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting: WorkerProcess | None = None
        self._key: tuple[Any, ...] = ()
        self._timer: threading.Timer | None = None

    def prepare(self, environment: Mapping[str, str], kind: str) -> None:
        """Start a process unless a suitable one waits; an unsuitable one is ended."""
        key = _key(environment, kind)
        with self._lock:
            if self._waiting is not None and self._key == key and not self._waiting.group.has_ended:
                return
            self._end_waiting()
            self._waiting, self._key = WorkerProcess(environment, kind), key
            self._timer = threading.Timer(IDLE_LIMIT, self.close)
            self._timer.daemon = True
            self._timer.start()

    def take(self, environment: Mapping[str, str], kind: str) -> WorkerProcess | None:
        """Return the waiting process if it suits such a job; the caller then owns it."""
        with self._lock:
            waiting = self._waiting
            if waiting is None or self._key != _key(environment, kind) or waiting.group.has_ended:
                return None
            self._waiting = None
            if self._timer:
                self._timer.cancel()
            return waiting

    def close(self) -> None:
        with self._lock:
            self._end_waiting()

    def _end_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if self._timer:
            self._timer.cancel()
        if waiting is not None:
            waiting.close()


def _key(environment: Mapping[str, str], kind: str) -> tuple[Any, ...]:
    return kind, os.getcwd(), tuple(sorted(environment.items()))  # noqa: PTH109


STANDBY = Standby()
"""This process's standby worker, started on request (`engine.prepare_compile`)."""
atexit.register(STANDBY.close)
SEARCH_STANDBY = Standby()
"""Standby worker for searches, separate so that a board may have both."""
atexit.register(SEARCH_STANDBY.close)


def standby_for(kind: str) -> Standby:
    """Return the standby worker for this kind of job."""
    return SEARCH_STANDBY if kind == "search" else STANDBY


# A process that leads its own process group: processes that it forks, such as a data loader's workers, end with it.

_CHUNK = 1 << 16  # bytes


class ProcessGroup:
    """Starts a process and ends its whole group: on `kill`, and once the process has ended by itself.

    Processes that have left the group (a daemon with its own session) are not ended.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._process = self._start(command, **options)
        self._lock, self._reaped = threading.Lock(), threading.Event()
        self._ended, self._ending = os.pipe()  # the second end is closed when all processes have ended
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
        """Kill the whole group now. Does nothing if it has ended."""
        with self._lock:
            if not self._reaped.is_set():  # until it is reaped, no other group gets its number
                with suppress(ProcessLookupError, PermissionError):  # no process is left; macOS reports the latter before it is reaped
                    os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end and return the return code, negative for a signal."""
        self._reaped.wait()
        return self._process.returncode

    def lines(self, pipe: int) -> Iterator[bytes]:
        """Yield lines from the read end of the process's pipe, until it is closed or the process has ended.

        End of file alone does not suffice, because a surviving forked process holds the pipe open. The last line may be
        incomplete.
        """
        rest = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            selector.register(self._ended, selectors.EVENT_READ)
            while pipe in (key.fd for key, _ in selector.select()):  # output written before its end is still read
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
        self.kill()
        self.wait()
        with suppress(BrokenPipeError):
            self._process.stdin.close() if self._process.stdin else None
        os.close(self._ended)

    def _watch(self) -> None:
        """Kill the group before its first process is reaped, since its number may be reused afterwards."""
        with suppress(ChildProcessError):  # other code in this process waits for all children
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13 can only reap
                self._process.wait()
        self.kill()
        with self._lock:
            self._process.wait()
            self._reaped.set()
        os.close(self._ending)


# Environment of a worker process: this process's, with the virtual CPU devices that its job needs without an accelerator.

MAX_VIRTUAL_DEVICES = 64
"""Maximal number of virtual CPU devices of a worker: each costs threads, and a copy of all replicated data."""

ON_CLUSTER = ("compile", "search")
"""Kinds of jobs that need no devices, and run on a Ray cluster if there is one."""

_FORCED_DEVICES = "--xla_force_host_platform_device_count"


def environment(job: WorkerJob) -> dict[str, Any]:
    """Return this process's environment with enough virtual CPU devices for the job, and the job's variables.

    JAX prefers an accelerator if there is one, unless the job's variables say otherwise.
    """
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(_FORCED_DEVICES)]
    named = {flag.partition("=")[0] for flag in flags}
    flags += [flag for flag in job.flags if flag.partition("=")[0] not in named]
    return {
        **os.environ,
        "XLA_FLAGS": " ".join(flags),
        "XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),  # the notebook may use part of a GPU
        "JAX_NUM_CPU_DEVICES": str(max(min(job.devices, MAX_VIRTUAL_DEVICES), _asked_for())),
        "PYTHONPATH": python_path(),
        CLUSTER: os.environ.get(CLUSTER, "") if job.kind in ON_CLUSTER else "",
        **_quiet_tpu(),
        **job.environment,
    }


def _quiet_tpu() -> Mapping[str, str]:
    """Silence libtpu, whose long logs without a TPU would hide a worker's crash message."""
    if not has_no_tpu() or "TPU_ACCELERATOR_TYPE" in os.environ or importlib.util.find_spec("libtpu") is None:
        return {}
    return NO_TPU


def _asked_for() -> int:
    forced = re.findall(rf"{_FORCED_DEVICES}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return max((int(number) for number in (*forced, os.environ.get("JAX_NUM_CPU_DEVICES", "")) if number.isdecimal()), default=0)
