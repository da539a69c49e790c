"""Which devices this process keeps its hands off."""

from contextlib import suppress

import jax


def leave_accelerators_alone() -> None:
    """Keep JAX in this process on the CPU: planning needs no more, and the worker process that runs the plan needs the accelerators whole.

    JAX starts its default backend when it lowers a function, and a GPU's backend takes most of its memory. Without effect once JAX is up.
    """
    with suppress(RuntimeError):
        jax.config.update("jax_platforms", "cpu")
