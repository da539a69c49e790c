"""Diagnose single operations: uncounted communication, missing sharding rules, and wrong results of XLA."""

import itertools
import math
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from workbench.core.jax_installation import LOSES_POOLED, MISPLACES_GROUPS, SHARES_PADDINGS, installed_jax
from workbench.core.program import Program
from workbench.core.sharding import axis_size, base_axis
from workbench.core.tensor import itemsize
from workbench.plan.edits import ShardDim
from workbench.plan.layout_legality import illegality_text
from workbench.plan.plan import Plan
from workbench.propagation import Propagated
from workbench.propagation.structure.program_structure import Structure, find_rotations, operations_at_places
from workbench.propagation.structure.stored_values import DYNAMIC_SLICE
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Report
from workbench.units import format_bytes

_GATHERED = (DYNAMIC_SLICE, "stablehlo.dynamic_update_slice", "stablehlo.fft")
_ROUTINE = "custom_call"  # of a library, planned as XLA partitions it


def diagnose_operators_of(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    if report.partitioned is None:
        yield from _diagnose_uncounted(report, partitioned)
    else:
        yield from _diagnose_repeated_sums(report, partitioned, report.partitioned)
    yield from _diagnose_unpartitioned(report, partitioned)
    yield from _diagnose_split_stacks(report, partitioned)
    yield from _diagnose_missing_rules(report, partitioned)
    yield from _diagnose_missing_lowering(report.plan.program)
    yield from _diagnose_own_partitioning(report)
    if SHARES_PADDINGS:
        yield from _diagnose_shared_padding(report, partitioned)


def _diagnose_unpartitioned(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    structure, operations = partitioned.structure, report.plan.program.operations
    for kind, indices in _group_by_kind(report, partitioned.unpartitioned).items():
        first = structure.ops[indices[0]]
        read, made = structure.values[first.operands[0]], structure.values[first.results[0]]
        size = format_bytes(math.ceil(math.prod(read.shape) * itemsize(read.dtype)))
        source = operations[indices[0]].source
        places = _count_text(indices) + (f" (the first: {source})" if source else "")
        subject = subject_of(report.plan.program, indices[0])
        name = subject.rpartition("/")[2] if kind == _ROUTINE else kind
        what = "convolution of groups" if kind == "convolution" else f"`{name}`"
        yield Diagnostic(
            "not partitioned",
            subject,
            f"XLA does not partition a {what} along its batch, in {places}: every "
            f"device gathers what it reads, {size}, does all of the work and keeps its part of the {list(made.shape)} it makes. Try: "
            f"run it in `jax.shard_map` over the split batch, {_OTHER_SPLITS.get(kind, 'or split another dimension')}.",
        )


def _diagnose_split_stacks(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    """Yield loop-sliced stacks sharded along the loop's dimension, since every device needs every slice."""
    structure, program, seen = partitioned.structure, report.plan.program, set[int]()
    bodies = set(structure.body_of.values())
    for index, op in enumerate(structure.ops):
        if op.kind != DYNAMIC_SLICE or op.region not in bodies or len(op.crossing_dims) != 1:
            continue
        stack, dim = _stack_of(structure, op.operands[0]), op.crossing_dims[0]
        dims = partitioned.dims[stack]
        if not dims or not dims[dim] or structure.values[op.results[0]].shape[dim] > 1 or stack in seen:
            continue
        seen.add(stack)
        value, axes = structure.values[stack], tuple(dict.fromkeys(map(base_axis, dims[dim])))
        tensor = program.arguments[value.result] if stack in structure.arguments else None
        name = tensor.path if tensor else program.operations[value.maker].path if value.maker >= 0 else subject_of(program, index)
        layers = f"`{tensor.dims[dim]}`" if tensor else f"dimension {dim}"
        size = format_bytes(math.ceil(math.prod(value.shape) * itemsize(value.dtype)))
        others = [f"`{other_dim}`" for number, other_dim in enumerate(tensor.dims) if number != dim] if tensor else []
        another = " or ".join(others) or "another dimension of it"
        yield Diagnostic(
            "split stack",
            name,
            f"A loop takes one slice of `{name}` in each turn along {layers}, which is split over `{'+'.join(axes)}`: every device needs "
            f"every slice, and XLA gathers the whole stack, {size} on each device, for the loop, or in each turn. Try: split "
            f"{another}, so that a turn gathers one slice, or make `{'+'.join(axes)}` the axis of a pipeline.",
            (ShardDim(tensor.dims[dim], ()),) if tensor and report.plan.layout.rule(tensor.dims[dim]) else (),
        )


def _stack_of(structure: Structure, value: int) -> int:
    """Return the value before the open constraint or edge through which a loop reads it."""
    while (maker := structure.values[value].maker) >= 0 and structure.ops[maker].kind in ("sdy.sharding_constraint", "sdy.data_flow_edge"):
        value = structure.ops[maker].operands[0]
    return value


_OTHER_SPLITS = {
    "fft": "or replicate its operand if that is small",
    "top_k": "or replicate its operand if that is small",
    "convolution": "make the groups a separate dimension under `jax.vmap`, or split the channels by groups",
}


def _diagnose_missing_lowering(program: Program) -> Iterator[Diagnostic]:
    if program.not_lowered:
        operations = (operation for operation in program.operations if program.not_lowered in operation.path.split("/"))
        places = dict.fromkeys(operation.source or f"in `{operation.path}`" for operation in operations)
        where = f" ({', '.join(places)})" if places else ""
        yield Diagnostic(
            "no lowering",
            program.not_lowered,
            f"JAX cannot lower `{program.not_lowered}`{where} for {_COMPILERS.get(program.platform, program.platform)}, and there the "
            "program does not compile: it is planned as lowered for CPUs. Try: plan for CPUs, or compute it by other functions.",
        )


def _diagnose_own_partitioning(report: Report) -> Iterator[Diagnostic]:
    """Yield functions that partition themselves, whose communication is unknown before compilation."""
    if names := report.plan.program.own_partitioning:
        yield Diagnostic(
            "own partitioning",
            names[0].split("`")[1],
            f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'} a partitioning of {'its' if len(names) == 1 else 'their'} own "
            "(`custom_partitioning`), which XLA asks for only when it compiles the step: planned, and partitioned, as any other function, "
            "it may send and hold other than this. Try: `plan.compile()`, whose figures are those of its own rule.",
        )


_COMPILERS = {"tpu": "TPUs", "cuda": "NVIDIA GPUs"}


def subject_of(program: Program, index: int) -> str:
    operation = program.operations[index]
    return operation.path or operation.source or operation.kind


def _diagnose_uncounted(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    structure = partitioned.structure
    rotated = {index for index in find_rotations(structure) if _moves_whole_parts(report.plan, partitioned, index)}
    counted = {*partitioned.halo_operand_dims, *partitioned.unpartitioned, *rotated}
    counted |= {index for index in structure.crossing_ops if structure.ops[index].kind in _GATHERED}  # gathered by `insert_dot_reshards`
    uncounted = (index for index in structure.crossing_ops if index not in counted)
    for kind, indices in _group_by_kind(report, [index for index in uncounted if _reads_across_shards(partitioned, index)]).items():
        yield Diagnostic(
            "not counted",
            subject_of(report.plan.program, indices[0]),
            f"`{kind}` moves data along a sharded dimension, in {_count_text(indices)}. Shardy leaves that to XLA, so the plan "
            "does not "
            'count it. Use `plan.report("partitioned")`.',
        )


def _moves_whole_parts(plan: Plan, partitioned: Propagated, index: int) -> bool:
    """Return whether a rotation has one element per shard; then XLA sends what its slices send."""
    op = partitioned.structure.ops[index]
    shape, dims = partitioned.structure.values[op.results[0]].shape, partitioned.dims[op.results[0]]
    return dims is not None and all(
        not dims[dim] or shape[dim] == math.prod(axis_size(axis, plan.mesh) for axis in dims[dim]) for dim in op.crossing_dims
    )


def _reads_across_shards(partitioned: Propagated, index: int) -> bool:
    op = partitioned.structure.ops[index]
    if partitioned.dims[op.results[0]] is None:  # nothing reads it
        return False
    shardings = (partitioned.dims[value] or () for value in (op.operands[0], op.results[0]))
    return any(dims[dim] for dims in shardings for dim in op.crossing_dims if dim < len(dims))


def _diagnose_missing_rules(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    ops = partitioned.structure.ops
    sharded = [
        index
        for index in partitioned.structure.ops_without_rule
        if any(any(partitioned.dims[value] or ()) for value in (*ops[index].operands, *ops[index].results))
    ]
    for kind, indices in _group_by_kind(report, sharded).items():
        uncounted = "" if report.partitioned or kind == _ROUTINE else ", which the plan does not count"
        yield Diagnostic(
            "no sharding rule",
            subject_of(report.plan.program, indices[0]),
            f"Shardy has no rule for `{kind}`, in {_count_text(indices)}: no sharding propagates through it, in either direction, "
            "every device "
            f"computes the whole result, and XLA brings its operands together{uncounted}. "
            "Try: constrain its result, or rewrite it with operations that have rules.",
        )


def _diagnose_repeated_sums(report: Report, partitioned: Propagated, answer: Partitioned) -> Iterator[Diagnostic]:
    """Yield convolutions that XLA also sums over devices with the same parts (jaxlib 0.10.2), first sum only."""
    sums = [collective for collective in answer.collectives if collective.kind in ("all-reduce", "reduce-scatter")]
    makers = operations_at_places(partitioned.structure, [collective.made_by for collective in sums])
    repeated: dict[int, tuple[str, ...]] = {}
    for maker, collective in zip(makers, sums, strict=True):
        if maker is not None and partitioned.structure.ops[maker].position == collective.made_by:
            repeated[maker] = repeated.get(maker) or _find_repeated_axes(partitioned, maker, collective.axes)
    for index, axes in repeated.items():
        if axes:
            yield repeated_sum_diagnostic(report, index, axes)


def _find_repeated_axes(partitioned: Propagated, index: int, axes: Sequence[str]) -> tuple[str, ...]:
    """Return the axes of a convolution's all-reduce along which no contracted dimension of image or kernel is sharded.

    A convolution decomposed as a dot may be summed along others: replicas first keep one part each.
    """
    windows, shardings = partitioned.structure.ops[index].windows, partitioned.halo_operand_dims.get(index, ())
    if windows is None or not windows.kernel_dims or not shardings:
        return ()
    product = partitioned.structure.dots.get(index)
    if product is not None and not product.has_sharded_window(shardings[:2]):
        return ()
    image, kernel = shardings[:2]
    pairs = ((image[dim], kernel[at]) for dim, at in enumerate(windows.kernel_dims) if at is not None)
    summed = {base_axis(axis) for pair in pairs for dim_axes in pair for axis in dim_axes}
    return tuple(axis for axis in axes if base_axis(axis) not in summed)


def repeated_sum_diagnostic(report: Report, index: int, axes: Sequence[str]) -> Diagnostic:
    names = tuple(dict.fromkeys(map(base_axis, axes)))
    times, named = math.prod(axis_size(axis, report.mesh) for axis in axes), " and ".join(f"`{name}`" for name in names)
    return Diagnostic(
        "wrong result",
        subject_of(report.plan.program, index),
        f"XLA makes this convolution {times} times too large: it sums the parts of its image over all devices, "
        f"those along {named} too, which hold the same parts. Let {named} split the batch, or keep the image whole.",
        _suggest_fixes(report, names),
    )


def _diagnose_shared_padding(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    """Yield operations that pad one value differently in equal windows.

    XLA exchanges halos once, with the first padding (`ReshardAsWindowedInput`, openxla/xla, caches by windows; jaxlib
    before 0.12).
    """
    ops = partitioned.structure.ops
    first_with_key: dict[tuple[Any, ...], int] = {}
    for index in partitioned.structure.crossing_ops:
        op, windows, shardings = ops[index], ops[index].windows, partitioned.dims[ops[index].results[0]]
        if windows is None or not windows.fill or shardings is None:
            continue
        first = first_with_key.setdefault((op.operands[0], op.region, windows.dims, shardings), index)
        rows = zip(windows.dims, shardings, strict=True)
        axes = tuple(axis for window, dim in rows if max(window.low, window.high) > 0 for axis in dim)
        other = ops[first].windows
        if axes and other is not None and other.fill != windows.fill:
            yield Diagnostic(
                "wrong result",
                subject_of(report.plan.program, index),
                f"XLA makes the padding of this operation and of `{subject_of(report.plan.program, first)}` once: both read the same value "
                f"through the same windows, but they pad it with different numbers, and one of the two comes out wrong. Leave whole what "
                f"{' and '.join(f'`{axis}`' for axis in axes)} splits here, or let one of them read other windows.",
                _suggest_freeing_axes(report, {base_axis(axis) for axis in axes}),
            )


def _suggest_freeing_axes(report: Report, axes: AbstractSet[str]) -> tuple[ShardDim, ...]:
    rules = report.plan.layout.rules
    return tuple(ShardDim(dim, tuple(axis for axis in placed if axis not in axes)) for dim, placed in rules if set(placed) & axes)


def _suggest_fixes(report: Report, axes: Sequence[str]) -> tuple[ShardDim, ...]:
    """Return edits that free these axes, or else also shard the first legal input dimension, usually the batch."""
    plan = report.plan
    if freeing := _suggest_freeing_axes(report, set(axes)):
        return freeing
    rules = dict(plan.layout.rules)
    dims = dict.fromkeys(dim for index in plan.program.inputs for dim in plan.program.arguments[index].dims)
    candidates = (ShardDim(dim, (*rules.get(dim, ()), *axes)) for dim in dims)
    return tuple(itertools.islice((edit for edit in candidates if _is_legal(plan, edit)), 1))


def _is_legal(plan: Plan, edit: ShardDim) -> bool:
    return illegality_text(plan.program, plan.mesh, plan.layout, edit.dim, edit.axes) is None


def _group_by_kind(report: Report, indices: Sequence[int]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index in indices:
        groups.setdefault(report.plan.program.operations[index].kind, []).append(index)
    return groups


def _count_text(indices: Sequence[int]) -> str:
    return f"{len(indices)} {'place' if len(indices) == 1 else 'places'}"


# Windowed operations with wrong results in XLA: gradients of per-sample and depthwise kernels and of max pooling.


def diagnose_feature_groups(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    """Yield convolutions that XLA computes wrongly under this plan, in every tier, since this depends only on the plan."""
    for index, op in enumerate(partitioned.structure.ops):
        if op.work.convolution is None or op.work.convolution.misplaced is None:
            continue
        image, kernel = (partitioned.dims[value] or () for value in op.operands[:2])
        axes = _group_axes(report.plan, image, kernel, op.work.convolution.misplaced)
        groups = op.work.convolution.groups
        if axes and groups % math.prod(axis_size(axis, report.mesh) for axis in axes) == 0:
            yield _misplaced_diagnostic(report, index, groups, axes)
    if report.partitioned is None:  # otherwise the partitioner's own sums show it
        for index in partitioned.halo_operand_dims:
            if axes := _repeated_axes(report.plan, partitioned, index):
                yield repeated_sum_diagnostic(report, index, axes)


def diagnose_overlapping_pools(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    """Yield gradients of max pooling that XLA computes wrongly under this plan, in every tier.

    XLA loses gradients at shard edges where a window covers two strides or more. Compared with runs of 167 random
    windows, sizes and layouts: true for all wrong results, and false positives only with windows longer than a shard.
    """
    for index, op in enumerate(partitioned.structure.ops):
        if not op.work.overlapping or (dims := partitioned.dims[op.results[0]]) is None:
            continue
        for dim, window in op.work.overlapping:
            if (shards := math.prod(axis_size(axis, report.mesh) for axis in dims[dim])) > 1:
                size = partitioned.structure.values[op.results[0]].shape[dim]
                yield _lost_gradients_diagnostic(report, index, window, -(-size // shards), tuple(map(base_axis, dims[dim])))


def _repeated_axes(plan: Plan, partitioned: Propagated, index: int) -> tuple[str, ...]:
    """Return the mesh axes over which XLA sums a grouped convolution once too often (jaxlib 0.10.2).

    If image and kernel are sharded alike along a contracted dimension, XLA sums over all devices, including those with
    the same parts. Compared with runs of 140 random layouts of depthwise gradients; convolutions without groups have
    another condition.
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
    """Return the axes that shard the groups over all devices; with repeated work XLA partitions correctly."""
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
    """Return edits that remove the last of the axes from dimensions sharded over all of them."""
    rules = ((dim, placed) for dim, placed in plan.layout.rules if set(axes) <= {base_axis(axis) for axis in placed})
    return tuple(ShardDim(dim, placed[:-1]) for dim, placed in rules)
