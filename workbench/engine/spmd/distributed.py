"""One run over several processes."""

import jax

from workbench.errors import EngineError


def start_distributed() -> int:
    """Join the processes of a launcher JAX recognises (Slurm, Open MPI, a TPU pod, Kubernetes) into one set of devices.

    Call it once, before anything touches a device; it returns the number of this process. Processes on the CPU talk through gloo.
    Raises `EngineError` if no launcher is found.
    """
    try:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize()
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
