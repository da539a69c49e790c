"""What runs jobs, as the dispatcher sees it, and the engine of this machine: a job is a supervisor and its processes, which outlive the
server and are known again by number and start."""

import os
import signal
import socket
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from workbench.team.jobs.job_folder import base_environment, has_argument, python_path, read_started, start_mark
from workbench.team.jobs.job_spec import JobError, JobSpec

# What runs jobs: an engine takes a spec and a folder, and gives back the id that the job has there.
#
# Everything else about a job is read from its folder (`job_folder`); an engine is asked whether it still knows the job. It is asked by one
# thread at a time. Raises `JobError` wherever it does not do as asked.


class EngineUnavailableError(JobError):
    """An engine that does not answer, or not yet: the same may be asked again."""


class NativeState(StrEnum):
    """What an engine says of a job: it has not begun, it is running, it is no more."""

    WAITING = "waiting"
    RUNNING = "running"
    GONE = "gone"


class JobEngine(Protocol):
    """An engine. `patience`: seconds that the folder may be behind, where it lies on the disk of another machine; `interval`: seconds
    between two questions about a job; `python`: of the machines it runs on, `None` where it is the server's own; `is_here`: whether that is
    this machine, whatever number of hosts a job has."""

    name: str
    is_here: bool
    python: str | None
    patience: float
    interval: float

    def submit(self, spec: JobSpec, folder: Path) -> str:
        """Start the job of a folder, or put it into the engine's own queue; returns its id there."""

    def recover(self, spec: JobSpec, folder: Path) -> str | None:
        """The id of a job that was submitted by a server which ended before it had the id; `None` if it was not submitted."""

    def state(self, native: str) -> NativeState:
        """Whether it is still there."""

    def cancel(self, native: str) -> None:
        """End it. Nothing happens if it has ended."""


NICENESS = 5
"""What else runs on the machine, the server itself, goes first."""


class LocalEngine:
    """Starts jobs as processes of this machine. Several hosts are several processes here: good for trying a plan out."""

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
        try:
            pid = os.posix_spawnp("nice", command, environment, file_actions=[*quiet, log], setsid=True)
        except OSError as error:
            raise JobError(f"The job does not start on this machine: {error.strerror}.", ["try again", "end other jobs"]) from None
        return f"{pid}:{start_mark(pid)}"

    def recover(self, spec: JobSpec, folder: Path) -> str | None:  # noqa: ARG002 - of the family
        started = read_started(folder)
        pid, mark = started.get("pid"), started.get("mark")
        return f"{pid}:{mark}" if type(pid) is int and isinstance(mark, str) and has_argument(pid, str(folder)) else None

    def state(self, native: str) -> NativeState:
        return process_state(native)

    def cancel(self, native: str) -> None:
        end_process(native)


def process_state(native: str) -> NativeState:
    """Of a process of this machine, which is known by its number and its start."""
    number, _, mark = native.partition(":")
    with suppress(ChildProcessError):  # of a server before this one
        os.waitpid(int(number), os.WNOHANG)
    return NativeState.RUNNING if mark and start_mark(int(number)) == mark else NativeState.GONE


def end_process(native: str) -> None:
    """Have such a process end, if it runs."""
    if process_state(native) is NativeState.RUNNING:
        with suppress(ProcessLookupError):
            os.kill(int(native.partition(":")[0]), signal.SIGTERM)


def supervisor_command(folder: Path, python: str | None = None) -> list[str]:
    """The command line that any engine starts for a job."""
    return [python or sys.executable, "-m", "workbench.team.jobs.job_supervisor", str(folder)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
