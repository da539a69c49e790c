"""Predict the step time: roofline kernels of one device, and exposed communication."""

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
    """Return the collectives that a runtime decomposes to overlap with their dot (async tensor parallelism)."""
    ops = partitioned.structure.ops
    return frozenset(
        number
        for number, collective in enumerate(partitioned.reshards)
        if collective.kind in _DECOMPOSED and (dot := dot_of(collective)) >= 0 and ops[dot].kind in DOTS
    )


def collective_costs(reshards: Sequence[InsertedCollective], plan: Plan, hardware: Hardware, windowed: Container[int] = ()) -> list[Cost]:
    """Return the cost of one execution of each collective; `windowed`: indices of those decomposed together with a dot."""
    links = _physical_axes(plan, hardware)
    cost_of: dict[tuple[str, tuple[str, ...], int], Cost] = {}
    costs = []
    for number, collective in enumerate(reshards):
        key = collective.kind, collective.axes, collective.payload
        if key not in cost_of:
            axes = tuple(dict.fromkeys(map(base_axis, collective.axes)))
            seconds = collective_seconds(
                collective.kind,
                axes,
                collective.payload,
                plan.mesh,
                hardware,
                plan.axis_assignment,
                _group_size(collective.axes, plan.mesh),
            )
            wires = tuple(dict.fromkeys(link for axis in axes for link in links.get(axis, (axis,))))
            cost_of[key] = Cost(seconds, wires, overlaps(collective.kind, hardware.chip))
        costs.append(cost_of[key]._replace(is_windowed=True) if number in windowed else cost_of[key])
    return costs


def _group_size(axes: tuple[str, ...], mesh: Mesh) -> int | None:
    """Return the size of a group if it is smaller than the product of its axes, else `None`."""
    if all(axis == base_axis(axis) for axis in axes):
        return None
    return int(np.prod([axis_size(axis, mesh) for axis in axes]))


def _physical_axes(plan: Plan, hardware: Hardware) -> Mapping[str, tuple[str, ...]]:
    try:
        spans = physical_spans(plan.mesh, hardware, plan.axis_assignment)
    except HardwareError:  # the mesh does not fit (a diagnostic): assume separate links per axis
        return {}
    return {axis: tuple(span.physical.name for span in parts) for axis, parts in spans.items()}


def step_time(
    hardware: Hardware, kernels: Kernels, times: KernelTimes, simulated: SimulatedStep, dot_flops: Mapping[str, DotFlops], devices: int
) -> StepTime:
    """Return the parts of a step, which sum to the simulated makespan."""
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
