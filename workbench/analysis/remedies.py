"""Edits that avoid a resharding or make it cheaper. Each is tried on the plan before it is suggested.

Candidates: the value constrained to what its reader needs, to its present sharding, or, where XLA gathers it whole, to an intermediate
sharding that is one plain step from either; its argument sharded as the reader needs it; constraints of the layout taken back; dimensions
sharded otherwise.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from workbench.core.mesh import Mesh
from workbench.core.path_patterns import selects, template
from workbench.core.program import Operation
from workbench.core.sharding import Sharding, axis_size, base_axis
from workbench.errors import WorkbenchError
from workbench.pipeline.balance import apply_edit
from workbench.plan.edits import Constrain, Edit, Override, ShardDim
from workbench.plan.mesh_edits import ResizeAxis
from workbench.plan.plan import Plan
from workbench.propagation import Dims, Propagated, local_shape, padding_list, partition, reshard_list
from workbench.reports.padding import Padding
from workbench.reports.report import Report
from workbench.reports.reshard import Remedy, Reshard
from workbench.units import divisors

Analyze = Callable[[Plan], Report]  # an argument here, because the report that `analyze` makes asks for remedies

_MOST_TRIED = 10  # the number of edits tried for one resharding
_MOST_SUGGESTED = 3
_MOST_AXES = 3  # the number of axes above which there are too many intermediate shardings


def find_remedies(analyze: Analyze, report: Report, reshard: Reshard) -> tuple[Remedy, ...]:
    """The edits that reduce the bytes sent at this place without increasing those of the whole step; the largest saving first."""
    plan, tried, evaluator = report.plan, [], _RemedyEvaluator(analyze, report, reshard)
    for edit in itertools.islice(dict.fromkeys(_candidate_edits(plan, reshard)), _MOST_TRIED):
        try:
            after = _same_devices(analyze(apply_edit(plan, edit)), report)
        except WorkbenchError:  # illegal, or refused by Shardy
            continue
        if (remedy := evaluator.remedy(edit, after)) is not None:
            tried.append(remedy)
    tried.sort(key=lambda each: (-each.saved, each.sent, each.added_bytes))
    return tuple(tried[:_MOST_SUGGESTED])


def _same_devices(after: Report, before: Report) -> Report:
    """Of another plan's report what it says of the same devices: of the same stage, if that is what the report before is of."""
    return after if before.stage is None else after.stages[min(before.stage, len(after.stages) - 1)]


class _RemedyEvaluator:
    """Compares the plan as planned without an edit and with it; at the place itself with what XLA sends there, if that is known."""

    def __init__(self, analyze: Analyze, report: Report, reshard: Reshard) -> None:
        self._reshard, self._is_settled = reshard, report.partitioned is not None
        self._before = analyze(report.plan) if self._is_settled else report
        planned = sum(
            each.sent
            for each in self._before.reshards
            if (each.path, each.reader, *_reshard_key(each)) == (reshard.path, reshard.reader, *_reshard_key(reshard))
        )
        self._extra_sent = reshard.sent - planned  # what XLA sends there
        self._peak = (report if reshard.rematerialises else self._before).memory.peak

    def remedy(self, edit: Edit, after: Report) -> Remedy | None:
        """The effect of an edit, if it is a remedy: this place sends less, the step no more."""
        before, here = (sum(each.sent for each in _find_same_reshards(report, self._reshard)) for report in (self._before, after))
        saved = self._before.sent + self._extra_sent - after.sent
        if here >= before + self._extra_sent or saved < 0:
            return None
        if self._is_settled and not _is_certain(self._before.reshards, after.reshards, self._reshard, after.mesh):
            return None
        return Remedy(edit, here, saved, after.memory.peak - self._peak)


def _is_certain(before: Sequence[Reshard], after: Sequence[Reshard], reshard: Reshard, mesh: Mesh) -> bool:
    """Whether XLA sends what is planned: fewer values have the same reshard, and each new reshard is a plain step."""
    old, new = (Counter(map(_reshard_key, each)) for each in (before, after))
    return new[_reshard_key(reshard)] < max(old[_reshard_key(reshard)], 1) and all(
        step_sends(*ends, mesh) is not None for ends in new.keys() - old.keys()
    )


def _reshard_key(each: Reshard) -> tuple[tuple[int, ...], Sharding, Sharding]:
    return each.shape, each.before, each.after


def avoid_rematerialisation(plan: Plan, planned: Propagated, reshard: Reshard) -> tuple[Edit, ...]:
    """An edit with which XLA need not gather the value whole, tried on Shardy's propagation alone: for a diagnostic."""
    before = _list_reshards(plan, planned)
    elsewhere = _total_payload(planned) - sum(
        each.payload for each in before if (each.path, *_reshard_key(each)) == (reshard.path, *_reshard_key(reshard))
    )
    gentle = (each for each in _candidate_edits(plan, reshard) if isinstance(each, Constrain | Override))
    for edit in itertools.islice(dict.fromkeys(gentle), _MOST_SUGGESTED):
        try:
            after = partition(changed := apply_edit(plan, edit), plan.hardware)
        except WorkbenchError:
            continue
        if _total_payload(after) < elsewhere + reshard.payload and _is_certain(before, _list_reshards(changed, after), reshard, plan.mesh):
            return (edit,)
    return ()


def _list_reshards(plan: Plan, planned: Propagated) -> tuple[Reshard, ...]:
    """The resharded values; no cost is computed."""
    return reshard_list(plan, planned, lambda moves: [0.0] * len(moves))


def _total_payload(planned: Propagated) -> int:
    """Payload bytes of all collectives of a step."""
    times = planned.structure.regions
    return sum(each.payload * times[each.region].runs_per_step for each in planned.reshards)


def fix_padding(plan: Plan, padding: Padding) -> tuple[Edit, ...]:
    """Mesh axes of another size, and other axes, by which the dimension divides; each tried on Shardy's propagation."""
    found: list[Edit] = []
    for edit in _suggest_resizes(plan, padding):
        try:
            after = padding_list(changed := apply_edit(plan, edit), partition(changed, plan.hardware))
        except WorkbenchError:
            continue
        if not any((each.path, each.dim) == (padding.path, padding.dim) for each in after):
            found.append(edit)
        if len(found) == _MOST_SUGGESTED - 1:
            break
    return tuple(found)


def fix_split_reshape(plan: Plan, operation: Operation, dims: Dims, torn: Collection[str]) -> tuple[Edit, ...]:
    """A constraint that puts the axes that a reshape splits apart onto one of its dimensions, the first after the major one that they
    divide."""
    split_dims = [at for at, dim in enumerate(dims) if any(base_axis(axis) in torn for axis in dim)]
    for at in range(split_dims[0] + 1, len(dims)):
        moved = [tuple(axis for axis in dim if base_axis(axis) not in torn) for dim in dims]
        moved[at] = (*moved[at], *sorted(torn, key=plan.mesh.names.index))
        edit = Constrain(f"/{operation.path}", Sharding(tuple(moved)))
        if operation.shape[at] % Sharding(tuple(moved)).parts(plan.mesh)[at]:
            continue
        try:
            after = partition(apply_edit(plan, edit), plan.hardware)
        except WorkbenchError:
            continue
        if not any(base_axis(axis) != axis for value_dims in after.dims for dim in value_dims or () for axis in dim):
            return (edit,)
    return ()


def _suggest_resizes(plan: Plan, padding: Padding) -> Iterator[Edit]:
    if len(padding.axes) == 1:
        old = plan.mesh[padding.axes[0]]
        sizes = [size for size in divisors(padding.size) if 2 <= size < 2 * old and size != old]
        yield from (ResizeAxis(padding.axes[0], size) for size in sorted(sizes, key=lambda size: (abs(size - old), size))[:2])
    if padding.dim in plan.program.dims:
        others = [name for name, size in plan.mesh.axes if name not in padding.axes and size > 1 and padding.size % size == 0]
        yield from (ShardDim(padding.dim, (name,)) for name in others[:1])
        yield ShardDim(padding.dim, ())


def _find_same_reshards(report: Report, reshard: Reshard) -> list[Reshard]:
    """Reshards of the same value, from there on to the same reader."""
    mine = {reshard.path, reshard.reader} if reshard.reader_source else {reshard.path}
    return [each for each in report.reshards if each.shape == reshard.shape and each.path in mine]


def _candidate_edits(plan: Plan, reshard: Reshard) -> Iterator[Edit]:
    """Candidate edits, those with the smallest effect first."""
    before, after = (_keep_if_plain(each) for each in (reshard.before, reshard.after))
    for pattern in () if reshard.is_argument else _name_value(plan, reshard):
        if reshard.rematerialises and before and after:
            yield from (Constrain(pattern, each) for each in find_intermediate_shardings(reshard, plan))
        yield from (Constrain(pattern, each) for each in (after, before) if each)
    if reshard.is_argument and after:
        yield Override(f"/{reshard.path}", after)
    for pattern, _ in plan.layout.constraints:
        if any(
            selects(pattern, path, source) for path, source in ((reshard.path, reshard.source), (reshard.reader, reshard.reader_source))
        ):
            yield Constrain(pattern, None)
    yield from _candidate_rules(plan, reshard)


def _keep_if_plain(sharding: Sharding) -> Sharding | None:
    """The sharding if a layout can express it: no sub-axes; else `None`."""
    return sharding if all(axis == base_axis(axis) for axis in sharding.axes) else None


def _name_value(plan: Plan, reshard: Reshard) -> Iterator[str]:
    """Patterns for the value in a constraint: its path, in all layers or in this one, or its line where others have the same path."""
    alike = {op.source for op in plan.program.operations if op.path == reshard.path and op.shape == reshard.shape}
    if reshard.path and len(alike) == 1:
        yield from dict.fromkeys((f"/{template(reshard.path)}", f"/{reshard.path}"))
    elif reshard.source:
        yield f"{reshard.source}/{reshard.path.rpartition('/')[2]}" if reshard.path else reshard.source


def find_intermediate_shardings(reshard: Reshard, plan: Plan) -> list[Sharding]:
    """Shardings one plain step from the value's present one and one from the one needed, the cheapest path first; the best three."""
    axes = list(dict.fromkeys((*reshard.before.axes, *reshard.after.axes)))
    if len(axes) > _MOST_AXES:
        return []
    found = []
    for sharding in _shardings(axes, len(reshard.shape)):
        steps = [step_sends(reshard.shape, *pair, plan.mesh) for pair in ((reshard.before, sharding), (sharding, reshard.after))]
        is_even = all(size % parts == 0 for size, parts in zip(reshard.shape, sharding.parts(plan.mesh), strict=True))
        if is_even and None not in steps:
            found.append((sum(step or 0 for step in steps), -len(sharding.axes), str(sharding), sharding))
    return [each[-1] for each in sorted(found, key=lambda each: each[:-1])[:_MOST_SUGGESTED]]


def step_sends(shape: tuple[int, ...], before: Sharding, after: Sharding, mesh: Mesh) -> float | None:
    """The number of elements that a device sends in a plain step; `None` if the step is not plain.

    A plain step adds axes at the minor end of dimensions (each device slices), takes axes from there (it gathers), or moves the minor axes
    of one dimension to the minor end of another (an all-to-all). XLA's partitioner has a direct implementation of each.
    """
    old, new = _axes_of(before), _axes_of(after)
    if _is_prefix(old, new):
        return 0 if old != new else None
    if _is_prefix(new, old):
        return math.prod(local_shape(shape, new, mesh)) - math.prod(local_shape(shape, old, mesh))
    if not (moved := _find_moved_axes(old, new)):
        return None
    return math.prod(local_shape(shape, old, mesh)) * (1 - 1 / math.prod(axis_size(axis, mesh) for axis in moved))


def _is_prefix(fewer: Dims, more: Dims) -> bool:
    """Whether each dimension's axes in the first are its major axes in the second."""
    return all(few == many[: len(few)] for few, many in zip(fewer, more, strict=True))


def _find_moved_axes(old: Dims, new: Dims) -> tuple[str, ...]:
    """The minor axes of one dimension that are at the minor end of another in the new sharding, if all else is unchanged."""
    changed = [(before, after) for before, after in zip(old, new, strict=True) if before != after]
    if len(changed) != 2:
        return ()
    (more, less), (few, many) = sorted(changed, key=lambda each: len(each[1]) - len(each[0]))
    moved = more[len(less) :]
    return moved if (*less, *moved) == more and (*few, *moved) == many else ()


def _axes_of(sharding: Sharding) -> Dims:
    return tuple(axes or () for axes in sharding.dims)


def _shardings(axes: list[str], rank: int) -> Iterator[Sharding]:
    """All shardings of this rank over some of these axes, except the replicated one."""
    for count in range(1, len(axes) + 1):
        for order in itertools.permutations(axes, count):
            for dims in itertools.combinations_with_replacement(range(rank), count):
                yield from (Sharding(tuple(each)) for each in [_place_axes(order, dims, rank)])


def _place_axes(order: tuple[str, ...], dims: tuple[int, ...], rank: int) -> list[tuple[str, ...]]:
    """Axes in their dimensions: `order` holds those of the first dimension first."""
    return [tuple(axis for axis, at in zip(order, dims, strict=True) if at == dim) for dim in range(rank)]


def _candidate_rules(plan: Plan, reshard: Reshard) -> Iterator[Edit]:
    """The dimensions of the value that are sharded differently before and after: as the reader has them, or replicated."""
    for dim, old, new in zip(reshard.dims, reshard.before.dims, reshard.after.dims, strict=True):
        if old != new and dim in plan.program.dims and (rule := plan.layout.rule(dim)):
            plain = tuple(axis for axis in new or () if axis == base_axis(axis))
            yield from (ShardDim(dim, axes) for axes in (plain, tuple(reversed(rule)), ()) if axes != rule)


__all__ = ["find_intermediate_shardings", "find_remedies", "step_sends"]
