"""The plan's mesh over the attached devices with its axis assignment, and joining the processes of a launcher."""

import os
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.errors import EngineError
from workbench.hardware.axis_placement import device_order
from workbench.hardware.hardware import Hardware
from workbench.plan.layout_legality import verify_layout
from workbench.plan.plan import Plan
from workbench.propagation import argument_placements
from workbench.units import divisors, format_count

_PLATFORMS = {"cuda": "gpu"}  # our platform name -> JAX's, where they differ


def device_mesh(plan: Plan) -> jax.sharding.Mesh:
    """Return the mesh to run a plan on, ordered by its axis assignment if its hardware is attached, else by JAX.

    Raises `EngineError` if there are too few devices.
    """
    hardware, devices = plan.hardware, jax.devices()
    if hardware is None or plan.mesh.size != hardware.size or not _is_hardware(hardware, devices):
        return attach(plan.mesh)
    return device_mesh_over(row_major(devices), plan, hardware)


def device_mesh_over(numbered: "np.ndarray[Any, Any]", plan: Plan, hardware: Hardware) -> jax.sharding.Mesh:
    """Return the mesh over all devices of this hardware, numbered row-major."""
    order = device_order(plan.mesh, hardware, plan.axis_assignment)
    return jax.sharding.Mesh(numbered[order], plan.mesh.names, axis_types=(AxisType.Auto,) * len(plan.mesh.names))


def row_major(devices: list[Any]) -> "np.ndarray[Any, Any]":
    """Sort devices by slice and torus coordinates, like `axis_placement.device_order`; JAX's order without a torus."""
    if all(hasattr(device, "coords") for device in devices):
        devices = sorted(devices, key=lambda device: (getattr(device, "slice_index", 0) or 0, *device.coords, device.core_on_chip))
    numbered = np.empty(len(devices), dtype=object)
    numbered[:] = devices
    return numbered


def _is_hardware(hardware: Hardware, devices: list[Any]) -> bool:
    platform = hardware.chip.platform
    return len(devices) == hardware.size and devices[0].platform == _PLATFORMS.get(platform, platform)


def attach(mesh: Mesh) -> jax.sharding.Mesh:
    """Return the plan's mesh over the attached devices, with axes left to the partitioner (`AxisType.Auto`).

    Raises `EngineError` if it needs more devices than are attached.
    """
    devices = jax.devices()
    if mesh.size > len(devices):
        raise too_few_devices(mesh, len(devices), devices[0].platform)
    return jax.make_mesh(mesh.sizes, mesh.names, axis_types=(AxisType.Auto,) * len(mesh.sizes), devices=devices[: mesh.size])


def too_few_devices(mesh: Mesh, attached: int, platform: str) -> EngineError:
    product = " x ".join(f"{name} {size}" for name, size in mesh.axes)
    sum_text = f"{product} = {mesh.size:,} devices" if len(mesh.axes) > 1 else f"{product} needs {mesh.size:,} devices"
    attached_text = f"{attached} {platform} device{' is' if attached == 1 else 's are'}"
    smaller = [
        f"make `{name}` {fits}"
        for name, size in mesh.axes
        if size > 1 and 1 <= (fits := _largest_fit(mesh.size // size, size, attached)) < size
    ]
    imitate = (
        f"simulate them with XLA_FLAGS=--xla_force_host_platform_device_count={mesh.size}"
        if platform == "cpu"
        else f"simulate them on the CPU with JAX_PLATFORMS=cpu JAX_NUM_CPU_DEVICES={mesh.size}"
    )
    return EngineError(
        f"The mesh {mesh} cannot be run here: {sum_text}, and {attached_text} attached. Planning needs no devices.",
        [*smaller[:2], imitate, f"run on a machine or a cluster with {format_count(mesh.size)} devices"],
    )


def _largest_fit(others: int, size: int, attached: int) -> int:
    return max((n for n in divisors(size)[:-1] if others * n <= attached), default=0)


# Convert the plan's mesh and shardings to JAX's, and place host arrays as shards.

HOST_MEMORY = "pinned_host"


def named_sharding(sharding: Sharding, mesh: jax.sharding.Mesh) -> NamedSharding:
    """Return JAX's `NamedSharding` of a closed sharding."""
    return NamedSharding(mesh, PartitionSpec(*(dim or None for dim in sharding.dims)))


def argument_shardings(plan: Plan, mesh: jax.sharding.Mesh) -> tuple[NamedSharding, ...]:
    """Return argument shardings with memory kinds; raises `LayoutError` for padded shards, which JAX lacks."""
    verify_layout(plan.program, plan.mesh, plan.layout)
    on_host = frozenset(plan.program.on_host)
    shardings = (named_sharding(placement, mesh) for placement in argument_placements(plan))
    return tuple(sharding.with_memory_kind(HOST_MEMORY) if number in on_host else sharding for number, sharding in enumerate(shardings))


def put_sharded(leaf: Any, sharding: NamedSharding) -> jax.Array:
    """Place a host array on the devices: each gets only its slice, and each process handles only its devices."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.device_put(leaf, sharding)  # random keys have no NumPy form, and are small
    host = np.asarray(leaf)
    return jax.make_array_from_callback(host.shape, sharding, host.__getitem__)


def host_value(array: jax.Array) -> np.ndarray[Any, Any]:
    """Return the whole array on the host, on every process."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(array, tiled=True))


def real_shard_shape(array: jax.Array) -> tuple[int, ...]:
    """Return the actual shard shape on a device of this process, the largest if they differ."""
    shapes = [shard.data.shape for shard in array.addressable_shards]
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


PROCESSES, PROCESS = "WORKBENCH_PROCESSES", "WORKBENCH_PROCESS"
"""Environment variables for process count and index without a launcher, besides `JAX_COORDINATOR_ADDRESS`."""


def start_distributed() -> int:
    """Join the processes of a launcher that JAX recognizes, and return this process's index.

    Launchers are Slurm, Open MPI, a TPU pod and Kubernetes; without one, `JAX_COORDINATOR_ADDRESS`,
    `WORKBENCH_PROCESSES` and `WORKBENCH_PROCESS` must be set. Call it once, before any device is used. CPU processes
    communicate through gloo. Raises `EngineError` if no launcher is found.
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
                "omit it to run in one process",
            ],
        ) from error
    return jax.process_index()


def count_processes() -> int:
    """Return the number of joined processes; 1 before."""
    return jax.process_count()


def _numbers_given() -> dict[str, int]:
    if PROCESSES not in os.environ:
        return {}
    return {"num_processes": int(os.environ[PROCESSES]), "process_id": int(os.environ.get(PROCESS, ""))}
