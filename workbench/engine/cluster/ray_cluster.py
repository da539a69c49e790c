"""A Ray cluster: its address, and joining it. The one file that imports Ray, but for the engine of a team's jobs."""

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
"""The address of a cluster that is started on this machine, and ends with who started it."""
HERE = "auto"
"""The address of the cluster that this machine belongs to."""
PATIENCE = 10.0  # seconds for the address to take a connection
WAYS_TO_JOIN = ("check the address, ray://HOST:10001 as a rule", "start one on this machine, cluster=local", "run without a cluster")


def join_cluster(address: str, cpus: int | None = None, ways_out: Sequence[str] = WAYS_TO_JOIN) -> Any:
    """Ray, joined to the cluster at `ray://HOST:PORT`, `auto` or `local`, which then has so many `cpus`; `ray.shutdown()` leaves it.

    Raises `EngineError` where Ray is not installed, or no cluster answers.
    """
    ray = _import_ray()
    verify_cluster(address, ways_out)
    options = {"num_cpus": cpus, "include_dashboard": False} if address == LOCAL else {"address": address}
    try:
        with warnings.catch_warnings():  # JAX warns of forks; Ray's own processes are other programs at once
            warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
            ray.init(log_to_driver=False, logging_level="error", **options)
    except Exception as error:  # whatever it raises is said
        if address == LOCAL:
            raise EngineError(f"No Ray cluster starts on this machine: {describe_ray_error(error)}.", ways_out[2:]) from error
        raise EngineError(f"The cluster at {address} cannot be joined: {describe_ray_error(error)}.", ways_out) from error
    return ray


def verify_cluster(address: str, ways_out: Sequence[str] = WAYS_TO_JOIN) -> None:
    """Raises `EngineError` for what is no address of a cluster, and where nobody listens: Ray waits there for half a minute."""
    if address not in (LOCAL, HERE) and not _listens(_read_address(address, ways_out)):
        raise EngineError(f"No Ray cluster answers at {address}.", ways_out)


def verify_shared_cluster(address: str) -> None:
    """The same for a cluster that several processes join. Raises `EngineError` also for `local`, which ends with the process that asked for
    it, and where Ray is not installed."""
    if address == LOCAL:
        ways = ("start one here with `ray start --head`, and give `auto`", *WAYS_TO_JOIN[::2])
        raise EngineError("Cluster `local` supports one process, but several are needed.", ways)
    verify_cluster(address)
    if importlib.util.find_spec("ray") is None:
        raise _no_ray_error()


def describe_ray_error(error: Exception) -> str:
    """What an actor died of: the exception at the end of the traceback that Ray hands on, or else Ray's own first line."""
    name, text = type(error).__name__, str(error)
    if name.startswith("RayTaskError"):
        return strip_folders(last_line(text)).rstrip(".")
    line = next((each.strip() for each in text.splitlines() if each.strip()), "")
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
    """Host and port. Ray's other forms are refused: where they lead to no cluster, it ends the process."""
    found = re.fullmatch(r"ray://(?P<host>\[[^\]]+\]|[^:/\[\]]+):(?P<port>\d{1,5})", address)
    if found is None:
        raise EngineError(f"`{address}` is not an address of a cluster; it should be `ray://HOST:PORT`, `auto` or `local`.", ways_out)
    return found["host"].strip("[]"), int(found["port"])


def _listens(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, timeout=PATIENCE).close()
    except (OSError, OverflowError):  # nobody there, or no such port
        return False
    return True


# A process of this package on whichever machine of a cluster has room: the actor that starts it there, and passes on its bytes.

MOST_BYTES = 1 << 20  # that are passed on at a time
MOST_WORDS = 1 << 16  # bytes of standard error, the last ones


class RemoteProcess:
    """`python -m MODULE DESCRIPTOR ARGUMENTS`, which writes to the descriptor what `read` returns. What is written to it comes on its
    standard input, or, without one, on the descriptor too. It ends with the actor: its standard input or its connection is closed then.
    """

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str], *, has_stdin: bool) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - it ends with the actor
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
        """Write all of it. Nothing happens where the process has ended: `ending` says how."""
        try:
            if self._process.stdin is None:
                self._socket.sendall(content)
            else:
                self._process.stdin.write(content)
                self._process.stdin.flush()
        except OSError:
            pass

    def read(self) -> bytes:
        """What it wrote next; nothing once it has ended."""
        try:
            return self._socket.recv(MOST_BYTES)
        except OSError:
            return b""

    def ending(self) -> tuple[int, bytes]:
        """Its return code, negative for a signal, and the end of its standard error."""
        code = self._process.wait()
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(size - MOST_WORDS, 0))
        return code, self._words.read()
