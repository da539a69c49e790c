"""Controls which platforms JAX may start in this process."""

import importlib.util
import os
from contextlib import suppress

import jax

from workbench.core.jax_installation import NO_TPU, has_no_tpu


def force_cpu_backend() -> None:
    """Restrict JAX in this process to the CPU; without effect once JAX has started.

    The worker process that runs the plan needs the accelerators: JAX starts its default backend when it lowers a
    function, and a GPU backend takes most of its memory.
    """
    with suppress(RuntimeError):
        jax.config.update("jax_platforms", "cpu")


def silence_libtpu() -> None:
    """Keep libtpu without a TPU from querying Google's metadata server and printing errors in every notebook."""
    if has_no_tpu() and "TPU_ACCELERATOR_TYPE" not in os.environ and importlib.util.find_spec("libtpu") is not None:
        os.environ.update(NO_TPU)
