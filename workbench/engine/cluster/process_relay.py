"""A process of this machine that stands for one on a cluster:
`python -m workbench.engine.cluster.process_relay ADDRESS SOURCE MODULE DESCRIPTOR`.

What comes on its SOURCE, `stdin` or `descriptor`, goes to `python -m MODULE DESCRIPTOR` there (further arguments follow); what that writes
to its descriptor is written to the descriptor here; and it ends as that ends, with the same return code and the same last words on standard
error. So whoever starts a process on this machine starts one on a cluster with another command line. It imports no JAX.
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
"""The environment variable with the address of the cluster on which worker processes compile and search."""
SENT = ("JAX_", "XLA_", "TPU_")
"""How the variables begin that a process on a cluster gets from here: what stands in others is of this machine."""

AWAITED = 5
"""Seconds for which a cluster waits for a relay that was killed, before it ends what that had started."""


def command_on_cluster(address: str, module: str, descriptor: int, *arguments: str, has_stdin: bool = False) -> list[str]:
    """The command line that runs a module on a cluster, connected by this descriptor."""
    source = "stdin" if has_stdin else "descriptor"
    return [sys.executable, "-P", "-m", "workbench.engine.cluster.process_relay", address, source, module, str(descriptor), *arguments]


def main(address: str, source: str, module: str, descriptor: str, *arguments: str) -> None:
    """Relay until the process on the cluster has ended, or whoever started this one has."""
    end_with_parent(0 if source == "stdin" else int(descriptor))
    os.environ.setdefault("RAY_CLIENT_RECONNECT_GRACE_PERIOD", str(AWAITED))
    try:
        ray = join_cluster(address)
        environment = {name: text for name, text in os.environ.items() if name.startswith(SENT)}
        actor = ray.remote(num_cpus=1, max_concurrency=3)(RemoteProcess)
        process = actor.remote(module, arguments, environment, has_stdin=source == "stdin")
        place = 0 if source == "stdin" else int(descriptor)
        threading.Thread(target=_send, args=(ray, process, place), daemon=True).start()
        end_by_connection()  # that thread ends the process on the cluster, too
        code, words = _receive(ray, process, int(descriptor))
    except WorkbenchError as error:
        code, words = 1, f"{error.message}\n".encode()
    except Exception as error:  # noqa: BLE001 - Ray's own errors, and those of a connection that is lost
        code, words = 1, f"The process on the cluster at {address} is lost with {describe_ray_error(error)}.\n".encode()
    os.write(2, words)
    if code < 0:
        if -code != signal.SIGKILL:  # whose handling nobody can set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)  # Ray's threads are not waited for


def _send(ray: Any, process: Any, source: int) -> None:
    """What is written here, one chunk after the other; the end of it ends both processes."""
    with suppress(OSError):  # whoever started this process is gone before it has read all
        while content := os.read(source, MOST_BYTES):
            try:
                ray.get(process.write.remote(content))
            except Exception:  # noqa: BLE001 - a connection to the cluster that is lost is noticed by who receives
                return
    with suppress(Exception):
        ray.kill(process)
    os._exit(1)


def _receive(ray: Any, process: Any, descriptor: int) -> tuple[int, bytes]:
    """Write what comes from there, and return how it ended."""
    while content := ray.get(process.read.remote()):
        while content:
            content = content[os.write(descriptor, content) :]
    found: tuple[int, bytes] = ray.get(process.ending.remote())
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
