"""The environment of a worker process: this one's, with as many virtual CPU devices as its job needs where there is no accelerator."""

import importlib.util
import os
import re
from collections.abc import Mapping
from typing import Any

from workbench.core.import_path import python_path
from workbench.engine.cluster.relay import CLUSTER
from workbench.engine.worker.job_payload import WorkerJob
from workbench.tracing.jax_backends import NO_TPU, lacks_tpu

MAX_VIRTUAL_DEVICES = 64
"""The most virtual CPU devices of a worker: each costs threads, and a copy of whatever is replicated."""

ON_CLUSTER = ("compile", "search")
"""Kinds of jobs that need no devices, and are done on a Ray cluster where there is one."""

_FORCED_DEVICES = "--xla_force_host_platform_device_count"


def environment(job: WorkerJob) -> dict[str, Any]:
    """This process's environment, with virtual CPU devices for the job, or more of them if it asks for more, and what the job adds.

    Where there is an accelerator JAX prefers that, unless the job's own variables say otherwise.
    """
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(_FORCED_DEVICES)]
    named = {flag.partition("=")[0] for flag in flags}
    flags += [flag for flag in job.flags if flag.partition("=")[0] not in named]
    return {
        **os.environ,
        "XLA_FLAGS": " ".join(flags),
        "XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),  # the notebook may hold part of a GPU
        "JAX_NUM_CPU_DEVICES": str(max(min(job.devices, MAX_VIRTUAL_DEVICES), _asked_for())),
        "PYTHONPATH": python_path(),
        CLUSTER: os.environ.get(CLUSTER, "") if job.kind in ON_CLUSTER else "",
        **_quiet_tpu(),
        **job.environment,
    }


def _quiet_tpu() -> Mapping[str, str]:
    """Silence libtpu. Where it is installed without a TPU, JAX looks for one before it turns to other devices, and libtpu logs at length to
    standard error, where a worker's crash message is read; with these variables set it logs nothing."""
    if not lacks_tpu() or "TPU_ACCELERATOR_TYPE" in os.environ or importlib.util.find_spec("libtpu") is None:
        return {}
    return NO_TPU


def _asked_for() -> int:
    """The number of virtual CPU devices that this process's environment asks for."""
    forced = re.findall(rf"{_FORCED_DEVICES}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return max((int(number) for number in (*forced, os.environ.get("JAX_NUM_CPU_DEVICES", "")) if number.isdecimal()), default=0)
