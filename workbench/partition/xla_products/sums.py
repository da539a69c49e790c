"""Groups by a summed dimension, alike in both operands: parts are all-reduced, and slices of the result kept. And groups of those that hold
the same of the result, where the operands are whole."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.partition.xla_groups import (
    Groups,
    aligned_with,
    grouped_along,
    lies_within,
    made_whole,
    matching_dims,
    ungrouped_from,
)
from workbench.partition.xla_products.values import (
    LEFT,
    RESULT,
    RIGHT,
    Operand,
    Shared,
    Target,
    Task,
    alike,
    are_equal,
    in_group,
    inside,
)
from workbench.partition.xla_tiles import Devices, canonical, is_whole

if TYPE_CHECKING:
    from workbench.partition.xla_products.walk import Walk


def by_summed(walk: "Walk", task: Task, *, keeps: bool) -> bool:
    left, right = task.left, task.right
    kind = walk.mapping.summed
    parts = [walk.parts(each.number, each.tiles, kind) for each in (left, right)]
    if min(parts) == 1:
        return False
    noted = len(walk.sent)
    if parts[LEFT] == parts[RIGHT] and _over_summed(walk, task, kind, keeps=keeps):
        return True
    del walk.sent[noted:]
    some = tuple(each for each in kind if left.tiles.shape[each.left] == right.tiles.shape[each.right] > 1)
    return bool(some) and _over_summed(walk, task, some, keeps=keeps)


def _over_summed(walk: "Walk", task: Task, kind: Sequence[Shared], *, keeps: bool) -> bool:
    """Groups by the part of the sum they make; the larger operand says which."""
    left, right, result, devices, _ = task
    pair = [left, right]
    small = RIGHT if walk.bytes_of(left) > walk.bytes_of(right) else LEFT
    shape = list(pair[small].tiles.shape)
    for each in kind:
        shape[each[small]] = pair[1 - small].tiles.shape[each[1 - small]]
    tiles = [left.tiles, right.tiles]
    tiles[small] = canonical(tiles[small].reshape(shape))
    groups = [grouped_along(tiles[at], [each[at] for each in kind]) for at in (LEFT, RIGHT)]
    groups[small] = aligned_with(groups[small], groups[1 - small])
    target = ungrouped_from(groups[small])
    if keeps and not are_equal(pair[small].tiles, target):
        return False
    pair[small] = walk.moved(pair[small], target, devices)
    lies = [ungrouped_from(each) for each in groups]
    inner, outer, dims, at_last = _slices(walk, groups, result)
    within = inside(devices, groups[LEFT])
    rank = len(result.shape)
    others = [dim for dim in range(rank) if dim not in dims]
    part = made_whole(result.tiles, others)
    shape_in = tuple(-(-size // cut) for size, cut in zip(result.shape, part.shape[:-1], strict=True)) if dims else result.shape

    def summed(first: Operand, second: Operand) -> None:
        walk.leaf(first, second)
        made = walk.made(first, second, result.shape)
        if not dims:
            walk.reduce(math.prod(made), lies[LEFT], [each.left for each in kind], devices)
            return
        walk.reduce(math.prod(made), outer, dims, devices)
        kept = made_whole(outer, others)
        sliced = math.prod(-(-size // cut) for size, cut in zip(made, kept.shape[:-1], strict=True))
        _scatter(walk, sliced, dims, outer)
        if at_last:
            walk.reduce(sliced, outer, [rank], devices)

    first, second = (in_group(each, of) for each, of in zip(pair, groups, strict=True))
    walk.partition(Task(first, second, Target(shape_in, inner), within, summed))
    walk.bring(result, outer, devices)
    return True


def _scatter(walk: "Walk", sliced: int, dims: Sequence[int], outer: Devices) -> None:
    """One all-reduce whose slices are kept is a reduce-scatter."""
    if sum(outer.shape[dim] > 1 for dim in dims) == 1 and walk.sent[-1].step.kind == "all-reduce":
        walk.sent[-1] = walk.sent[-1]._replace(step=walk.sent[-1].step._replace(kind="reduce-scatter", after=sliced))


def _slices(walk: "Walk", groups: Sequence[Groups], result: Target) -> tuple[Devices, Devices, list[int], bool]:
    """How the result lies within the groups of a sum and as it comes out of them; along which dimensions its slices are kept; whether
    it is summed over replicas of these, too."""
    tiles, count, rank = _coarser(walk, groups, result), len(groups[LEFT].members), len(result.shape)
    whole = alike(result.shape, groups[LEFT].members.shape[1])
    nothing = made_whole(tiles, range(rank))
    if tiles.shape[-1] > 1 and not is_whole(tiles) and tiles.shape[-1] % count == 0:
        found = aligned_with(grouped_along(tiles, [rank], [tiles.shape[-1] // count]), groups[LEFT], in_order=False)
        return found.inner, ungrouped_from(found), [], False
    dims = matching_dims(tiles, groups[LEFT].members)
    if dims is not None:
        outer = tiles if dims else nothing
        inner = grouped_along(tiles, dims).inner if dims else whole
        return inner, outer, [dim for dim in dims if dim < rank], rank in dims
    for each in (walk.mapping.rows, walk.mapping.columns, walk.mapping.batch):
        if not is_whole(tiles) and walk.parts(RESULT, result.tiles, each) == count:
            dims = [shared.result for shared in each]
            found = aligned_with(grouped_along(tiles, dims), groups[LEFT])
            return found.inner, ungrouped_from(found), dims, False
    return whole, nothing, [], False


def _coarser(walk: "Walk", groups: Sequence[Groups], result: Target) -> Devices:
    """Where the result is cut finer than the one operand's own dimensions, and the other operand's are not: as the former lies."""
    tiles = result.tiles
    cut = [not is_whole(each.inner) for each in groups]
    if is_whole(tiles) or (tiles.shape[-1] > 1 and tiles.shape[-1] % len(groups[LEFT].members) == 0) or sum(cut) != 1:
        return tiles
    at = cut.index(True)
    own = made_whole(ungrouped_from(groups[at]), [each[at] for each in walk.mapping.summed])
    turned = walk.turned(own, at, RESULT)
    return turned if turned is not None and lies_within(result.shape, tiles, turned) else tiles


def by_replicas(walk: "Walk", task: Task) -> bool:
    left, right, result, devices, leaf = task
    rank = len(result.shape)
    if not (is_whole(left.tiles) and is_whole(right.tiles)) or result.tiles.shape[-1] == 1 or is_whole(result.tiles):
        return False
    groups = grouped_along(result.tiles, [rank])
    within = inside(devices, groups)
    inner = [alike(each.shape, within.shape[1]) for each in (left, right)]
    first, second = left._replace(tiles=inner[LEFT]), right._replace(tiles=inner[RIGHT])
    walk.partition(Task(first, second, Target(result.shape, groups.inner), within, leaf))
    return True
