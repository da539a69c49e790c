"""The versions of JAX that the tests have passed with, and a warning under any other.

`jax.extend.core` and `jax.extend.mlir` are not stable from one version to the next, and a new compiler makes other collectives.
`.ci/versions` runs the tests with any of them.
"""

import functools
import warnings

import jax

TESTED_JAX = ("0.10.2", "0.11.0", "0.11.1")
"""Oldest first; 0.10.2 is the newest for Python 3.11. From 0.12 on XLA reshards some uneven dimensions otherwise than is predicted."""

MISPLACES_GROUPS = ("0.10.2",)
"""The versions that are known to misplace the shards of feature groups (`analysis/diagnose_operators.py`)."""

LOSES_POOLED = ("0.10.2", "0.11.1")
"""The versions that are known to lose gradients of overlapping max pooling at the edges of shards (likewise)."""


def installed_jax() -> str:
    """The version of JAX in this process."""
    return jax.__version__


class UntestedJaxWarning(UserWarning):
    """The installed JAX is not one of `TESTED_JAX`."""


def untested_jax() -> str | None:
    """One sentence if the installed JAX is not one that the workbench is tested with."""
    if jax.__version__ in TESTED_JAX:
        return None
    return (
        f"JAX {jax.__version__} is not among the versions that the workbench is tested with ({', '.join(TESTED_JAX)}): "
        "figures may differ from its compiler, and plans may fail."
    )


@functools.cache
def warn_if_untested() -> None:
    """Warn of an untested JAX, once in a process."""
    if (message := untested_jax()) is not None:
        warnings.warn(message, UntestedJaxWarning, stacklevel=2)
