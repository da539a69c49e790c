"""Windowed operations that XLA computes wrongly under a plan: gradients of per-sample and depthwise kernels and of max pooling."""

import math
from collections.abc import Iterator

from workbench.analysis.diagnose_operators import repeated_sum_diagnostic
from workbench.core.sharding import axis_size, base_axis
from workbench.plan.edits import ShardDim
from workbench.plan.plan import Plan
from workbench.propagation import Propagated
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.report import Report
from workbench.tracing.jax_version import LOSES_POOLED, MISPLACES_GROUPS, installed_jax


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
    if report.partitioned is None:  # else the partitioner's own sums say it
        for index in partitioned.halo_operand_dims:
            if axes := _repeated_axes(report.plan, partitioned, index):
                yield repeated_sum_diagnostic(report, index, axes)


def diagnose_overlapping_pools(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    """The gradients of max pooling that XLA computes wrongly under this plan, in every tier.

    XLA loses gradients at the edges of shards where a window covers two strides or more. This was compared with runs of 167 random windows,
    sizes and layouts: it held for all that were wrong, and all for which it held were wrong unless the window was longer than a shard.
    """
    for index, op in enumerate(partitioned.structure.ops):
        if not op.work.overlapping or (dims := partitioned.dims[op.results[0]]) is None:
            continue
        for dim, window in op.work.overlapping:
            if (shards := math.prod(axis_size(axis, report.mesh) for axis in dims[dim])) > 1:
                size = partitioned.structure.values[op.results[0]].shape[dim]
                yield _lost_gradients_diagnostic(report, index, window, -(-size // shards), tuple(map(base_axis, dims[dim])))


def _repeated_axes(plan: Plan, partitioned: Propagated, index: int) -> tuple[str, ...]:
    """The mesh axes over which XLA sums a convolution of groups once too often (jaxlib 0.10.2).

    Where image and kernel are sharded alike along a dimension that is summed, it sums over all devices, those with the same parts too. This
    was compared with runs of 140 random layouts of depthwise gradients; for convolutions without groups the condition is another.
    """
    op, shardings = partitioned.structure.ops[index], partitioned.halo_operand_dims[index]
    if op.work.convolution is None or op.work.convolution.groups == 1 or op.windows is None or len(shardings) < 2:
        return ()
    image, kernel = shardings[:2]
    pairs = ((image[dim], kernel[at]) for dim, at in enumerate(op.windows.kernel_dims) if at is not None)
    if not any(set(one) & set(other) for one, other in pairs):
        return ()
    sharded = {base_axis(axis) for dims in (*image, *kernel, *(partitioned.dims[op.results[0]] or ())) for axis in dims}
    return tuple(name for name, size in plan.mesh.axes if size > 1 and name not in sharded)


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
    computes = "computes" if jax in MISPLACES_GROUPS else "may compute"
    known = "" if jax in MISPLACES_GROUPS else f" This is known of JAX {', '.join(MISPLACES_GROUPS)}; check a run with `check=True`."
    where = f" ({operation.source})" if operation.source else ""
    return Diagnostic(
        "wrong result",
        operation.path or operation.kind,
        f"XLA of JAX {jax} {computes} a wrong result for this convolution{where}. Its {groups} feature groups, such as the gradients of "
        f"{groups} samples' kernels under `vmap`, are sharded over {named}, which are all devices, and XLA puts their shards in the wrong "
        f"places.{known} Compute the gradients with `jax.lax.map` instead of `vmap`, write the convolution as a matrix product of "
        f"`jax.lax.conv_general_dilated_patches`, or shard the groups over some of the mesh axes only.",
        _free_groups(report.plan, names),
    )


def _lost_gradients_diagnostic(report: Report, index: int, window: int, part: int, axes: tuple[str, ...]) -> Diagnostic:
    operation, jax = report.plan.program.operations[index], installed_jax()
    names = tuple(dict.fromkeys(axes))
    computes = "computes" if jax in LOSES_POOLED and window <= part else "may compute"
    known = "" if jax in LOSES_POOLED else f" This is known of JAX {', '.join(LOSES_POOLED)}; check a run with `check=True`."
    where = f" ({operation.source})" if operation.source else ""
    return Diagnostic(
        "wrong result",
        operation.path or operation.kind,
        f"XLA of JAX {jax} {computes} a wrong gradient of this max pooling{where}. Its windows of {window} overlap by half or more along a "
        f"dimension that is sharded over {' and '.join(f'`{name}`' for name in names)}, and XLA loses gradients at the edges of the shards."
        f"{known} Shard another dimension, or write the pooling as the maximum of shifted slices.",
        _free_groups(report.plan, names),
    )


def _free_groups(plan: Plan, axes: tuple[str, ...]) -> tuple[ShardDim, ...]:
    """Edits that take the last of the axes, or the only one, from the dimensions that are sharded over all of them."""
    rules = ((dim, placed) for dim, placed in plan.layout.rules if set(axes) <= {base_axis(axis) for axis in placed})
    return tuple(ShardDim(dim, placed[:-1]) for dim, placed in rules)
