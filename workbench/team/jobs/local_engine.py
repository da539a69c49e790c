"""The engine protocol, and the engine of this machine, whose jobs outlive the server."""

import os
import signal
import socket
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from workbench.errors import explain_os_errors
from workbench.team.jobs.job_folder import base_environment, has_argument, python_path, read_started, start_mark
from workbench.team.jobs.job_spec import JobError, JobSpec

# An engine takes a spec and a folder, and returns its own ID of the job.
#
# All other state is in the job's folder (`job_folder`); an engine only tells whether it still knows the job. Calls come from one
# thread at a time. All methods raise `JobError` on failure.


class EngineUnavailableError(JobError):
    """The engine does not answer; the request can be repeated."""


class NativeState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    GONE = "gone"


class JobEngine(Protocol):
    """An engine that runs jobs.

    `patience`: seconds that the folder may lag behind on a network disk; `interval`: seconds between status queries;
    `python`: interpreter on the job's machines, `None` for the server's; `is_here`: whether jobs run on this machine,
    even with several hosts.
    """

    name: str
    is_here: bool
    python: str | None
    patience: float
    interval: float

    def submit(self, spec: JobSpec, folder: Path) -> str:
        """Submit the job of a folder and return the engine's ID of it."""

    def recover(self, spec: JobSpec, folder: Path) -> str | None:
        """Return the ID of a job whose server stopped before storing it, or `None` if it was not submitted."""

    def state(self, native: str) -> NativeState:
        """Return the state of a job."""

    def cancel(self, native: str) -> None:
        """End a job; does nothing if it has ended."""


NICENESS = 5
"""Niceness of jobs, so that the server and other processes have priority."""


class LocalEngine:
    """Runs jobs as processes on this machine, including those of several hosts, to try a plan out."""

    name = "here"
    is_here = True
    python: str | None = None
    patience = 0.0
    interval = 0.2

    def submit(self, spec: JobSpec, folder: Path) -> str:
        environment = {**base_environment(), "PYTHONPATH": python_path()}
        if spec.process_count > 1:
            environment["JAX_COORDINATOR_ADDRESS"] = f"127.0.0.1:{spec.port or free_port()}"
        command = ["nice", "-n", str(NICENESS), *supervisor_command(folder)]
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
        log = (os.POSIX_SPAWN_OPEN, 2, str(folder / "supervisor"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with explain_os_errors("The job does not start on this machine", JobError, "try again", "end other jobs"):
            pid = os.posix_spawnp("nice", command, environment, file_actions=[*quiet, log], setsid=True)
        return f"{pid}:{start_mark(pid)}"

    def recover(self, spec: JobSpec, folder: Path) -> str | None:  # noqa: ARG002 - part of the protocol
        started = read_started(folder)
        pid, mark = started.get("pid"), started.get("mark")
        return f"{pid}:{mark}" if type(pid) is int and isinstance(mark, str) and has_argument(pid, str(folder)) else None

    def state(self, native: str) -> NativeState:
        return process_state(native)

    def cancel(self, native: str) -> None:
        end_process(native)


def process_state(native: str) -> NativeState:
    number, _, mark = native.partition(":")
    with suppress(ChildProcessError):  # started by a previous server
        os.waitpid(int(number), os.WNOHANG)
    return NativeState.RUNNING if mark and start_mark(int(number)) == mark else NativeState.GONE


def end_process(native: str) -> None:
    if process_state(native) is NativeState.RUNNING:
        with suppress(ProcessLookupError):
            os.kill(int(native.partition(":")[0]), signal.SIGTERM)


def supervisor_command(folder: Path, python: str | None = None) -> list[str]:
    return [python or sys.executable, "-m", "workbench.team.jobs.job_supervisor", str(folder)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
