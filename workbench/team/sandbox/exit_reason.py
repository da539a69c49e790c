"""Describe how a sandboxed process ended."""

import signal
from dataclasses import dataclass
from enum import StrEnum

from workbench.core.public_error_text import signal_name
from workbench.team.sandbox.resource_limits import ResourceLimits
from workbench.units import format_bytes


class EndKind(StrEnum):
    FINISHED = "finished"
    FAILED = "failed"
    MEMORY = "memory"
    PROCESSOR = "processor"
    DEADLINE = "deadline"
    OUTPUT = "output"
    TASKS = "tasks"
    FILE_SIZE = "file size"
    REFUSED_CALL = "refused call"
    STOPPED = "stopped by the server"
    KILLED = "killed"
    NOT_STARTED = "not started"


@dataclass(frozen=True)
class SandboxEnding:
    """The end of a process. `status` is the exit code, negative for a signal, as in `subprocess`."""

    kind: EndKind
    status: int
    sentence: str

    @property
    def is_good(self) -> bool:
        return self.kind is EndKind.FINISHED

    def __str__(self) -> str:
        return self.sentence

    @property
    def fate(self) -> str:
        """The end as the rest of a sentence, without a full stop."""
        return self.sentence.removeprefix("It ").rstrip(".")


@dataclass(frozen=True)
class ExitObservations:
    """Observations of an ended process; `processor_seconds` is the maximum, `last_line` of standard error."""

    status: int
    ended_by: EndKind | None = None
    processor_seconds: float = 0.0
    last_line: str = ""
    memory_ran_out: bool = False  # whether Linux recently killed a process for lack of memory


_MEMORY_WORDS = ("MemoryError", "std::bad_alloc", "Cannot allocate memory", "out of memory", "Out of memory", "RESOURCE_EXHAUSTED")
_TASK_WORDS = ("Resource temporarily unavailable", "can't start new thread", "BlockingIOError")


def describe_ending(signs: ExitObservations, limits: ResourceLimits) -> SandboxEnding:
    kind = signs.ended_by or _kind_of(signs, limits)
    return SandboxEnding(kind, signs.status, _sentence(kind, signs, limits))


def _kind_of(signs: ExitObservations, limits: ResourceLimits) -> EndKind:
    if signs.status == 0:
        return EndKind.FINISHED
    if signs.status > 0:
        return _kind_of_failure(signs.last_line)
    if signs.status == -signal.SIGKILL and limits.processor_seconds and signs.processor_seconds >= limits.processor_seconds - 0.5:
        return EndKind.PROCESSOR
    if signs.status == -signal.SIGKILL and signs.memory_ran_out:
        return EndKind.MEMORY
    kinds = {-signal.SIGXCPU: EndKind.PROCESSOR, -signal.SIGSYS: EndKind.REFUSED_CALL, -signal.SIGXFSZ: EndKind.FILE_SIZE}
    by_words = _kind_of_failure(signs.last_line)
    return kinds.get(signs.status, EndKind.KILLED if by_words is EndKind.FAILED else by_words)


def _kind_of_failure(last_line: str) -> EndKind:
    if last_line.startswith("bwrap: "):
        return EndKind.NOT_STARTED
    if any(word in last_line for word in _MEMORY_WORDS):
        return EndKind.MEMORY
    return EndKind.TASKS if any(word in last_line for word in _TASK_WORDS) else EndKind.FAILED


def _sentence(kind: EndKind, signs: ExitObservations, limits: ResourceLimits) -> str:
    last = f": {signs.last_line.rstrip('.')}" if signs.last_line else ""
    sentences = {
        EndKind.FINISHED: "It ended by itself.",
        EndKind.FAILED: f"It ended with status {signs.status}{last}.",
        EndKind.MEMORY: f"It ran out of memory; its limit is {format_bytes(limits.memory)}.",
        EndKind.PROCESSOR: f"It exceeded its CPU time of {limits.processor_seconds} s.",
        EndKind.DEADLINE: f"It exceeded its time limit of {limits.deadline:g} s." if limits.deadline else "It was ended.",
        EndKind.OUTPUT: f"It exceeded its output limit of {format_bytes(limits.output)}.",
        EndKind.TASKS: f"It exceeded its limit of {limits.tasks} processes and threads.",
        EndKind.FILE_SIZE: f"It exceeded its file size limit of {format_bytes(limits.file_size)}.",
        EndKind.REFUSED_CALL: "It made a forbidden system call, such as tracing or mounting.",
        EndKind.STOPPED: "It was ended by the server.",
        EndKind.KILLED: f"It was ended by {signal_name(-signs.status)}{last}.",
        EndKind.NOT_STARTED: f"It did not start: its sandbox could not be made{last}.",
    }
    return sentences[kind]
