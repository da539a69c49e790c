"""Step time: the kernels of one device by the roofline, and the communication that they do not hide."""

from collections.abc import Container, Mapping, Sequence

import numpy as np

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size, base_axis
from workbench.cost.collective_times import collective_seconds
from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.kept_and_deferred import Cost
from workbench.cost.kernel_times import KernelTimes
from workbench.cost.simulate_overlap import SimulatedStep, overlaps
from workbench.cost.step_flops import DotFlops, utilisation
from workbench.cost.windowed_dots import dot_of
from workbench.errors import HardwareError
from workbench.hardware.axis_placement import physical_spans
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.propagation import Propagated
from workbench.propagation.module.operation_kinds import DOTS
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.reports.step_time import StepTime

_DECOMPOSED = ("all-gather", "reduce-scatter")


def decomposed_collectives(partitioned: Propagated) -> frozenset[int]:
    """Places of the collectives whose pieces go around while their dot runs, under a runtime that decomposes them (async tensor
    parallelism)."""
    ops = partitioned.structure.ops
    return frozenset(
        number
        for number, each in enumerate(partitioned.reshards)
        if each.kind in _DECOMPOSED and (dot := dot_of(each)) >= 0 and ops[dot].kind in DOTS
    )


def collective_costs(reshards: Sequence[InsertedCollective], plan: Plan, hardware: Hardware, windowed: Container[int] = ()) -> list[Cost]:
    """The cost of one execution of each collective; alike ones are computed once. `windowed`: places of those that are decomposed together
    with a dot."""
    links = _physical_axes(plan, hardware)
    known: dict[tuple[str, tuple[str, ...], int], Cost] = {}
    found = []
    for number, each in enumerate(reshards):
        key = each.kind, each.axes, each.payload
        if key not in known:
            axes = tuple(dict.fromkeys(map(base_axis, each.axes)))
            seconds = collective_seconds(
                each.kind, axes, each.payload, plan.mesh, hardware, plan.axis_assignment, _group_size(each.axes, plan.mesh)
            )
            wires = tuple(dict.fromkeys(link for axis in axes for link in links.get(axis, (axis,))))
            known[key] = Cost(seconds, wires, overlaps(each.kind, hardware.chip))
        found.append(known[key]._replace(is_windowed=True) if number in windowed else known[key])
    return found


def _group_size(axes: tuple[str, ...], mesh: Mesh) -> int | None:
    """The size of a group where it is smaller than the product of its axes."""
    if all(axis == base_axis(axis) for axis in axes):
        return None
    return int(np.prod([axis_size(axis, mesh) for axis in axes]))


def _physical_axes(plan: Plan, hardware: Hardware) -> Mapping[str, tuple[str, ...]]:
    """The physical axes each mesh axis runs over."""
    try:
        found = physical_spans(plan.mesh, hardware, plan.axis_assignment)
    except HardwareError:  # the mesh does not fit, which is a diagnostic: then each axis has links of its own
        return {}
    return {axis: tuple(each.physical.name for each in parts) for axis, parts in found.items()}


def step_time(
    hardware: Hardware, kernels: Kernels, times: KernelTimes, simulated: SimulatedStep, dot_flops: Mapping[str, DotFlops], devices: int
) -> StepTime:
    """The parts of a step; they sum to the simulated makespan."""
    by_memory = times.bound_by_memory
    total = simulated.seconds
    mfu, hfu = utilisation(dot_flops, hardware.chip, devices, total)
    return StepTime(
        hardware=str(hardware),
        arithmetic=float((times.arithmetic * kernels.times)[~by_memory].sum()),
        memory=float((times.memory * kernels.times)[by_memory].sum()),
        launch=float((times.launch * kernels.times).sum()),
        exposed=simulated.exposed,
        hidden=max(simulated.sent - simulated.exposed, 0.0),
        host=simulated.host,
        mfu=mfu,
        hfu=hfu,
        sustained=hardware.chip.efficiency_of("sustained"),
        calibrated=hardware.chip.calibrated,
        shares_of=hardware.chip.shares_of,
        unestimated=float(
            ((times.busy * hardware.chip.efficiency_of("sustained") + times.launch) * kernels.times)[times.unestimated].sum()
        ),
    )
