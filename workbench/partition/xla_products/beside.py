"""Groups by rows or columns, alike in the result and one operand: the other operand is gathered among the groups, or, where it is held by
several, sliced and gathered within each."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.partition.xla_groups import (
    Groups,
    aligned_with,
    are_same_groups,
    grouped_along,
    made_whole,
    matching_dims,
    replicas_grouped_as,
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


def by_rows_or_columns(walk: "Walk", task: Task, *, keeps: bool) -> bool:
    left, right, result, _, _ = task
    pair, kinds = (left, right), (walk.mapping.rows, walk.mapping.columns)
    own = [walk.parts(each.number, each.tiles, kinds[each.number]) for each in pair]
    kept = [walk.parts(RESULT, result.tiles, kind) for kind in kinds]
    may = [own[at] == kept[at] > 1 for at in (LEFT, RIGHT)]
    if any(may):
        at = LEFT if may[LEFT] and (not may[RIGHT] or own[LEFT] * walk.bytes_of(right) < own[RIGHT] * walk.bytes_of(left)) else RIGHT
        matching = kinds[at]
    else:
        at = next((at for at in (LEFT, RIGHT) if own[at] > 1 and kept[at] > 1), -1)
        if at < 0:
            return False
        tiles = pair[at].tiles
        matching = tuple(each for each in kinds[at] if tiles.shape[each[at]] == result.tiles.shape[each.result] > 1)
    return bool(matching) and _beside(walk, task, at, matching, (own, kept), keeps=keeps)


def _beside(
    walk: "Walk", task: Task, at: int, matching: Sequence[Shared], parts: tuple[Sequence[int], Sequence[int]], *, keeps: bool
) -> bool:
    """Groups by what `mine` and the result have alike; the other operand is wanted by each."""
    pair, result, devices = [task.left, task.right], task.result, task.devices
    mine, other = pair[at], pair[1 - at]
    near = grouped_along(result.tiles, [each.result for each in matching])
    shape = list(mine.tiles.shape)
    for each in matching:
        shape[each[at]] = result.tiles.shape[each.result]
    group = aligned_with(grouped_along(canonical(mine.tiles.reshape(shape)), [each[at] for each in matching]), near)
    if keeps and not are_equal(mine.tiles, ungrouped_from(group)):
        return False
    found = _other_groups(walk, mine, other, near, parts, result)
    if found is None and not is_whole(other.tiles) and not walk.mapping.spatial:
        nearer = walk.moved(other, walk.inferred(other, result, mine), devices)
        found = _other_groups(walk, mine, nearer, near, parts, result)
        other = nearer if found is not None else other
    mine = walk.moved(mine, ungrouped_from(group), devices)
    wanted = _for_groups(walk, other, found, near, devices)
    pair[at], pair[1 - at] = in_group(mine, group), wanted
    walk.partition(Task(pair[LEFT], pair[RIGHT], Target(near.shape(result.shape), near.inner), inside(devices, near), task.leaf))
    return True


def _for_groups(walk: "Walk", other: Operand, found: Groups | None, near: Groups, devices: Devices) -> Operand:
    """The other operand as each group holds all that it needs of it."""
    inner = alike(other.shape, near.members.shape[1])
    if found is None:
        return walk.whole(other, devices)._replace(tiles=inner)
    target, rank = ungrouped_from(found), len(other.shape)
    if found.dims == (rank,):
        return walk.moved(other, target, devices)._replace(tiles=found.inner)
    is_same = are_same_groups(grouped_along(target, found.dims), found)
    if other.tiles.shape[-1] == 1 or not is_same:
        other = walk.moved(other, target, devices)
    gathered = walk.moved(other, made_whole(other.tiles, [dim for dim in found.dims if dim < rank]), devices)
    return gathered._replace(tiles=found.inner)


def _other_groups(
    walk: "Walk", mine: Operand, other: Operand, near: Groups, parts: tuple[Sequence[int], Sequence[int]], result: Target
) -> Groups | None:
    """How the other operand is grouped as `near`: by its replicas, by dimensions that lie so, or by dimensions that are gathered."""
    tiles, rank, count = other.tiles, len(other.shape), len(near.members)
    if is_whole(tiles):
        return None
    holds = tiles.shape[-1] > 1 and tiles.shape[-1] % count == 0
    if holds:
        for dim in range(rank, -1, -1):
            if tiles.shape[dim] % count == 0:
                found = replicas_grouped_as(canonical(np.swapaxes(tiles, dim, -1)), tiles.shape[dim] // count, near.members)
                if found is not None:
                    return found
        dims: list[int] | None = [rank]
    else:
        dims = matching_dims(tiles, near.members)
        if dims is None:
            dims = _gathered_dims(walk, mine, other, count, parts, result)
    if dims is None:
        return None
    if dims == [rank]:
        return aligned_with(grouped_along(tiles, dims, [tiles.shape[rank] // count]), near, in_order=False)
    group = grouped_along(tiles, dims)
    return aligned_with(group, near, in_order=False) if len(group.members) == count else None


def _gathered_dims(
    walk: "Walk", mine: Operand, other: Operand, count: int, parts: tuple[Sequence[int], Sequence[int]], result: Target
) -> list[int] | None:
    own, kept = parts
    at, kinds = other.number, walk.mapping
    summed = [walk.parts(each.number, each.tiles, kinds.summed) for each in (mine, other)]
    by_summed = summed[1] == count and own[at] == kept[at]
    by_own = own[at] == count and summed[0] == summed[1]
    made = math.prod(-(-size // cut) for size, cut in zip(result.shape, result.tiles.shape[:-1], strict=True))
    if by_summed and (not by_own or walk.bytes_of(other) <= made * walk.itemsizes[RESULT]):
        return [each[at] for each in kinds.summed]
    return [each[at] for each in (kinds.columns if at else kinds.rows)] if by_own else None
