"""What a worker process is given: a job with the plan and its functions, JAX's settings, and an environment with enough devices."""

import importlib.util
import os
import pickle
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
import jax
import numpy as np

from workbench.errors import EngineError
from workbench.plan import Plan
from workbench.tracing.platform import NO_TPU, lacks_tpu

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


@dataclass(frozen=True)
class Job:
    """What a worker does with a plan.

    - `kind`: `run` or `compile`, one of `worker.WORK`; `noun`: what a person calls it, in messages;
    - `options`: keyword arguments of the function that does it; `result`: what its result is called in the last event;
    - `environment`: variables set besides this process's own.
    """

    kind: str
    noun: str
    plan: Plan
    options: Mapping[str, Any]
    result: str
    environment: Mapping[str, str] = field(default_factory=dict)


def pack(job: Job) -> bytes:
    """A pickle of plain values around a cloudpickle of plan and options; raises `EngineError` if a function of the plan cannot be sent."""
    plan = job.plan
    config = {name: getattr(jax.config, name) for name in _CONFIG}
    try:
        body = cloudpickle.dumps((_on_host(plan), dict(job.options)))
    except Exception as error:  # cloudpickle raises whatever the object does
        raise EngineError(
            f"{plan.name} cannot be sent to a worker process: {type(error).__name__}: {error}",
            [
                "let its functions refer to arrays and plain values only, not to open files, locks or devices",
                f"call `{'execute' if job.kind == 'run' else 'compile_here'}(plan)` in this process",
            ],
        ) from error
    return pickle.dumps({"kind": job.kind, "jax_config": config, "body": body})


def _on_host(plan: Plan) -> Plan:
    """The plan with its given arrays in NumPy's form: JAX's own would come back whole on the worker's first device."""
    step = plan.program.step
    given = tuple(
        np.asarray(each) if isinstance(each, jax.Array) and not jax.dtypes.issubdtype(each.dtype, jax.dtypes.prng_key) else each
        for each in step.given
    )
    return plan.updated(program=replace(plan.program, step=replace(step, given=given)))


def environment(job: Job) -> dict[str, Any]:
    """This process's environment, with virtual CPU devices for the plan's mesh, or more of them if it asks for more, and what the job adds.

    Where there is an accelerator JAX prefers that, unless the job's own variables say otherwise.
    """
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(_FORCED_DEVICES)]
    return {
        **os.environ,
        "XLA_FLAGS": " ".join(flags),
        "XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),  # the notebook may hold part of a GPU
        "JAX_NUM_CPU_DEVICES": str(max(min(job.plan.mesh.size, MAX_VIRTUAL_DEVICES), _asked_for())),
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),  # noqa: PTH109 - what an empty entry means to Python
        **_quiet_tpu(),
        **job.environment,
    }


def _quiet_tpu() -> Mapping[str, str]:
    """Where libtpu is installed without a TPU, JAX looks for one before it turns to other devices, and libtpu complains at length on
    standard error, where a worker's last words are read; told where it is, it says nothing."""
    if not lacks_tpu() or "TPU_ACCELERATOR_TYPE" in os.environ or importlib.util.find_spec("libtpu") is None:
        return {}
    return NO_TPU


def _asked_for() -> int:
    """The virtual CPU devices this process's environment names."""
    forced = re.findall(rf"{_FORCED_DEVICES}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return max((int(number) for number in (*forced, os.environ.get("JAX_NUM_CPU_DEVICES", "")) if number.isdecimal()), default=0)
