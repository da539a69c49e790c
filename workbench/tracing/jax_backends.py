"""Which platforms JAX may start in this process."""

import importlib.util
import os
from contextlib import suppress
from pathlib import Path

import jax

NO_TPU = {  # libtpu asks Google's metadata server where it is, unless this is set
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


def force_cpu_backend() -> None:
    """Keep JAX in this process on the CPU: planning needs no more, and the worker process that runs the plan needs the accelerators whole.

    JAX starts its default backend when it lowers a function, and a GPU's backend takes most of its memory. Without effect once JAX is up.
    """
    with suppress(RuntimeError):
        jax.config.update("jax_platforms", "cpu")


def silence_libtpu() -> None:
    """Where libtpu is installed to compile for TPUs and none is attached, keep it from asking Google's metadata server where it is.

    JAX looks for a TPU when it starts, and libtpu would complain at length on standard error, in every notebook.
    """
    if lacks_tpu() and "TPU_ACCELERATOR_TYPE" not in os.environ and importlib.util.find_spec("libtpu") is not None:
        os.environ.update(NO_TPU)


def lacks_tpu() -> bool:
    """Whether no TPU is attached to this machine, as far as its device files show."""
    return not any(Path("/dev").glob("accel*")) and not any(Path("/dev/vfio").glob("[0-9]*"))
