"""The installed JAX and the attached TPUs, without importing JAX: the versions that the tests pass with, and a warning
for others.

`jax.extend.core` and `jax.extend.mlir` change between versions, and a new compiler makes other collectives.
`.ci/versions` runs the tests with any version.
"""

import functools
import warnings
from importlib.metadata import version
from pathlib import Path

TESTED_JAX = ("0.10.2", "0.11.0", "0.11.1", "0.12.0.1")
"""Oldest first; 0.10.2 is the newest for Python 3.11. From 0.12 on, Shardy plans reshards of uneven dimensions as
gathers of the whole, and XLA sends less. 0.12 was tested in parts: `docs/installation.md`.
"""

MISPLACES_GROUPS = ("0.10.2",)
"""Versions known to misplace the shards of feature groups (`analysis/diagnose_operators.py`)."""

LOSES_POOLED = ("0.10.2", "0.11.1")
"""Versions known to lose gradients of overlapping max pooling at the edges of shards
(`analysis/diagnose_operators.py`).
"""


@functools.cache
def installed_jax() -> str:
    return version("jax")


SHARES_PADDINGS = tuple(map(int, installed_jax().split(".")[:2])) < (0, 12)
"""Whether XLA pads a value once for two operations that pad it with different numbers
(`analysis/diagnose_operators.py`).
"""


class UntestedJaxWarning(UserWarning):
    """The installed JAX is not one of `TESTED_JAX`."""


def untested_jax() -> str | None:
    """A one-sentence warning if the installed JAX is untested, else `None`."""
    if installed_jax() in TESTED_JAX:
        return None
    return (
        f"JAX {installed_jax()} is not among the versions that the workbench is tested with ({', '.join(TESTED_JAX)}): "
        "figures may differ from its compiler, and plans may fail."
    )


@functools.cache
def warn_if_untested() -> None:
    """Warn of an untested JAX, once per process."""
    if (message := untested_jax()) is not None:
        warnings.warn(message, UntestedJaxWarning, stacklevel=2)


NO_TPU = {  # without these, libtpu queries Google's metadata server
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


def has_no_tpu() -> bool:
    """Return whether no TPU is attached to this machine, by its device files."""
    return not any(Path("/dev").glob("accel*")) and not any(Path("/dev/vfio").glob("[0-9]*"))
