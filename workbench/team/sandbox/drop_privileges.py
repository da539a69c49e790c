"""Set a sandboxed program's limits, drop its privileges and execute it: `python -I -S drop_privileges.py SETTINGS`.

It is run by path and imports nothing of the workbench. SETTINGS is JSON: `limits`, the `descriptors` that stay
open, the `user` to become (uid, gid, and whether other programs share the user; `null` for the server's own), and the
`command`. Without bubblewrap (`alone`) it also installs the system call filter (`filter`, a descriptor), and stays as
the parent of the command's processes, so that none outlives it.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

_SECCOMP_FILTER, _NO_NEW_PRIVILEGES, _SECCOMP, _DEATH_SIGNAL, _SUBREAPER, _DROP_FROM_BOUNDS = 2, 38, 22, 1, 36, 24  # linux/prctl.h
_AMBIENT, _CLEAR_ALL, _CAPABILITY_VERSION = 47, 4, 0x20080522  # linux/prctl.h, linux/capability.h
_PATIENCE = 5.0  # seconds to end the command's processes


def main(settings: dict[str, Any]) -> None:
    """Execute the command; does not return."""
    os.umask(0o022)
    _close_all_but({0, 1, 2, *settings["descriptors"], *([settings["filter"]] if settings["alone"] and settings["filter"] >= 0 else [])})
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # killed first when memory runs out
    if settings["alone"]:
        _stay_as_parent(settings["parent"], settings["user"])
    for name, limit in settings["limits"].items():
        _limit(getattr(resource, name), *limit)
    if settings["user"] is not None:
        _become(*settings["user"][:2])
    if settings["alone"]:
        _drop_rights()
        _control("prctl", _DEATH_SIGNAL, signal.SIGKILL)
        _install_filter(settings["filter"])
    try:
        os.execvpe(settings["command"][0], settings["command"], settings["environment"])  # noqa: S606 - the purpose of this script
    except OSError as error:
        sys.exit(f"{settings['command'][0]} cannot be started: {error.strerror}.")


def _close_all_but(kept: set[int]) -> None:
    for entry in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):  # noqa: PTH112, PTH208 - descriptors
        if int(entry) not in kept:
            with suppress(OSError):  # the descriptor of the listing itself
                os.close(int(entry))


def _limit(which: int, soft: int, hard: int) -> None:
    _, ceiling = resource.getrlimit(which)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _control(call: str, *numbers: int) -> None:
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None, use_errno=True), call)(*(ctypes.c_ulong(number) for number in numbers))


def _drop_rights() -> None:
    """Drop all capabilities: those of root, and those that let a server which is not root change users."""
    for capability in range(64):
        _control("prctl", _DROP_FROM_BOUNDS, capability, 0, 0, 0)
    _control("prctl", _AMBIENT, _CLEAR_ALL, 0, 0, 0)
    if sys.platform == "linux":
        header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
        ctypes.CDLL(None).capset(header, none)


def _install_filter(descriptor: int) -> None:
    """Install the system call filter. Raises `OSError` if the kernel refuses it; a negative descriptor means no filter."""
    _control("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if descriptor < 0 or sys.platform != "linux":
        return
    with os.fdopen(descriptor, "rb") as file:
        program = file.read()

    class FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    filter_program = FilterProgram(len(program) // 8, program)
    if ctypes.CDLL(None, use_errno=True).prctl(_SECCOMP, _SECCOMP_FILTER, ctypes.byref(filter_program), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refuses the system call filter")


def _stay_as_parent(parent: int, user: list[int] | None) -> None:
    """Fork; the parent waits for the child, ends all remaining processes, and exits with its status."""
    _control("prctl", _SUBREAPER, 1, 0, 0, 0)
    _control("prctl", _DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.setsid()
        return

    def end(_signal: int, _frame: FrameType | None) -> None:
        _end_rest(user)
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    for descriptor in (0, 1, 2):
        os.close(descriptor)  # so that pipes close when the command's processes end
    status = 0
    while True:
        ended, wait_status = os.wait()
        if ended == child:
            status = os.waitstatus_to_exitcode(wait_status)
            break
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_rest(user)
    os._exit(status if status >= 0 else 128 - status)


def _end_rest(user: list[int] | None) -> None:
    """Kill and reap until none is left; an exclusive user's processes all at once, faster than they fork."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if user is None:
            _kill(_descendants(os.getpid()))
        else:
            _kill_as(*user)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _kill_as(uid: int, gid: int, is_shared: int) -> None:
    """Kill as that user, because a server that can change users may lack permission to kill others' processes."""
    targets = _descendants(os.getpid()) if is_shared else [-1]
    if (killer := os.fork()) == 0:
        with suppress(OSError):
            _become(uid, gid)
            _kill(targets)
        os._exit(0)
    os.waitpid(killer, 0)


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
    descendants, generation = [], [pid]
    while generation:
        generation = [child for child, parent in parents.items() if parent in generation]
        descendants += generation
    return descendants


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
