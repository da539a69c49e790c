"""Products that all devices of a group lie along one kind of dimension of: there the walk ends."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

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


class _Parts(NamedTuple):
    """Into how many parts a group's devices split operands and result along each kind of dimension; pairs are of the left and the right
    one, of `kept` of the result's own rows and columns."""

    batch: tuple[int, int]
    summed: tuple[int, int]
    own: tuple[int, int]
    kept: tuple[int, int]
    out: int


def at_once(walk: "Walk", task: Task, *, may_move: bool) -> bool:
    """Whether the walk ends here: the cases in XLA's order."""
    lies, count = task.result.tiles, task.devices.shape[1]
    if lies.shape[-1] > 1 and not is_whole(lies):
        return False
    parts = _parts(walk, task)
    if _batch_alone(walk, task, parts) or _other_to_batch(walk, task, parts):
        return True
    if parts.summed == (count, count):
        return _sum_at_once(walk, task, may_move=may_move)
    if _other_whole(walk, task, parts) or (may_move and _to_result(walk, task, parts)):
        return True
    return is_whole(lies) and _slice_and_sum(walk, task, parts.summed)


def _parts(walk: "Walk", task: Task) -> _Parts:
    left, right, lies = task.left.tiles, task.right.tiles, task.result.tiles
    kinds = walk.mapping
    return _Parts(
        (walk.parts(LEFT, left, kinds.batch), walk.parts(RIGHT, right, kinds.batch)),
        (walk.parts(LEFT, left, kinds.summed), walk.parts(RIGHT, right, kinds.summed)),
        (walk.parts(LEFT, left, kinds.rows), walk.parts(RIGHT, right, kinds.columns)),
        (walk.parts(RESULT, lies, kinds.rows), walk.parts(RESULT, lies, kinds.columns)),
        walk.parts(RESULT, lies, kinds.batch),
    )


def _batch_alone(walk: "Walk", task: Task, parts: _Parts) -> bool:
    """Both operands lie alike along batch dimensions: the result is brought from there."""
    left, right, result, devices, leaf = task
    count = devices.shape[1]
    if parts.batch != (count, count) or not are_equal(walk.turned(left.tiles, LEFT, RIGHT), right.tiles):
        return False
    leaf(left, right)
    walk.bring(result, there(walk.turned(left.tiles, LEFT, RESULT)), devices)
    return True


def _other_to_batch(walk: "Walk", task: Task, parts: _Parts) -> bool:
    """One operand lies along batch dimensions as the result does: the other one goes there; a near one first."""
    left, right, result, devices, leaf = task
    for moves_far in (False, True):
        for mine, other in ((left, right), (right, left)):
            is_along = parts.batch[mine.number] == parts.out == devices.shape[1]
            if is_along and are_equal(walk.turned(mine.tiles, mine.number, RESULT), result.tiles):
                target = there(walk.turned(mine.tiles, mine.number, other.number))
                if moves_far or _moves_near(other.tiles, target):
                    pair = {mine.number: mine, other.number: walk.moved(other, target, devices)}
                    leaf(pair[LEFT], pair[RIGHT])
                    return True
    return False


def _other_whole(walk: "Walk", task: Task, parts: _Parts) -> bool:
    """One operand lies along its own dimensions as the result does: the other one is made whole."""
    left, right, result, devices, leaf = task
    for mine, other in ((left, right), (right, left)):
        at = mine.number
        if parts.own[at] == parts.kept[at] == devices.shape[1] and are_equal(walk.turned(mine.tiles, at, RESULT), result.tiles):
            pair = {at: mine, other.number: walk.whole(other, devices)}
            leaf(pair[LEFT], pair[RIGHT])
            return True
    return False


def _to_result(walk: "Walk", task: Task, parts: _Parts) -> bool:
    """The result lies along one kind of dimension: the operands that have it go there, another one is made whole."""
    left, right, result, devices, leaf = task
    rows, columns, batch = (each == devices.shape[1] for each in (*parts.kept, parts.out))
    if not (rows or columns or batch):
        return False
    is_left, is_right = batch or rows, batch or (columns and not rows)
    at_left, at_right = (walk.turned(result.tiles, RESULT, number) for number in (LEFT, RIGHT))
    first = walk.moved(left, there(at_left), devices) if is_left else walk.whole(left, devices)
    second = walk.moved(right, there(at_right), devices) if is_right else walk.whole(right, devices)
    leaf(first, second)
    return True


def _sum_at_once(walk: "Walk", task: Task, *, may_move: bool) -> bool:
    """Both operands lie along summed dimensions alone: the parts are all-reduced, unless the result should lie otherwise."""
    left, right, result, devices, leaf = task
    if not may_move and not is_whole(result.tiles) and math.prod(result.tiles.shape[:-1]) != devices.shape[1]:
        return False
    if walk.bytes_of(left, local=False) < walk.bytes_of(right, local=False):
        left = walk.moved(left, there(walk.turned(right.tiles, RIGHT, LEFT)), devices)
    else:
        right = walk.moved(right, there(walk.turned(left.tiles, LEFT, RIGHT)), devices)
    leaf(left, right)
    made = math.prod(walk.made(left, right, result.shape))
    walk.reduce(made, left.tiles, [each.left for each in walk.mapping.summed], devices)
    walk.bring(result, made_whole(result.tiles, range(len(result.shape))), devices)
    return True


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
