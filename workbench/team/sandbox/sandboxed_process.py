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

from workbench.core.oom_kills import OomKills
from workbench.team.sandbox.ending import EndingSigns, EndKind, SandboxEnding, describe_ending
from workbench.team.sandbox.kept_output import KeptOutput
from workbench.team.sandbox.limits import ResourceLimits
from workbench.team.sandbox.process_usage import ProcessUsage, usage_below

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
