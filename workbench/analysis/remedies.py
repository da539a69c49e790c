"""Edits that avoid a resharding or make it cheaper. Each is tried on the plan before it is suggested.

What is tried: the value constrained to what its reader needs, to what it lies like, or, where XLA gathers it whole, to a sharding in
between that is one plain step from either; its argument placed as the reader needs it; constraints of the layout taken back; dimensions
placed otherwise.
"""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from workbench.core.mesh import Mesh
from workbench.core.paths import template
from workbench.core.program import Operation
from workbench.core.selectors import selects
from workbench.core.sharding import Sharding, axis_size, base_axis
from workbench.errors import WorkbenchError
from workbench.plan.edits import Constrain, Edit, Override, ShardDim
from workbench.plan.mesh_edits import ResizeAxis
from workbench.plan.plan import Plan
from workbench.propagation import Dims, Propagated, local_shape, padding_list, partition, reshard_list
from workbench.reports.padding import Padding
from workbench.reports.report import Report
from workbench.reports.reshard import Remedy, Reshard
from workbench.units import divisors

_TRIED = 10  # reports made for one resharding
_SUGGESTED = 3
_AXES = 3  # of more, too many shardings in between


def find_remedies(report: Report, place: Reshard) -> tuple[Remedy, ...]:
    """The edits that send less at this place and no more in the whole step; what saves most first."""
    plan, tried, judge = report.plan, [], _Judge(report, place)
    for edit in itertools.islice(dict.fromkeys(_candidates(plan, place)), _TRIED):
        try:
            after = plan.apply(edit).report()
        except WorkbenchError:  # not legal, or refused by Shardy
            continue
        if (remedy := judge.remedy(edit, after)) is not None:
            tried.append(remedy)
    tried.sort(key=lambda each: (-each.saved, each.sent, each.held))
    return tuple(tried[:_SUGGESTED])


class _Judge:
    """Compares plans as planned, without an edit and with it; at the place itself, with what XLA sends there if that is known."""

    def __init__(self, report: Report, place: Reshard) -> None:
        self._place, self._settled = place, report.partitioned is not None
        self._before = report.plan.report() if self._settled else report
        planned = sum(
            each.sent
            for each in self._before.reshards
            if (each.path, each.reader, *_ends(each)) == (place.path, place.reader, *_ends(place))
        )
        self._more = place.sent - planned  # what XLA sends there
        self._peak = (report if place.rematerialises else self._before).memory.peak

    def remedy(self, edit: Edit, after: Report) -> Remedy | None:
        """What an edit does, if it is a remedy: this place sends less, the step no more."""
        before, here = (sum(each.sent for each in _at(report, self._place)) for report in (self._before, after))
        saved = self._before.sent + self._more - after.sent
        if here >= before + self._more or saved < 0:
            return None
        if self._settled and not _is_sure(self._before.reshards, after.reshards, self._place, after.mesh):
            return None
        return Remedy(edit, here, saved, after.memory.peak - self._peak)


def _is_sure(before: Sequence[Reshard], after: Sequence[Reshard], place: Reshard, mesh: Mesh) -> bool:
    """Whether XLA sends what is planned: fewer values go from and to the same shardings, and what is resharded anew takes a plain step."""
    old, new = (Counter(map(_ends, each)) for each in (before, after))
    return new[_ends(place)] < max(old[_ends(place)], 1) and all(step_sends(*ends, mesh) is not None for ends in new.keys() - old.keys())


def _ends(each: Reshard) -> tuple[tuple[int, ...], Sharding, Sharding]:
    return each.shape, each.before, each.after


def avoiding(plan: Plan, planned: Propagated, place: Reshard) -> tuple[Edit, ...]:
    """An edit with which XLA need not gather the value whole, tried on Shardy's answer alone: for a diagnostic."""
    before = _planned(plan, planned)
    elsewhere = _payload(planned) - sum(each.payload for each in before if (each.path, *_ends(each)) == (place.path, *_ends(place)))
    gentle = (each for each in _candidates(plan, place) if isinstance(each, Constrain | Override))
    for edit in itertools.islice(dict.fromkeys(gentle), _SUGGESTED):
        try:
            after = partition(changed := plan.apply(edit), plan.hardware)
        except WorkbenchError:
            continue
        if _payload(after) < elsewhere + place.payload and _is_sure(before, _planned(changed, after), place, plan.mesh):
            return (edit,)
    return ()


def _planned(plan: Plan, planned: Propagated) -> tuple[Reshard, ...]:
    """What is resharded; nothing is priced."""
    return reshard_list(plan, planned, lambda moves: [0.0] * len(moves))


def _payload(planned: Propagated) -> int:
    """Bytes of all collectives of a step."""
    times = planned.structure.regions
    return sum(each.payload * times[each.region].times for each in planned.reshards)


def resized(plan: Plan, padding: Padding) -> tuple[Edit, ...]:
    """Mesh axes of another size, and other axes, with which the dimension divides; each tried on Shardy's answer."""
    found: list[Edit] = []
    for edit in _resizings(plan, padding):
        try:
            after = padding_list(changed := plan.apply(edit), partition(changed, plan.hardware))
        except WorkbenchError:
            continue
        if not any((each.path, each.dim) == (padding.path, padding.dim) for each in after):
            found.append(edit)
        if len(found) == _SUGGESTED - 1:
            break
    return tuple(found)


def unsplit(plan: Plan, operation: Operation, dims: Dims, torn: Collection[str]) -> tuple[Edit, ...]:
    """A constraint that puts the axes a reshape tore apart onto one of its dimensions, the first behind the major one that they divide."""
    places = [place for place, dim in enumerate(dims) if any(base_axis(axis) in torn for axis in dim)]
    for place in range(places[0] + 1, len(dims)):
        apart = [tuple(axis for axis in dim if base_axis(axis) not in torn) for dim in dims]
        apart[place] = (*apart[place], *sorted(torn, key=plan.mesh.names.index))
        edit = Constrain(f"/{operation.path}", Sharding(tuple(apart)))
        if operation.shape[place] % Sharding(tuple(apart)).parts(plan.mesh)[place]:
            continue
        try:
            after = partition(plan.apply(edit), plan.hardware)
        except WorkbenchError:
            continue
        if not any(base_axis(axis) != axis for lies in after.dims for dim in lies or () for axis in dim):
            return (edit,)
    return ()


def _resizings(plan: Plan, padding: Padding) -> Iterator[Edit]:
    if len(padding.axes) == 1:
        old = plan.mesh[padding.axes[0]]
        sizes = [size for size in divisors(padding.size) if 2 <= size < 2 * old and size != old]
        yield from (ResizeAxis(padding.axes[0], size) for size in sorted(sizes, key=lambda size: (abs(size - old), size))[:2])
    if padding.dim in plan.program.dims:
        others = [name for name, size in plan.mesh.axes if name not in padding.axes and size > 1 and padding.size % size == 0]
        yield from (ShardDim(padding.dim, (name,)) for name in others[:1])
        yield ShardDim(padding.dim, ())


def _at(report: Report, place: Reshard) -> list[Reshard]:
    """What is resharded of the same value, and from there on to the same reader."""
    mine = {place.path, place.reader} if place.reader_source else {place.path}
    return [each for each in report.reshards if each.shape == place.shape and each.path in mine]


def _candidates(plan: Plan, place: Reshard) -> Iterator[Edit]:
    """Edits worth a try, the gentlest first."""
    before, after = (_plain(each) for each in (place.before, place.after))
    for pattern in () if place.is_argument else _patterns(plan, place):
        if place.rematerialises and before and after:
            yield from (Constrain(pattern, each) for each in between(place, plan))
        yield from (Constrain(pattern, each) for each in (after, before) if each)
    if place.is_argument and after:
        yield Override(f"/{place.path}", after)
    for pattern, _ in plan.layout.constraints:
        if any(selects(pattern, path, source) for path, source in ((place.path, place.source), (place.reader, place.reader_source))):
            yield Constrain(pattern, None)
    yield from _placements(plan, place)


def _plain(sharding: Sharding) -> Sharding | None:
    """The sharding, if a layout can say it: no sub-axes."""
    return sharding if all(axis == base_axis(axis) for axis in sharding.axes) else None


def _patterns(plan: Plan, place: Reshard) -> Iterator[str]:
    """Names for the value in a constraint: its path, in all layers or here alone, or its line where others have the same path."""
    alike = {op.source for op in plan.program.operations if op.path == place.path and op.shape == place.shape}
    if place.path and len(alike) == 1:
        yield from dict.fromkeys((f"/{template(place.path)}", f"/{place.path}"))
    elif place.source:
        yield f"{place.source}/{place.path.rpartition('/')[2]}" if place.path else place.source


def between(place: Reshard, plan: Plan) -> list[Sharding]:
    """Shardings that are one plain step from where the value lies and one from where it is needed, the cheapest way round first; the best
    three."""
    axes = list(dict.fromkeys((*place.before.axes, *place.after.axes)))
    if len(axes) > _AXES:
        return []
    found = []
    for sharding in _shardings(axes, len(place.shape)):
        steps = [step_sends(place.shape, *pair, plan.mesh) for pair in ((place.before, sharding), (sharding, place.after))]
        is_even = all(size % parts == 0 for size, parts in zip(place.shape, sharding.parts(plan.mesh), strict=True))
        if is_even and None not in steps:
            found.append((sum(step or 0 for step in steps), -len(sharding.axes), str(sharding), sharding))
    return [each[-1] for each in sorted(found, key=lambda each: each[:-1])[:_SUGGESTED]]


def step_sends(shape: tuple[int, ...], before: Sharding, after: Sharding, mesh: Mesh) -> float | None:
    """The elements that leave a device in a plain step; `None` if the step is not plain.

    Plain are: axes added at the minor end of dimensions (each device slices), axes taken from there (it gathers), or the minor axes of one
    dimension moved to the minor end of another (an all-to-all). XLA's partitioner has a direct way for each.
    """
    old, new = _axes_of(before), _axes_of(after)
    if _begin_with(old, new):
        return 0 if old != new else None
    if _begin_with(new, old):
        return math.prod(local_shape(shape, new, mesh)) - math.prod(local_shape(shape, old, mesh))
    if not (swapped := _swapped(old, new)):
        return None
    return math.prod(local_shape(shape, old, mesh)) * (1 - 1 / math.prod(axis_size(axis, mesh) for axis in swapped))


def _begin_with(fewer: Dims, more: Dims) -> bool:
    """Whether each dimension's axes of the one are its major axes in the other."""
    return all(few == many[: len(few)] for few, many in zip(fewer, more, strict=True))


def _swapped(old: Dims, new: Dims) -> tuple[str, ...]:
    """The minor axes of one dimension that are at the minor end of another in the new sharding, if all else is as it was."""
    changed = [(before, after) for before, after in zip(old, new, strict=True) if before != after]
    if len(changed) != 2:
        return ()
    (more, less), (few, many) = sorted(changed, key=lambda each: len(each[1]) - len(each[0]))
    moved = more[len(less) :]
    return moved if (*less, *moved) == more and (*few, *moved) == many else ()


def _axes_of(sharding: Sharding) -> Dims:
    return tuple(axes or () for axes in sharding.dims)


def _shardings(axes: list[str], rank: int) -> Iterator[Sharding]:
    """All shardings of this rank over some of these axes, but the one that leaves it whole."""
    for count in range(1, len(axes) + 1):
        for order in itertools.permutations(axes, count):
            for dims in itertools.combinations_with_replacement(range(rank), count):
                yield from (Sharding(tuple(each)) for each in [_placed(order, dims, rank)])


def _placed(order: tuple[str, ...], dims: tuple[int, ...], rank: int) -> list[tuple[str, ...]]:
    """Axes in their dimensions: `order` holds those of the first dimension first."""
    return [tuple(axis for axis, place in zip(order, dims, strict=True) if place == dim) for dim in range(rank)]


def _placements(plan: Plan, place: Reshard) -> Iterator[Edit]:
    """The dimensions of the value that are split otherwise before and after, as the reader has them, or whole."""
    for dim, old, new in zip(place.dims, place.before.dims, place.after.dims, strict=True):
        if old != new and dim in plan.program.dims and (rule := plan.layout.rule(dim)):
            plain = tuple(axis for axis in new or () if axis == base_axis(axis))
            yield from (ShardDim(dim, axes) for axes in (plain, tuple(reversed(rule)), ()) if axes != rule)


__all__ = ["between", "find_remedies", "step_sends"]
