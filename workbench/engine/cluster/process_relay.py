"""Local process that stands for a process on a cluster: `python -m workbench.engine.cluster.process_relay ADDRESS
SOURCE MODULE DESCRIPTOR`.

Input on SOURCE, `stdin` or `descriptor`, is forwarded to `python -m MODULE DESCRIPTOR` on the cluster (further
arguments follow); output on that process's descriptor is written to the local one. The relay ends with it, with the
same return code and final standard error. A caller thus starts a process on a cluster by changing the command line.
Does not import JAX.
"""

import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

from workbench.core.child_process import end_by_connection, end_with_parent
from workbench.engine.cluster.ray_cluster import MOST_BYTES, RemoteProcess, describe_ray_error, join_cluster
from workbench.errors import WorkbenchError

CLUSTER = "WORKBENCH_CLUSTER"
"""Environment variable with the address of the cluster on which worker processes compile and search."""
SENT = ("JAX_", "XLA_", "TPU_")
"""Prefixes of the environment variables that are sent to a process on a cluster; others are machine-specific."""

RECONNECT_SECONDS = 5
"""Seconds that a cluster waits for a killed relay before it ends the relay's processes."""


def command_on_cluster(address: str, module: str, descriptor: int, *arguments: str, has_stdin: bool = False) -> list[str]:
    """Return the command line that runs a module on a cluster, connected by this descriptor."""
    source = "stdin" if has_stdin else "descriptor"
    return [sys.executable, "-P", "-m", "workbench.engine.cluster.process_relay", address, source, module, str(descriptor), *arguments]


def main(address: str, source: str, module: str, descriptor: str, *arguments: str) -> None:
    """Relay until the process on the cluster or the parent of this one has ended."""
    end_with_parent(0 if source == "stdin" else int(descriptor))
    os.environ.setdefault("RAY_CLIENT_RECONNECT_GRACE_PERIOD", str(RECONNECT_SECONDS))
    try:
        ray = join_cluster(address)
        environment = {name: text for name, text in os.environ.items() if name.startswith(SENT)}
        actor = ray.remote(num_cpus=1, max_concurrency=3)(RemoteProcess)
        process = actor.remote(module, arguments, environment, has_stdin=source == "stdin")
        source_descriptor = 0 if source == "stdin" else int(descriptor)
        threading.Thread(target=_send, args=(ray, process, source_descriptor), daemon=True).start()
        end_by_connection()  # the sending thread also ends the process on the cluster
        code, words = _receive(ray, process, int(descriptor))
    except WorkbenchError as error:
        code, words = 1, f"{error.message}\n".encode()
    except Exception as error:  # noqa: BLE001 - errors of Ray and of a lost connection
        code, words = 1, f"The process on the cluster at {address} was lost: {describe_ray_error(error)}.\n".encode()
    os.write(2, words)
    if code < 0:
        if -code != signal.SIGKILL:  # cannot be handled
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)  # without waiting for Ray's threads


def _send(ray: Any, process: Any, source: int) -> None:
    """Forward the input in chunks; its end ends both processes."""
    with suppress(OSError):  # the parent has ended before reading everything
        while content := os.read(source, MOST_BYTES):
            try:
                ray.get(process.write.remote(content))
            except Exception:  # noqa: BLE001 - `_receive` reports a lost connection
                return
    with suppress(Exception):
        ray.kill(process)
    os._exit(1)


def _receive(ray: Any, process: Any, descriptor: int) -> tuple[int, bytes]:
    while content := ray.get(process.read.remote()):
        while content:
            content = content[os.write(descriptor, content) :]
    ending: tuple[int, bytes] = ray.get(process.ending.remote())
    return ending


if __name__ == "__main__":
    main(*sys.argv[1:])
