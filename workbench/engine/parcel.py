"""What a worker process is given: the plan with its functions, JAX's settings, and an environment with enough devices."""

import os
import pickle
import re
import sys
from dataclasses import replace
from typing import Any

import cloudpickle
import jax
import numpy as np

from workbench.errors import EngineError
from workbench.plan import Plan

MAX_VIRTUAL_DEVICES = 64
"""Virtual CPU devices a worker is given at most: each costs threads, and a copy of whatever is replicated."""

_CONFIG = (  # settings that change what a traced program means or which of its values are random
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_default_matmul_precision",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
)
_FORCED_DEVICES = "--xla_force_host_platform_device_count"


def pack(plan: Plan, steps: int, *, check: bool) -> bytes:
    """A pickle of plain values around a cloudpickle of the plan; raises `EngineError` if a function of the plan cannot be sent."""
    config = {name: getattr(jax.config, name) for name in _CONFIG}
    try:
        body = cloudpickle.dumps(_on_host(plan))
    except Exception as error:  # cloudpickle raises whatever the object does
        raise EngineError(
            f"{plan.name} cannot be sent to a worker process: {type(error).__name__}: {error}",
            [
                "let its functions refer to arrays and plain values only, not to open files, locks or devices",
                "run `execute(plan)` in this process",
            ],
        ) from error
    return pickle.dumps({"plan": body, "steps": steps, "check": check, "jax_config": config})


def _on_host(plan: Plan) -> Plan:
    """The plan with its given arrays in NumPy's form: JAX's own would come back whole on the worker's first device."""
    step = plan.program.step
    given = tuple(
        np.asarray(each) if isinstance(each, jax.Array) and not jax.dtypes.issubdtype(each.dtype, jax.dtypes.prng_key) else each
        for each in step.given
    )
    return plan.updated(program=replace(plan.program, step=replace(step, given=given)))


def environment(devices: int) -> dict[str, Any]:
    """This process's environment, with virtual CPU devices for a mesh of `devices`, or more of them if it asks for more.

    Where there is an accelerator JAX prefers that.
    """
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(_FORCED_DEVICES)]
    return {
        **os.environ,
        "XLA_FLAGS": " ".join(flags),
        "XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),  # the notebook may hold part of a GPU
        "JAX_NUM_CPU_DEVICES": str(max(min(devices, MAX_VIRTUAL_DEVICES), _asked_for())),
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),  # noqa: PTH109 - what an empty entry means to Python
    }


def _asked_for() -> int:
    """The virtual CPU devices this process's environment names."""
    forced = re.findall(rf"{_FORCED_DEVICES}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return max((int(number) for number in (*forced, os.environ.get("JAX_NUM_CPU_DEVICES", "")) if number.isdecimal()), default=0)
