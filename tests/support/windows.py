"""A program as it runs where Python lacks what Windows lacks: `python tests/support/windows.py SCRIPT` takes away modules and functions
that `os`, `signal`, `select` and `socket` have on other systems, and runs the script.

Libraries are imported before, as they choose by the system's name what they use.
"""

import importlib
import os
import runpy
import select
import signal
import socket
import sys

LIBRARIES = (
    *("jax", "jax.extend.mlir", "jax.extend.backend", "jax.experimental.serialize_executable", "optax", "cloudpickle", "jsonschema"),
    *("rich.console", "ortools.sat.python.cp_model", "google.protobuf", "panel", "bokeh.embed", "bokeh.models", "anywidget", "ipywidgets"),
    *("tornado.web", "wasmtime", "psutil", "graphviz", "flax.nnx", "equinox", "msgspec", "multiprocessing.connection", "uuid", "tempfile"),
)
MODULES = ("resource", "fcntl", "pwd", "grp", "termios", "pty", "tty")
NAMES = {
    os: "fork forkpty register_at_fork posix_spawn killpg getpgrp getpgid setpgid getsid setsid getuid geteuid getgid getegid getgroups"
    " uname waitid wait3 wait4 WNOWAIT WEXITED P_PID nice sched_getaffinity sched_setscheduler SCHED_IDLE sched_param memfd_create"
    " pread pwrite fchmod fchown chown mkfifo sysconf getloadavg openpty statvfs O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_CLOEXEC",
    signal: "SIGKILL SIGALRM SIGCHLD SIGHUP SIGUSR1 SIGUSR2 SIGPIPE SIGQUIT SIGCONT SIGSTOP alarm setitimer sigtimedwait sigwait"
    " sigpending sigwaitinfo pthread_sigmask pthread_kill SIG_BLOCK SIG_UNBLOCK ITIMER_REAL siginterrupt",
    select: "poll epoll",
    socket: "AF_UNIX recv_fds send_fds",
}

if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    for module in MODULES:
        sys.modules[module] = None  # type: ignore[assignment]  # an import raises `ModuleNotFoundError`
    for owner, names in NAMES.items():
        for name in names.split():
            if hasattr(owner, name):
                delattr(owner, name)
    runpy.run_path(sys.argv[1])
