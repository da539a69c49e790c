"""Products that all devices of a group lie along one kind of dimension of: there the walk ends."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.partition.xla_groups import (
    made_whole,
)
from workbench.partition.xla_products.values import (
    LEFT,
    RESULT,
    RIGHT,
    Task,
    are_equal,
    there,
)
from workbench.partition.xla_tiles import Devices, is_whole, swaps

if TYPE_CHECKING:
    from workbench.partition.xla_products.walk import Walk


def at_once(walk: "Walk", task: Task, *, may_move: bool) -> bool:
    left, right, result, devices, leaf = task
    kinds, count = walk.mapping, devices.shape[1]
    if result.tiles.shape[-1] > 1 and not is_whole(result.tiles):
        return False
    lies = result.tiles
    batch, summed = (
        [walk.parts(tensor, tiles, kind) for tensor, tiles in ((LEFT, left.tiles), (RIGHT, right.tiles))]
        for kind in (kinds.batch, kinds.summed)
    )
    own = walk.parts(LEFT, left.tiles, kinds.rows), walk.parts(RIGHT, right.tiles, kinds.columns)
    kept = walk.parts(RESULT, lies, kinds.rows), walk.parts(RESULT, lies, kinds.columns)
    out = walk.parts(RESULT, lies, kinds.batch)
    if batch == [count, count] and are_equal(walk.turned(left.tiles, LEFT, RIGHT), right.tiles):
        leaf(left, right)
        walk.bring(result, there(walk.turned(left.tiles, LEFT, RESULT)), devices)
        return True
    for moves_far in (False, True):
        for mine, other in ((left, right), (right, left)):
            if batch[mine.number] == out == count and are_equal(walk.turned(mine.tiles, mine.number, RESULT), lies):
                target = there(walk.turned(mine.tiles, mine.number, other.number))
                if moves_far or _moves_near(other.tiles, target):
                    pair = {mine.number: mine, other.number: walk.moved(other, target, devices)}
                    leaf(pair[LEFT], pair[RIGHT])
                    return True
    if summed == [count, count]:
        if not may_move and not is_whole(lies) and math.prod(lies.shape[:-1]) != count:
            return False
        _sum_at_once(walk, task)
        return True
    for mine, other in ((left, right), (right, left)):
        at = mine.number
        if own[at] == kept[at] == count and are_equal(walk.turned(mine.tiles, at, RESULT), lies):
            pair = {at: mine, other.number: walk.whole(other, devices)}
            leaf(pair[LEFT], pair[RIGHT])
            return True
    if may_move and count in (out, *kept):
        wanted = [walk.turned(lies, RESULT, LEFT), walk.turned(lies, RESULT, RIGHT)]
        at_left, at_right = out == count or kept[0] == count, out == count or (kept[1] == count and kept[0] != count)
        first = walk.moved(left, there(wanted[LEFT]), devices) if at_left else walk.whole(left, devices)
        second = walk.moved(right, there(wanted[RIGHT]), devices) if at_right else walk.whole(right, devices)
        leaf(first, second)
        return True
    return is_whole(lies) and _slice_and_sum(walk, task, summed)


def _sum_at_once(walk: "Walk", task: Task) -> None:
    """Both operands lie along summed dimensions alone: the parts are all-reduced."""
    left, right, result, devices, leaf = task
    if walk.bytes_of(left, local=False) < walk.bytes_of(right, local=False):
        left = walk.moved(left, there(walk.turned(right.tiles, RIGHT, LEFT)), devices)
    else:
        right = walk.moved(right, there(walk.turned(left.tiles, LEFT, RIGHT)), devices)
    leaf(left, right)
    made = math.prod(walk.made(left, right, result.shape))
    walk.reduce(made, left.tiles, [each.left for each in walk.mapping.summed], devices)
    walk.bring(result, made_whole(result.tiles, range(len(result.shape))), devices)


def _slice_and_sum(walk: "Walk", task: Task, summed: Sequence[int]) -> bool:
    """The result and one operand are whole: the operand is sliced if the result is smaller than the other one gathered."""
    left, right, result, devices, leaf = task
    size = math.prod(result.shape)
    for mine, other in ((right, left), (left, right)):
        if summed[mine.number] == devices.shape[1] and is_whole(other.tiles) and math.prod(mine.shape) > size:
            sliced = walk.moved(other, there(walk.turned(mine.tiles, mine.number, other.number)), devices)
            pair = {mine.number: mine, other.number: sliced}
            leaf(pair[LEFT], pair[RIGHT])
            made = math.prod(walk.made(pair[LEFT], pair[RIGHT], result.shape))
            walk.reduce(made, pair[LEFT].tiles, [each.left for each in walk.mapping.summed], devices)
            return True
    return False


def _moves_near(source: Devices, target: Devices) -> bool:
    """Whether a permutation, or all-to-alls, lead from one to the other."""
    return source.shape == target.shape or swaps(source, target) is not None
