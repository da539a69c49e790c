"""A sandboxed process, monitored until it ends; none of its children outlives it."""

import math
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from workbench.core.memory_limits import OomKills
from workbench.team.sandbox.exit_reason import EndKind, ExitObservations, SandboxEnding, describe_ending
from workbench.team.sandbox.resource_limits import ResourceLimits
from workbench.units import format_bytes

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


class ProcessUsage(NamedTuple):
    """Total resident bytes without file pages, maximum CPU seconds of any process, and number of processes."""

    memory: int = 0
    processor_seconds: float = 0.0
    processes: int = 0


def usage_below(pid: int) -> ProcessUsage:
    memory, seconds, count, pending = 0, 0.0, 0, [pid]
    while pending:
        folder = Path(f"/proc/{pending.pop()}")
        with suppress(OSError, ValueError, IndexError):
            resident, shared = map(int, (folder / "statm").read_text(encoding="ascii").split()[1:3])
            user, system = map(int, (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[11:13])
            memory += (resident - shared) * _PAGE
            seconds = max(seconds, (user + system) / _TICK)
            count += 1
            pending += _children(folder)
    return ProcessUsage(memory, seconds, count)


def _children(folder: Path) -> list[int]:
    pids: list[int] = []
    for task in (folder / "task").iterdir():
        with suppress(OSError):
            pids += map(int, (task / "children").read_text(encoding="ascii").split())
    return pids


def tasks_of_user(uid: int) -> int:
    """Return a user's number of threads, which the kernel counts against the process limit."""
    count = 0
    for folder in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        with suppress(OSError, ValueError):
            if folder.name.isdecimal() and folder.stat().st_uid == uid:
                count += len(os.listdir(folder / "task"))  # noqa: PTH208 - names alone
    return count


class TruncatedOutput:
    r"""The beginning and end of a byte stream, and its total length.

    >>> output = TruncatedOutput(8)
    >>> output.add(b"beginning, middle"), output.add(b" and end")
    (None, None)
    >>> output.text()
    'begi\n[17 B left out]\n end'
    """

    def __init__(self, limit: int) -> None:
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        free = self._head_limit - len(self._head)
        self._head += data[:free]
        self._tail += data[free:]
        if len(self._tail) > self._tail_limit:
            del self._tail[: len(self._tail) - self._tail_limit]

    @property
    def left_out(self) -> int:
        return self.total - len(self._head) - len(self._tail)

    @property
    def content(self) -> bytes:
        return bytes(self._head + self._tail)

    def text(self) -> str:
        if not self.left_out:
            return self.content.decode(errors="replace")
        note = f"\n[{format_bytes(self.left_out)} left out]\n"
        return self._head.decode(errors="replace") + note + self._tail.decode(errors="replace")

    def last_line(self) -> str:
        lines = [line for line in (self._tail or self._head).decode(errors="replace").splitlines() if line.strip()]
        return "".join(character if character.isprintable() else " " for character in lines[-1].strip()[:200]) if lines else ""


_BETWEEN = 0.5  # seconds between usage measurements
_PATIENCE = 6.0  # seconds for the parent process to end all others
_CHUNK = 1 << 16


class SandboxedProcess:
    """A process whose thread enforces what the kernel does not: deadline, total memory, output length."""

    def __init__(self, process: subprocess.Popen[bytes], limits: ResourceLimits, alone: bool, when_ended: Callable[[], None]) -> None:
        self.pid = process.pid
        self.limits = limits
        self.printed, self.errors = TruncatedOutput(limits.kept_output), TruncatedOutput(limits.kept_output)
        self.usage = ProcessUsage()
        self.ending: SandboxEnding | None = None
        self._process, self._alone, self._when_ended = process, alone, when_ended
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._ended_by: EndKind | None = None
        self._longest, self._forced = 0.0, math.inf
        self._oom_kills = OomKills()
        self._killing = threading.Lock()
        threading.Thread(target=self._watch, daemon=True, name=f"sandbox {self.pid}").start()

    def poll(self) -> SandboxEnding | None:
        return self.ending if self._ended.is_set() else None

    def wait(self, patience: float | None = None) -> SandboxEnding | None:
        self._ended.wait(patience)
        return self.poll()

    def kill(self, reason: EndKind = EndKind.STOPPED) -> None:
        """End the process and its children, without waiting."""
        with self._killing:
            if self._ended_by is None and not self._ended.is_set():
                self._ended_by = reason
                self._signal()

    def _signal(self) -> None:
        """Kill bwrap, which ends its namespace, or ask the parent process (`alone`) to end the others."""
        self._process.send_signal(signal.SIGTERM if self._alone else signal.SIGKILL)
        if self._alone:
            self._process.send_signal(signal.SIGCONT)
            self._forced = time.monotonic() + _PATIENCE

    def _watch(self) -> None:
        try:
            status = self._follow()
        finally:
            for stream in (self._process.stdout, self._process.stderr):
                if stream:
                    stream.close()
        signs = ExitObservations(status, self._ended_by, self._longest, self.errors.last_line(), self._oom_kills.is_recent())
        self.ending = describe_ending(signs, self.limits)
        self._ended.set()
        self._when_ended()

    def _follow(self) -> int:
        measured = 0.0
        with selectors.DefaultSelector() as selector:
            for stream, output in ((self._process.stdout, self.printed), (self._process.stderr, self.errors)):
                if stream:
                    selector.register(stream, selectors.EVENT_READ, output)
            while (status := self._process.poll()) is None:
                self._read(selector, self._pause())
                self._hold_deadline()
                if time.monotonic() - measured >= _BETWEEN:
                    measured = time.monotonic()
                    self._measure()
            deadline = time.monotonic() + 1  # remaining output; pipes that stay open longer are abandoned
            while selector.get_map() and time.monotonic() < deadline:
                self._read(selector, 0.1)
        return 128 - status if status - 128 in signal.valid_signals() else status

    def _pause(self) -> float:
        remaining = self.limits.deadline + self._began - time.monotonic() if self.limits.deadline else _BETWEEN
        return max(0.01, min(remaining, _BETWEEN))

    def _read(self, selector: selectors.BaseSelector, patience: float) -> None:
        if not selector.get_map():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
            return
        for key, _ in selector.select(patience):
            data = os.read(key.fd, _CHUNK)
            if not data:
                selector.unregister(key.fileobj)
            key.data.add(data)
        if self.printed.total + self.errors.total > self.limits.output:
            self.kill(EndKind.OUTPUT)

    def _measure(self) -> None:
        self.usage = usage_below(self.pid)
        self._oom_kills.look()
        self._longest = max(self._longest, self.usage.processor_seconds)
        if self.usage.memory > self.limits.memory:
            self.kill(EndKind.MEMORY)
        if self.usage.processes > self.limits.tasks:  # the kernel does not limit root's tasks
            self.kill(EndKind.TASKS)

    def _hold_deadline(self) -> None:
        now = time.monotonic()
        if self.limits.deadline and now - self._began >= self.limits.deadline:
            self.kill(EndKind.DEADLINE)
        if now >= self._forced:
            self._process.kill()
