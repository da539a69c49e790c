"""Find edits that avoid a reshard or make it cheaper; each is tried on the plan.

Candidates: a constraint of the value to what its reader needs, to its present sharding, or, if XLA gathers it whole, to
an intermediate sharding one plain step from both; its argument sharded as the reader needs it; removal of layout
constraints; other rules for its dimensions.
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

Analyze = Callable[[Plan], Report]  # passed in, because `analyze` imports this module

_MOST_TRIED = 10  # edits tried per reshard
_MOST_SUGGESTED = 3
_MOST_AXES = 3  # with more axes there are too many intermediate shardings


def find_remedies(analyze: Analyze, report: Report, reshard: Reshard) -> tuple[Remedy, ...]:
    """Return edits that reduce the bytes sent here without increasing those of the step; largest saving first."""
    plan, tried, evaluator = report.plan, [], _RemedyEvaluator(analyze, report, reshard)
    for edit in itertools.islice(dict.fromkeys(_candidate_edits(plan, reshard)), _MOST_TRIED):
        try:
            after = _same_devices(analyze(apply_edit(plan, edit)), report)
        except WorkbenchError:  # illegal, or refused by Shardy
            continue
        if (remedy := evaluator.remedy(edit, after)) is not None:
            tried.append(remedy)
    tried.sort(key=lambda remedy: (-remedy.saved, remedy.sent, remedy.added_bytes))
    return tuple(tried[:_MOST_SUGGESTED])


def _same_devices(after: Report, before: Report) -> Report:
    return after if before.stage is None else after.stages[min(before.stage, len(after.stages) - 1)]


class _RemedyEvaluator:
    """Compares planned figures with and without an edit; at the reshard itself with XLA's, if known."""

    def __init__(self, analyze: Analyze, report: Report, reshard: Reshard) -> None:
        self._reshard, self._is_settled = reshard, report.partitioned is not None
        self._before = analyze(report.plan) if self._is_settled else report
        planned = sum(
            candidate.sent
            for candidate in self._before.reshards
            if (candidate.path, candidate.reader, *_reshard_key(candidate)) == (reshard.path, reshard.reader, *_reshard_key(reshard))
        )
        self._extra_sent = reshard.sent - planned  # of XLA
        self._peak = (report if reshard.rematerialises else self._before).memory.peak

    def remedy(self, edit: Edit, after: Report) -> Remedy | None:
        """Return the effect of an edit if this place sends less and the step no more; else `None`."""
        before, sent = (sum(same.sent for same in _find_same_reshards(report, self._reshard)) for report in (self._before, after))
        saved = self._before.sent + self._extra_sent - after.sent
        if sent >= before + self._extra_sent or saved < 0:
            return None
        if self._is_settled and not _is_certain(self._before.reshards, after.reshards, self._reshard, after.mesh):
            return None
        return Remedy(edit, sent, saved, after.memory.peak - self._peak)


def _is_certain(before: Sequence[Reshard], after: Sequence[Reshard], reshard: Reshard, mesh: Mesh) -> bool:
    """Return whether XLA sends what is planned: fewer values have the reshard, and new reshards are plain steps."""
    old, new = (Counter(map(_reshard_key, reshards)) for reshards in (before, after))
    return new[_reshard_key(reshard)] < max(old[_reshard_key(reshard)], 1) and all(
        step_sends(*ends, mesh) is not None for ends in new.keys() - old.keys()
    )


def _reshard_key(each: Reshard) -> tuple[tuple[int, ...], Sharding, Sharding]:
    return each.shape, each.before, each.after


def avoid_rematerialisation(plan: Plan, planned: Propagated, reshard: Reshard) -> tuple[Edit, ...]:
    """Return an edit that avoids gathering the value whole, tried on Shardy's propagation only."""
    before = _list_reshards(plan, planned)
    elsewhere = _total_payload(planned) - sum(
        entry.payload for entry in before if (entry.path, *_reshard_key(entry)) == (reshard.path, *_reshard_key(reshard))
    )
    candidates = (entry for entry in _candidate_edits(plan, reshard) if isinstance(entry, Constrain | Override))
    for edit in itertools.islice(dict.fromkeys(candidates), _MOST_SUGGESTED):
        try:
            after = partition(changed := apply_edit(plan, edit), plan.hardware)
        except WorkbenchError:
            continue
        if _total_payload(after) < elsewhere + reshard.payload and _is_certain(before, _list_reshards(changed, after), reshard, plan.mesh):
            return (edit,)
    return ()


def _list_reshards(plan: Plan, planned: Propagated) -> tuple[Reshard, ...]:
    return reshard_list(plan, planned, lambda moves: [0.0] * len(moves))


def _total_payload(planned: Propagated) -> int:
    times = planned.structure.regions
    return sum(collective.payload * times[collective.region].runs_per_step for collective in planned.reshards)


def fix_padding(plan: Plan, padding: Padding) -> tuple[Edit, ...]:
    """Return axis sizes or other axes that divide the dimension evenly, each tried on Shardy's propagation."""
    edits: list[Edit] = []
    for edit in _suggest_resizes(plan, padding):
        try:
            after = padding_list(changed := apply_edit(plan, edit), partition(changed, plan.hardware))
        except WorkbenchError:
            continue
        if not any((remaining.path, remaining.dim) == (padding.path, padding.dim) for remaining in after):
            edits.append(edit)
        if len(edits) == _MOST_SUGGESTED - 1:
            break
    return tuple(edits)


def fix_split_reshape(plan: Plan, operation: Operation, dims: Dims, torn: Collection[str]) -> tuple[Edit, ...]:
    """Return a constraint that moves the split axes to the first dimension after the major one that they divide."""
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
    """Return reshards of the same value, including those after its reader."""
    paths = {reshard.path, reshard.reader} if reshard.reader_source else {reshard.path}
    return [candidate for candidate in report.reshards if candidate.shape == reshard.shape and candidate.path in paths]


def _candidate_edits(plan: Plan, reshard: Reshard) -> Iterator[Edit]:
    before, after = (_plain_or_none(sharding) for sharding in (reshard.before, reshard.after))
    for pattern in () if reshard.is_argument else _name_value(plan, reshard):
        if reshard.rematerialises and before and after:
            yield from (Constrain(pattern, sharding) for sharding in find_intermediate_shardings(reshard, plan))
        yield from (Constrain(pattern, sharding) for sharding in (after, before) if sharding)
    if reshard.is_argument and after:
        yield Override(f"/{reshard.path}", after)
    for pattern, _ in plan.layout.constraints:
        if any(
            selects(pattern, path, source) for path, source in ((reshard.path, reshard.source), (reshard.reader, reshard.reader_source))
        ):
            yield Constrain(pattern, None)
    yield from _candidate_rules(plan, reshard)


def _plain_or_none(sharding: Sharding) -> Sharding | None:
    """Return the sharding if a layout can express it (no sub-axes), else `None`."""
    return sharding if all(axis == base_axis(axis) for axis in sharding.axes) else None


def _name_value(plan: Plan, reshard: Reshard) -> Iterator[str]:
    """Yield patterns for the value: its path, in all layers or one, or its source line if the path is ambiguous."""
    sources = {op.source for op in plan.program.operations if op.path == reshard.path and op.shape == reshard.shape}
    if reshard.path and len(sources) == 1:
        yield from dict.fromkeys((f"/{template(reshard.path)}", f"/{reshard.path}"))
    elif reshard.source:
        yield f"{reshard.source}/{reshard.path.rpartition('/')[2]}" if reshard.path else reshard.source


def find_intermediate_shardings(reshard: Reshard, plan: Plan) -> list[Sharding]:
    """Return up to three shardings one plain step from both the present and the needed one, cheapest first."""
    axes = list(dict.fromkeys((*reshard.before.axes, *reshard.after.axes)))
    if len(axes) > _MOST_AXES:
        return []
    found = []
    for sharding in _shardings(axes, len(reshard.shape)):
        steps = [step_sends(reshard.shape, *pair, plan.mesh) for pair in ((reshard.before, sharding), (sharding, reshard.after))]
        is_even = all(size % parts == 0 for size, parts in zip(reshard.shape, sharding.parts(plan.mesh), strict=True))
        if is_even and None not in steps:
            found.append((sum(step or 0 for step in steps), -len(sharding.axes), str(sharding), sharding))
    return [entry[-1] for entry in sorted(found, key=lambda entry: entry[:-1])[:_MOST_SUGGESTED]]


def step_sends(shape: tuple[int, ...], before: Sharding, after: Sharding, mesh: Mesh) -> float | None:
    """Return the elements that a device sends in a plain step; `None` if the step is not plain.

    A plain step adds axes at the minor end of dimensions (slice), removes axes there (all-gather), or moves the minor
    axes of one dimension to the minor end of another (all-to-all). XLA's partitioner implements each directly.
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
    """Return whether each dimension's axes in `fewer` are its major axes in `more`."""
    return all(few == many[: len(few)] for few, many in zip(fewer, more, strict=True))


def _find_moved_axes(old: Dims, new: Dims) -> tuple[str, ...]:
    """Return the axes moved from the minor end of one dimension to that of another, if nothing else changed."""
    changed = [(before, after) for before, after in zip(old, new, strict=True) if before != after]
    if len(changed) != 2:
        return ()
    (more, less), (few, many) = sorted(changed, key=lambda pair: len(pair[1]) - len(pair[0]))
    moved = more[len(less) :]
    return moved if (*less, *moved) == more and (*few, *moved) == many else ()


def _axes_of(sharding: Sharding) -> Dims:
    return tuple(axes or () for axes in sharding.dims)


def _shardings(axes: list[str], rank: int) -> Iterator[Sharding]:
    for count in range(1, len(axes) + 1):
        for order in itertools.permutations(axes, count):
            for dims in itertools.combinations_with_replacement(range(rank), count):
                yield from (Sharding(tuple(placed)) for placed in [_place_axes(order, dims, rank)])


def _place_axes(order: tuple[str, ...], dims: tuple[int, ...], rank: int) -> list[tuple[str, ...]]:
    return [tuple(axis for axis, at in zip(order, dims, strict=True) if at == dim) for dim in range(rank)]


def _candidate_rules(plan: Plan, reshard: Reshard) -> Iterator[Edit]:
    """Yield rules for dimensions sharded differently before and after: as the reader has them, or unsharded."""
    for dim, old, new in zip(reshard.dims, reshard.before.dims, reshard.after.dims, strict=True):
        if old != new and dim in plan.program.dims and (rule := plan.layout.rule(dim)):
            plain = tuple(axis for axis in new or () if axis == base_axis(axis))
            yield from (ShardDim(dim, axes) for axes in (plain, tuple(reversed(rule)), ()) if axes != rule)


__all__ = ["find_intermediate_shardings", "find_remedies", "step_sends"]
