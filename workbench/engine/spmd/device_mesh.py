"""The plan's mesh over the attached devices with its axis assignment: each mesh axis on the links it was planned for."""

from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType

from workbench.engine.spmd.jax_shardings import attach
from workbench.hardware.axis_placement import device_order
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan

_PLATFORMS = {"cuda": "gpu"}  # ours to JAX's, where they differ


def device_mesh(plan: Plan) -> jax.sharding.Mesh:
    """The mesh to run a plan on: in the order of its axis assignment where the attached devices are the hardware that it names, else in
    JAX's own.

    Raises `EngineError` if there are too few devices.
    """
    hardware, devices = plan.hardware, jax.devices()
    if hardware is None or plan.mesh.size != hardware.size or not _is_hardware(hardware, devices):
        return attach(plan.mesh)
    return device_mesh_over(row_major(devices), plan, hardware)


def device_mesh_over(numbered: "np.ndarray[Any, Any]", plan: Plan, hardware: Hardware) -> jax.sharding.Mesh:
    """The mesh over all devices of this hardware, numbered row-major."""
    order = device_order(plan.mesh, hardware, plan.axis_assignment)
    return jax.sharding.Mesh(numbered[order], plan.mesh.names, axis_types=(AxisType.Auto,) * len(plan.mesh.names))


def row_major(devices: list[Any]) -> "np.ndarray[Any, Any]":
    """Devices sorted by slice and torus coordinates, as `axis_placement.device_order` numbers them; in JAX's order where there is no
    torus."""
    if all(hasattr(each, "coords") for each in devices):
        devices = sorted(devices, key=lambda each: (getattr(each, "slice_index", 0) or 0, *each.coords, each.core_on_chip))
    numbered = np.empty(len(devices), dtype=object)
    numbered[:] = devices
    return numbered


def _is_hardware(hardware: Hardware, devices: list[Any]) -> bool:
    platform = hardware.chip.platform
    return len(devices) == hardware.size and devices[0].platform == _PLATFORMS.get(platform, platform)
