"""What runs jobs: an engine takes a spec and a folder, and gives back the id that the job has there.

Everything else about a job is read from its folder (`job_folder`); an engine is asked whether it still knows the job. It is asked by one
thread at a time. Raises `JobError` wherever it does not do as asked.
"""

from enum import StrEnum
from pathlib import Path
from typing import Protocol

from workbench.team.jobs.spec import JobError, JobSpec


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
