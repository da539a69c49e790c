"""Edits that may make a plan fit into device memory, limited to those whose arguments, live throughout, leave enough
room.

Candidates: saving less for the backward pass, sharding the largest replicated dimensions, optimizer state on the host,
and the first stage of ZeRO (Rajbhandari et al. 2020, section 5) that may fit. Candidates are not planned, so their peak
is unknown until they are applied.
"""

import math
from collections.abc import Iterator

from workbench.core.offload import Offload
from workbench.core.remat import Remat
from workbench.core.tensor import Role
from workbench.errors import WorkbenchError
from workbench.pipeline.balance import apply_edit
from workbench.plan.edits import Edit, EditGroup, SetLayout, SetOffload, SetRemat, ShardDim
from workbench.plan.layout_legality import illegality_text
from workbench.plan.plan import Plan
from workbench.propagation import Propagated
from workbench.recipes import find_recipe
from workbench.recipes.naming_conventions import AXES, DimUse, is_named
from workbench.reports.placement import Placement
from workbench.reports.report import Report

_MOST_SPLITS = 3
_ZERO = ("zero_1", "zero_3")


def memory_remedies(report: Report, partitioned: Propagated) -> tuple[Edit, ...]:
    splits = (edit for edit in _suggest_splits(report) if _least_bytes(report.plan, edit) <= report.memory.capacity)
    return (*_suggest_remat(report, partitioned), *splits, *_suggest_offload(report), *_suggest_zero(report))


def largest_dims(report: Report, axis: str) -> tuple[ShardDim, ...]:
    """Return edits that shard the largest legal dimensions over the axis, batch first for a data-parallel axis."""
    plan, is_for_data = report.plan, axis in AXES["data"]
    free = sorted(
        (dim for dim in plan.program.dims if not plan.layout.rule(dim)),
        key=lambda dim: (not (is_for_data and is_named(dim, DimUse.BATCH)), -max(plan.program.dims[dim])),
    )
    legal = (dim for dim in free if illegality_text(plan.program, plan.mesh, plan.layout, dim, (axis,)) is None)
    return tuple(ShardDim(dim, (axis,)) for dim, _ in zip(legal, range(2), strict=False))


def _least_bytes(plan: Plan, edit: Edit) -> float:
    """Return the bytes of one device's arguments after a layout edit, a lower bound of its memory; infinite if illegal."""
    try:
        after = apply_edit(plan, edit)
    except WorkbenchError:
        return math.inf
    shardings = after.layout.shardings(after.program.arguments)
    placed = zip(after.program.arguments, shardings, strict=True)
    return sum(Placement(tensor, sharding, after.mesh).local_bytes for tensor, sharding in placed)


def _suggest_remat(report: Report, partitioned: Propagated) -> Iterator[SetRemat]:
    program, by_role = report.plan.program, report.memory.by_role
    most = max(by_role, key=lambda role: by_role[role])
    has_layers = bool(program.carried and partitioned.structure.body_of)
    can_retrace = program.retrace is not None and has_layers and program.remat.policy != "full"
    if can_retrace and most is Role.ACTIVATION and report.memory.argument_bytes <= report.memory.capacity:
        yield SetRemat(Remat("full"))


def _suggest_splits(report: Report) -> tuple[ShardDim, ...]:
    """Return edits that shard the largest replicated dimensions, over the largest legal axis."""
    stages = report.plan.pipeline.axis if report.plan.pipeline else None
    axes = sorted((name for name, size in report.mesh.axes if size > 1 and name != stages), key=lambda name: -report.mesh[name])
    edit_of: dict[str, ShardDim] = {}
    for axis in axes:
        for edit in largest_dims(report, axis) if len(edit_of) < _MOST_SPLITS - 1 else ():
            edit_of.setdefault(edit.dim, edit)
    return tuple(edit_of.values())[:_MOST_SPLITS]


def _suggest_offload(report: Report) -> Iterator[SetOffload]:
    plan, memory = report.plan, report.memory
    program, state = plan.program, memory.by_role.get(Role.OPTIMIZER_STATE, 0)
    room = report.hardware.chip.host_memory if report.hardware else 0
    can_offload = program.retrace is not None and program.step.training is not None and plan.pipeline is None
    fits = memory.peak - state <= memory.capacity and state + memory.host <= room
    if can_offload and fits and state and not program.on_host:
        yield SetOffload(Offload(optimizer_state=True))


def _suggest_zero(report: Report) -> Iterator[EditGroup]:
    """Yield the first stage of ZeRO that may fit.

    Stage 1 changes only the arguments; stage 3 also shards gradients, so only its arguments must leave room.
    """
    plan, memory = report.plan, report.memory
    if plan.program.step.training is None:
        return
    for name in _ZERO:
        try:
            edit = EditGroup(name, (SetLayout(apply_edit(plan, find_recipe(name).edit(plan)).layout),))
        except WorkbenchError:  # no batch axis, or already applied
            continue
        least = _least_bytes(plan, edit)
        working = memory.peak - memory.argument_bytes if name == "zero_1" else 0
        if least + working <= memory.capacity:
            yield edit
            return
