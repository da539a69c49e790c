"""Groups by a batch of products, alike in the result and one operand: the other operand is brought there."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.partition.xla_groups import (
    Groups,
    aligned_with,
    grouped_along,
    ungrouped_from,
)
from workbench.partition.xla_products.values import (
    LEFT,
    RESULT,
    RIGHT,
    Operand,
    Target,
    Task,
    alike,
    are_equal,
)
from workbench.partition.xla_tiles import Devices, canonical, is_whole

if TYPE_CHECKING:
    from workbench.partition.xla_products.walk import Walk


def by_batch(walk: "Walk", task: Task, *, keeps: bool) -> bool:
    left, right, result, devices, _ = task
    kind = walk.mapping.batch
    parts = walk.parts(RESULT, result.tiles, kind)
    if parts == 1 or parts not in (walk.parts(LEFT, left.tiles, kind), walk.parts(RIGHT, right.tiles, kind)):
        return False
    dims = [[each[tensor] for each in kind] for tensor in (LEFT, RIGHT, RESULT)]
    is_alike = all(left.tiles.shape[each.left] == right.tiles.shape[each.right] for each in kind)
    if is_alike and keeps:
        near = aligned_with(grouped_along(right.tiles, dims[RIGHT]), grouped_along(left.tiles, dims[LEFT]))
        is_alike = are_equal(ungrouped_from(near), right.tiles)
    if not is_alike:
        return _to_batch(walk, task, keeps=keeps)
    groups = [grouped_along(each.tiles, dims[each.number]) for each in (left, right)]
    small = RIGHT if walk.bytes_of(left) > walk.bytes_of(right) else LEFT
    groups[small] = aligned_with(groups[small], groups[1 - small])
    pair = [left, right]
    pair[small] = walk.moved(pair[small], ungrouped_from(groups[small]), devices)
    shape = list(result.tiles.shape)
    for each in kind:
        shape[each.result] = left.tiles.shape[each.left]
    near = aligned_with(grouped_along(canonical(result.tiles.reshape(shape)), dims[RESULT]), groups[LEFT])
    walk.within(task._replace(left=pair[LEFT], right=pair[RIGHT]), groups, near)
    return True


def _to_batch(walk: "Walk", task: Task, *, keeps: bool) -> bool:
    """The operands' batches lie otherwise, and are brought to the result's."""
    left, right, result, devices, _ = task
    kinds = walk.mapping
    near = grouped_along(result.tiles, [each.result for each in kinds.batch])
    groups, moved = [], []
    summed = [walk.parts(each.number, each.tiles, kinds.summed) for each in (left, right)]
    for each in (left, right):
        found = _batch_groups(walk, each, result, near, summed, devices, keeps=keeps)
        if found is None:
            return False
        operand, group = found
        moved.append(operand)
        groups.append(group)
    walk.within(task._replace(left=moved[LEFT], right=moved[RIGHT]), groups, near)
    return True


def _batch_groups(
    walk: "Walk", operand: Operand, result: Target, near: Groups, summed: Sequence[int], devices: Devices, *, keeps: bool
) -> tuple[Operand, Groups] | None:
    at, kinds = operand.number, walk.mapping
    dims = [each[at] for each in kinds.batch]
    if is_whole(operand.tiles):
        sizes = tuple(result.tiles.shape[each.result] for each in kinds.batch)
        inner = alike(operand.shape, near.members.shape[1])
        return operand, Groups(near.members, tuple(dims), sizes, inner)
    shape = list(operand.tiles.shape)
    for each in kinds.batch:
        shape[each[at]] = result.tiles.shape[each.result]
    own = kinds.columns if at else kinds.rows
    if math.prod(shape) > operand.tiles.size and not _fitted(
        shape, operand.tiles, [each[at] for each in own], [each[at] for each in kinds.summed], summed[at], summed[1 - at]
    ):
        return None
    if math.prod(shape) != operand.tiles.size:
        return None
    group = aligned_with(grouped_along(canonical(operand.tiles.reshape(shape)), dims), near)
    target = ungrouped_from(group)
    if keeps and not are_equal(operand.tiles, target):
        return None
    return walk.moved(operand, target, devices), group


def _fitted(shape: list[int], tiles: Devices, own: Sequence[int], summed: Sequence[int], parts: int, other: int) -> bool:
    """Take what is more than there are devices from the replicas, or from dimensions that are no batch; in place."""
    ratio, rest = divmod(math.prod(shape), tiles.size)
    if rest:
        return False
    own_parts = math.prod(tiles.shape[dim] for dim in own)
    if tiles.shape[-1] > 1 and tiles.shape[-1] % ratio == 0:
        shape[-1] //= ratio
    elif ratio == own_parts and (ratio != parts or parts == other):
        for dim in own:
            shape[dim] = 1
    elif ratio == parts:
        for dim in summed:
            shape[dim] = 1
    else:
        return False
    return True
