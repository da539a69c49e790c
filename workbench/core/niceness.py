"""How far a process lets others go first."""

import os
import sys
from contextlib import suppress
from pathlib import Path

_MOST = 19
_OF_SESSION = Path("/proc/self/autogroup")


def raise_niceness(by: int = 0) -> None:
    """Add to the niceness of this process, and give it to its session where this process leads one.

    Linux may share the processor among sessions first, and heed niceness only within one (`sched(7)`, "The autogroup feature"): a process
    in a session of its own would else take as much as all that go first together. Where the system does not allow it, nothing happens.
    """
    if not hasattr(os, "nice"):
        return
    with suppress(OSError):
        niceness = os.nice(by)
        if os.getsid(0) == os.getpid():
            _OF_SESSION.write_text(str(niceness), encoding="ascii")


def run_when_idle() -> None:
    """Have the threads of this process, and what they start, run only where nothing else in its session wants the processor: Linux's
    `SCHED_IDLE`, elsewhere the highest niceness. There is no way back."""
    if sys.platform != "linux":
        raise_niceness(_MOST)
        return
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
