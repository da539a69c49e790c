"""Wrap the differences between Linux, macOS and Windows, with a fallback for each.

Planning works on all three; worker processes inherit open files, which needs Linux or macOS.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.errors import EngineError

CAN_FORK = sys.platform == "linux" and os.environ.get("WORKBENCH_START") != "spawn"
"""True if a process with JAX and Bokeh may fork; macOS kills such children at their first system library call."""

CAN_START = hasattr(os, "killpg")
"""True if worker processes can be started; they need inherited files and process groups, which Windows lacks."""

_POLL_SECONDS = 0.05  # polling interval for signals on systems without `sigtimedwait`


def after_fork(callback: Callable[[], Any]) -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=callback)


def require_processes(purpose: str) -> None:
    """Raise `EngineError` if worker processes cannot be started."""
    if not CAN_START:
        raise EngineError(
            f"On Windows the workbench cannot {purpose}: that needs a worker process, which Linux and macOS can start.",
            ["use the Windows Subsystem for Linux, WSL 2", 'use planned figures: `plan.report("planned")`, `--planned`'],
        )


def limit_data(bytes_: int) -> None:
    """Limit this process's data segment to `bytes_`, or its parent's limit, where the system supports it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = bytes_ if hard == resource.RLIM_INFINITY else min(bytes_, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, soft))


def set_alarm(seconds: int) -> None:
    """End this process after `seconds`; 0 cancels the alarm. Windows has no alarm, so only the parent ends the process."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def wait_for_input(descriptor: int, seconds: float) -> bool:
    """Return whether a pipe has data or has ended within `seconds`; always true on Windows, which cannot wait."""
    if sys.platform == "win32":
        return True
    return bool(select.select([descriptor], [], [], seconds)[0])


def can_read(descriptor: int) -> bool:
    """Return whether a descriptor is open for reading and writing; false on Windows, where this is unknown."""
    try:
        import fcntl
    except ImportError:
        return False
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR


def try_lock(file: int) -> bool:
    """Lock an open file; `False` if held elsewhere. Always succeeds without `flock` (Windows, some network drives)."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True


def has_ended(process: int) -> bool:
    """Return whether a process has ended; on Linux this includes zombies."""
    if Path("/proc/self/stat").exists():
        with suppress(OSError):
            return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "ZX"
        return True
    if sys.platform == "win32":
        return False  # signal 0 would end the process, so assume that it is running
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's
        return False
    return False


def wait_for_signal(signals: Sequence[signal.Signals], seconds: float) -> signal.Signals | None:
    """Wait at most `seconds` for one of these blocked signals; macOS has no `sigtimedwait`."""
    if hasattr(signal, "sigtimedwait"):
        info = signal.sigtimedwait(signals, seconds)
        return None if info is None else signal.Signals(info.si_signo)
    deadline = time.monotonic() + seconds
    while not (pending := signal.sigpending() & set(signals)):
        if (remaining := deadline - time.monotonic()) <= 0:
            return None
        time.sleep(min(remaining, _POLL_SECONDS))
    return signal.Signals(signal.sigwait(pending))


def terminal_signals() -> tuple[int, ...]:
    """Return the signals that end a process on request, as far as this system has them."""
    names = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
    return tuple(int(getattr(signal, name)) for name in names if hasattr(signal, name))
