"""Address of a Ray cluster, and joining it. The only module that imports Ray, except for the engine of team jobs."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.child_process import start_child
from workbench.core.installation import install_command
from workbench.core.public_error_text import last_line, strip_folders
from workbench.errors import EngineError

LOCAL = "local"
"""Address of a cluster that is started on this machine and ends with its starter."""
HERE = "auto"
"""Address of the cluster that this machine belongs to."""
PATIENCE = 10.0  # timeout for connecting, in seconds
WAYS_TO_JOIN = ("check the address, ray://HOST:10001 as a rule", "start one on this machine, cluster=local", "run without a cluster")


def join_cluster(address: str, cpus: int | None = None, ways_out: Sequence[str] = WAYS_TO_JOIN) -> Any:
    """Join the cluster at `ray://HOST:PORT`, `auto` or `local`, which gets `cpus` CPUs; `ray.shutdown()` leaves it.

    Raises `EngineError` if Ray is not installed or no cluster answers.
    """
    ray = _import_ray()
    verify_cluster(address, ways_out)
    options = {"num_cpus": cpus, "include_dashboard": False} if address == LOCAL else {"address": address}
    try:
        with warnings.catch_warnings():  # JAX warns of forks, but Ray's processes exec immediately
            warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
            ray.init(log_to_driver=False, logging_level="error", **options)
    except Exception as error:  # any error is reported
        if address == LOCAL:
            raise EngineError(f"No Ray cluster starts on this machine: {describe_ray_error(error)}.", ways_out[2:]) from error
        raise EngineError(f"The cluster at {address} cannot be joined: {describe_ray_error(error)}.", ways_out) from error
    return ray


def verify_cluster(address: str, ways_out: Sequence[str] = WAYS_TO_JOIN) -> None:
    """Raises `EngineError` for an invalid address, or one without a listener, for which Ray would wait 30 s."""
    if address not in (LOCAL, HERE) and not _listens(_read_address(address, ways_out)):
        raise EngineError(f"No Ray cluster answers at {address}.", ways_out)


def verify_shared_cluster(address: str) -> None:
    """Like `verify_cluster`, for a cluster that several processes join; refuses `local`, which ends with its process."""
    if address == LOCAL:
        ways = ("start one here with `ray start --head`, and use `auto`", *WAYS_TO_JOIN[::2])
        raise EngineError("Cluster `local` supports one process, but several are needed.", ways)
    verify_cluster(address)
    if importlib.util.find_spec("ray") is None:
        raise _no_ray_error()


def describe_ray_error(error: Exception) -> str:
    """Describe an actor's failure: the last exception in Ray's traceback, or else the first line of Ray's message."""
    name, text = type(error).__name__, str(error)
    if name.startswith("RayTaskError"):
        return strip_folders(last_line(text)).rstrip(".")
    line = next((candidate.strip() for candidate in text.splitlines() if candidate.strip()), "")
    return f"{name}: {strip_folders(line[:200])}".rstrip(".")


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise _no_ray_error() from None
    return ray


def _no_ray_error() -> EngineError:
    return EngineError("A cluster needs Ray, which is not installed.", [install_command("ray")])


def _read_address(address: str, ways_out: Sequence[str]) -> tuple[str, int]:
    """Return host and port. Other forms are refused, because Ray ends the process if they lead to no cluster."""
    match = re.fullmatch(r"ray://(?P<host>\[[^\]]+\]|[^:/\[\]]+):(?P<port>\d{1,5})", address)
    if match is None:
        raise EngineError(f"`{address}` is not an address of a cluster; it should be `ray://HOST:PORT`, `auto` or `local`.", ways_out)
    return match["host"].strip("[]"), int(match["port"])


def _listens(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, timeout=PATIENCE).close()
    except (OSError, OverflowError):  # no listener, or an invalid port
        return False
    return True


# A process of this package on any machine of a cluster: the actor that starts it and forwards its data.

MOST_BYTES = 1 << 20  # bytes forwarded at a time
MAX_STDERR_BYTES = 1 << 16  # last bytes of standard error


class RemoteProcess:
    """`python -m MODULE DESCRIPTOR ARGUMENTS`, whose output on the descriptor `read` returns.

    Input comes on its standard input or, without one, also on the descriptor. It ends with the actor, which closes its
    input.
    """

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str], *, has_stdin: bool) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the actor
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = start_child(
                [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
                stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
                stderr=self._words,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **environment},
                start_new_session=True,
            )

    def write(self, content: bytes) -> None:
        """Write all bytes; ignored if the process has ended (`ending` reports how)."""
        try:
            if self._process.stdin is None:
                self._socket.sendall(content)
            else:
                self._process.stdin.write(content)
                self._process.stdin.flush()
        except OSError:
            pass

    def read(self) -> bytes:
        """Return the next output; empty once the process has ended."""
        try:
            return self._socket.recv(MOST_BYTES)
        except OSError:
            return b""

    def ending(self) -> tuple[int, bytes]:
        """Return its return code, negative for a signal, and the end of its standard error."""
        code = self._process.wait()
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(size - MAX_STDERR_BYTES, 0))
        return code, self._words.read()
