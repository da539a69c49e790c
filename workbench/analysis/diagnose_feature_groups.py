"""Convolutions whose feature groups XLA computes wrongly when they are sharded: the per-sample gradients of a kernel."""

import math
from collections.abc import Iterator

from workbench.core.sharding import axis_size, base_axis
from workbench.plan.edits import ShardDim
from workbench.plan.plan import Plan
from workbench.propagation import Propagated
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.report import Report
from workbench.tracing.jax_version import MISPLACES_GROUPS, installed_jax


def diagnose_feature_groups(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    """The convolutions that XLA computes wrongly under this plan, in every tier: it holds of the plan, and not of what was compiled."""
    for index, op in enumerate(partitioned.structure.ops):
        if op.work.convolution is None or op.work.convolution.misplaced is None:
            continue
        image, kernel = (partitioned.dims[value] or () for value in op.operands[:2])
        axes = _group_axes(report.plan, image, kernel, op.work.convolution.misplaced)
        groups = op.work.convolution.groups
        if axes and groups % math.prod(axis_size(axis, report.mesh) for axis in axes) == 0:
            yield _misplaced_diagnostic(report, index, groups, axes)


def _group_axes(
    plan: Plan, image: tuple[tuple[str, ...], ...], kernel: tuple[tuple[str, ...], ...], features: tuple[int, int]
) -> tuple[str, ...]:
    """The mesh axes that shard the groups, if these are all devices. Where devices repeat work, XLA partitions in another, right way."""
    for dims, dim in zip((image, kernel), features, strict=True):
        axes = dims[dim] if dim < len(dims) else ()
        if axes and math.prod(axis_size(axis, plan.mesh) for axis in axes) == plan.mesh.size > 1:
            return axes
    return ()


def _misplaced_diagnostic(report: Report, index: int, groups: int, axes: tuple[str, ...]) -> Diagnostic:
    operation = report.plan.program.operations[index]
    names = tuple(dict.fromkeys(map(base_axis, axes)))
    named, jax = " and ".join(f"`{name}`" for name in names), installed_jax()
    known = "" if jax in MISPLACES_GROUPS else f" This is known of JAX {', '.join(MISPLACES_GROUPS)}; check a run with `check=True`."
    where = f" ({operation.source})" if operation.source else ""
    return Diagnostic(
        "wrong result",
        operation.path or operation.kind,
        f"XLA of JAX {jax} computes a wrong result for this convolution{where}. Its {groups} feature groups, such as the gradients of "
        f"{groups} samples' kernels under `vmap`, are sharded over {named}, which are all devices, and XLA puts their shards in the wrong "
        f"places.{known} Compute the gradients with `jax.lax.map` instead of `vmap`, write the convolution as a matrix product of "
        f"`jax.lax.conv_general_dilated_patches`, or shard the groups over some of the mesh axes only.",
        _free_groups(report.plan, names),
    )


def _free_groups(plan: Plan, axes: tuple[str, ...]) -> tuple[ShardDim, ...]:
    """Edits that take the last of the axes, or the only one, from the dimensions that are sharded over all of them."""
    rules = ((dim, placed) for dim, placed in plan.layout.rules if set(axes) <= {base_axis(axis) for axis in placed})
    return tuple(ShardDim(dim, placed[:-1]) for dim, placed in rules)
