"""What differs between Linux, macOS and Windows, each with what happens where the system does not have it.

Plans are made on all three. Boards, runs and searches start other processes and hand them open files, which needs Linux or macOS.
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
"""Whether a process that has imported JAX and Bokeh may fork: macOS ends such children at their first call of its own libraries."""

CAN_START = hasattr(os, "killpg")
"""Whether worker processes can be started: they inherit open files and lead process groups, which Windows does not have."""

_POLL_SECONDS = 0.05  # between two looks for a signal, where the system cannot wait for one with a time limit


def after_fork(callback: Callable[[], Any]) -> None:
    """Call this in every fork of this process; nothing to do where there are no forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=callback)


def require_processes(purpose: str) -> None:
    """Raise `EngineError` where worker processes cannot be started."""
    if not CAN_START:
        raise EngineError(
            f"On Windows the workbench cannot {purpose}: that needs a worker process, which Linux and macOS can start.",
            ["use the Windows Subsystem for Linux, WSL 2", 'keep to the planned figures: `plan.report("planned")`, `--planned`'],
        )


def limit_data(bytes_: int) -> None:
    """Have the kernel refuse this process more data than this, or than its parent allowed; without such limits nothing happens."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = bytes_ if hard == resource.RLIM_INFINITY else min(bytes_, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, soft))


def set_alarm(seconds: int) -> None:
    """End this process in so many seconds, or not at all for 0; Windows has no alarm, and the parent alone ends it."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def wait_for_input(descriptor: int, seconds: float) -> bool:
    """Whether a pipe has something to read, or has ended, within so many seconds; Windows can only wait in the read itself."""
    if sys.platform == "win32":
        return True
    return bool(select.select([descriptor], [], [], seconds)[0])


def can_read(descriptor: int) -> bool:
    """Whether an open file was opened for reading and writing; not known on Windows."""
    try:
        import fcntl
    except ImportError:
        return False
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR


def try_lock(file: int) -> bool:
    """Lock an open file; `False` where another holds it. Without `flock` (Windows, some network drives) it always succeeds."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True


def has_ended(process: int) -> bool:
    """Whether a process has ended; on Linux also one that nobody has waited for yet."""
    if Path("/proc/self/stat").exists():
        with suppress(OSError):
            return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "ZX"
        return True
    if sys.platform == "win32":
        return False  # signal 0 would end it; whoever asks keeps what may still be in use
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's
        return False
    return False


def wait_for_signal(signals: Sequence[signal.Signals], seconds: float) -> signal.Signals | None:
    """Wait for one of these signals, which are blocked, at most this long; macOS has no `sigtimedwait`."""
    if hasattr(signal, "sigtimedwait"):
        heard = signal.sigtimedwait(signals, seconds)
        return None if heard is None else signal.Signals(heard.si_signo)
    deadline = time.monotonic() + seconds
    while not (pending := signal.sigpending() & set(signals)):
        if (left := deadline - time.monotonic()) <= 0:
            return None
        time.sleep(min(left, _POLL_SECONDS))
    return signal.Signals(signal.sigwait(pending))


def terminal_signals() -> tuple[int, ...]:
    """The signals by which people and systems end a process, as far as this system has them."""
    names = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
    return tuple(int(getattr(signal, name)) for name in names if hasattr(signal, name))
