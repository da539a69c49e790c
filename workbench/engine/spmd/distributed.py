"""One run over several processes."""

import os

import jax

from workbench.errors import EngineError

PROCESSES, PROCESS = "WORKBENCH_PROCESSES", "WORKBENCH_PROCESS"
"""How many processes there are, and which one this is, where no launcher says so; JAX reads `JAX_COORDINATOR_ADDRESS` itself."""


def start_distributed() -> int:
    """Join the processes of a launcher JAX recognises (Slurm, Open MPI, a TPU pod, Kubernetes) into one set of devices; or of whoever has
    set `JAX_COORDINATOR_ADDRESS`, `WORKBENCH_PROCESSES` and `WORKBENCH_PROCESS`.

    Call it once, before anything touches a device; it returns the number of this process. Processes on the CPU talk through gloo.
    Raises `EngineError` if no launcher is found.
    """
    try:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(**_numbers_given())
    except (ValueError, RuntimeError) as error:
        raise EngineError(
            f"The processes could not join: {str(error).splitlines()[0]}",
            [
                "start them with a launcher JAX recognises: `srun`, `mpirun`, a TPU pod or Kubernetes",
                "call it before anything else touches a device",
                "leave it out to run in one process",
            ],
        ) from error
    return jax.process_index()


def count_processes() -> int:
    """How many have joined; 1 before."""
    return jax.process_count()


def _numbers_given() -> dict[str, int]:
    if PROCESSES not in os.environ:
        return {}
    return {"num_processes": int(os.environ[PROCESSES]), "process_id": int(os.environ.get(PROCESS, ""))}
