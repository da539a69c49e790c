"""A process in a sandbox: it is watched until it ends, and nothing that it started outlives it."""

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
from workbench.team.sandbox.exit_reason import EndingSigns, EndKind, SandboxEnding, describe_ending
from workbench.team.sandbox.resource_limits import ResourceLimits
from workbench.units import format_bytes

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


class ProcessUsage(NamedTuple):
    """Bytes that are resident and not of a file, of all together; processor seconds of the one that has used most; how many they are."""

    memory: int = 0
    processor_seconds: float = 0.0
    processes: int = 0


def usage_below(pid: int) -> ProcessUsage:
    """Of a process and its descendants."""
    memory, seconds, seen, waiting = 0, 0.0, 0, [pid]
    while waiting:
        folder = Path(f"/proc/{waiting.pop()}")
        with suppress(OSError, ValueError, IndexError):
            resident, shared = map(int, (folder / "statm").read_text(encoding="ascii").split()[1:3])
            user, system = map(int, (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[11:13])
            memory += (resident - shared) * _PAGE
            seconds = max(seconds, (user + system) / _TICK)
            seen += 1
            waiting += _children(folder)
    return ProcessUsage(memory, seconds, seen)


def _children(folder: Path) -> list[int]:
    """Those that any thread of a process started."""
    found: list[int] = []
    for each in (folder / "task").iterdir():
        with suppress(OSError):
            found += map(int, (each / "children").read_text(encoding="ascii").split())
    return found


def tasks_of_user(uid: int) -> int:
    """How many threads a user has, where the kernel counts them against a limit of processes."""
    found = 0
    for each in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        with suppress(OSError, ValueError):
            if each.name.isdecimal() and each.stat().st_uid == uid:
                found += len(os.listdir(each / "task"))  # noqa: PTH208 - names alone
    return found


class KeptOutput:
    """The beginning and the end of a stream of bytes, and how long it was.

    >>> output = KeptOutput(8)
    >>> output.add(b"beginning, middle"), output.add(b" and end")
    (None, None)
    >>> output.text()
    'begi\\n[17 B left out]\\n end'
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
        """Bytes that were not kept."""
        return self.total - len(self._head) - len(self._tail)

    @property
    def content(self) -> bytes:
        """What was kept; everything where nothing was `left_out`."""
        return bytes(self._head + self._tail)

    def text(self) -> str:
        """For people, with a note where something is left out."""
        if not self.left_out:
            return self.content.decode(errors="replace")
        note = f"\n[{format_bytes(self.left_out)} left out]\n"
        return self._head.decode(errors="replace") + note + self._tail.decode(errors="replace")

    def last_line(self) -> str:
        """The last line that is not empty, of at most 200 characters."""
        lines = [each for each in (self._tail or self._head).decode(errors="replace").splitlines() if each.strip()]
        return "".join(each if each.isprintable() else " " for each in lines[-1].strip()[:200]) if lines else ""


_BETWEEN = 0.5  # seconds between two measurements of what it uses
_PATIENCE = 6.0  # seconds for the process that waits for all others to end them
_CHUNK = 1 << 16


class SandboxedProcess:
    """Like `subprocess.Popen`, with an ending in words. A thread of its own reads what is printed and holds the limits that the kernel does
    not: the deadline, the memory of all processes together, the length of the output."""

    def __init__(self, process: subprocess.Popen[bytes], limits: ResourceLimits, alone: bool, when_ended: Callable[[], None]) -> None:
        self.pid = process.pid
        self.limits = limits
        self.printed, self.errors = KeptOutput(limits.kept_output), KeptOutput(limits.kept_output)
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
        """How it ended, or `None` while it runs."""
        return self.ending if self._ended.is_set() else None

    def wait(self, patience: float | None = None) -> SandboxEnding | None:
        """How it ended; `None` if it still runs after so many seconds."""
        self._ended.wait(patience)
        return self.poll()

    def kill(self, reason: EndKind = EndKind.STOPPED) -> None:
        """End it and everything that it started; returns at once."""
        with self._killing:
            if self._ended_by is None and not self._ended.is_set():
                self._ended_by = reason
                self._signal()

    def _signal(self) -> None:
        """bwrap's end is that of its namespace; without it (`alone`) the parent of all is asked to end them, and killed if it does not."""
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
        signs = EndingSigns(status, self._ended_by, self._longest, self.errors.last_line(), self._oom_kills.is_recent())
        self.ending = describe_ending(signs, self.limits)
        self._ended.set()
        self._when_ended()

    def _follow(self) -> int:
        """Read and measure until the end; its status, negative for a signal."""
        measured = 0.0
        with selectors.DefaultSelector() as selector:
            for stream, kept in ((self._process.stdout, self.printed), (self._process.stderr, self.errors)):
                if stream:
                    selector.register(stream, selectors.EVENT_READ, kept)
            while (status := self._process.poll()) is None:
                self._read(selector, self._pause())
                self._hold_deadline()
                if time.monotonic() - measured >= _BETWEEN:
                    measured = time.monotonic()
                    self._measure()
            until = time.monotonic() + 1  # the rest of what it printed; whoever still holds the pipe after that is not waited for
            while selector.get_map() and time.monotonic() < until:
                self._read(selector, 0.1)
        return 128 - status if status - 128 in signal.valid_signals() else status

    def _pause(self) -> float:
        left = self.limits.deadline + self._began - time.monotonic() if self.limits.deadline else _BETWEEN
        return max(0.01, min(left, _BETWEEN))

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
        if self.usage.processes > self.limits.tasks:  # the kernel does not count those of root
            self.kill(EndKind.TASKS)

    def _hold_deadline(self) -> None:
        now = time.monotonic()
        if self.limits.deadline and now - self._began >= self.limits.deadline:
            self.kill(EndKind.DEADLINE)
        if now >= self._forced:
            self._process.kill()
