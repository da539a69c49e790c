"""The walk over a product: which way the partitioner takes, and what it sends on it."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from workbench.mesh import Mesh
from workbench.partition.xla_groups import Groups, combined, made_whole, transposed, ungrouped_from
from workbench.partition.xla_products.at_once import at_once
from workbench.partition.xla_products.batch import by_batch
from workbench.partition.xla_products.beside import by_rows_or_columns
from workbench.partition.xla_products.sums import by_replicas, by_summed
from workbench.partition.xla_products.values import (
    LEFT,
    RESULT,
    RIGHT,
    Mapping,
    Operand,
    Sent,
    Shared,
    Target,
    Task,
    in_group,
    inside,
)
from workbench.partition.xla_reshard import SLICE, Step, steps_within
from workbench.partition.xla_tiles import Devices, canonical, minor_groups, varying
from workbench.sharding import axis_size


class Walk:
    """Follows the partitioner and notes its moves. `devices` maps the numbers in tiles to those of the mesh, a row a group."""

    def __init__(self, mapping: Mapping, shapes: Sequence[tuple[int, ...]], itemsizes: Sequence[float], mesh: Mesh) -> None:
        self.mapping, self._shapes, self.itemsizes, self._mesh = mapping, shapes, itemsizes, mesh
        self.sent: list[Sent] = []
        self.share = 1.0

    def leaf(self, left: Operand, right: Operand) -> None:
        """Each device multiplies what it has."""
        whole, mine = self._work(self._shapes[LEFT], self._shapes[RIGHT]), self._work(left.local, right.local)
        self.share = mine / whole if whole else 0.0

    def _work(self, left: Sequence[int], right: Sequence[int]) -> int:
        kinds = self.mapping
        mine = [left[each.left] for kind in (kinds.batch, kinds.summed, kinds.rows) for each in kind]
        return math.prod((*mine, *(right[each.right] for each in kinds.columns)))

    def partition(self, task: Task) -> None:
        """The product within groups of devices, brought to where the result shall lie; first by ways on which no device changes groups."""
        left, right, result, devices, leaf = task
        noted = len(self.sent)
        for keeps in (True, False):
            if self._is_done(task, keeps=keeps):
                return
            del self.sent[noted:]
        if self.mapping.spatial:
            leaf(self.whole(left, devices), self.whole(right, devices))
            self.bring(result, made_whole(result.tiles, range(len(result.shape))), devices)
            return
        first, second = (self.moved(each, self.inferred(each, result), devices) for each in (left, right))
        leaf(first, second)

    def _is_done(self, task: Task, *, keeps: bool) -> bool:
        ways: tuple[Callable[[], bool], ...] = (
            lambda: at_once(self, task, may_move=False),
            lambda: by_batch(self, task, keeps=keeps),
            lambda: by_rows_or_columns(self, task, keeps=keeps),
            lambda: by_summed(self, task, keeps=keeps),
            lambda: by_replicas(self, task),
            lambda: at_once(self, task, may_move=True),
        )
        noted = len(self.sent)
        for way in ways:
            if way():
                return True
            del self.sent[noted:]
        return False

    def parts(self, tensor: int, tiles: Devices, kind: Sequence[Shared]) -> int:
        """Into how many the dimensions of this kind are cut."""
        return math.prod(tiles.shape[each[tensor]] for each in kind if each[tensor] >= 0)

    def turned(self, tiles: Devices, source: int, target: int) -> Devices | None:
        """How the one tensor's placement is for another."""
        ranks = [len(shape) for shape in self._shapes]
        to, back = (self.mapping.between(one, other, ranks[one]) for one, other in ((source, target), (target, source)))
        found = transposed(tiles, to, back)
        return None if found is None else canonical(found)

    def bytes_of(self, operand: Operand, *, local: bool = True) -> float:
        """Of one device's part, or of all that the group has."""
        return math.prod(operand.local if local else operand.shape) * self.itemsizes[operand.number]

    def moved(self, operand: Operand, target: Devices, devices: Devices) -> Operand:
        """An operand that lies elsewhere."""
        if np.array_equal(operand.tiles, target):
            return operand
        path = (*operand.path, devices.tobytes(), target.shape, target.tobytes())
        steps = steps_within(operand.shape, operand.tiles, target, self._mesh, devices)
        is_first, moves = len(devices) == 1 and not operand.path, [each for each in steps if each.kind != SLICE]
        whole = _made_whole(operand.tiles, target) if is_first and len(moves) == 1 else ()
        to = path[1:] if is_first else ()
        self.sent += [Sent(step, operand.number, (*path, place), whole, (*to, place) if to else ()) for place, step in enumerate(moves)]
        return operand._replace(tiles=target, path=path)

    def whole(self, operand: Operand, devices: Devices) -> Operand:
        """Gathered within the group."""
        return self.moved(operand, made_whole(operand.tiles, range(len(operand.shape))), devices)

    def bring(self, result: Target, lies: Devices, devices: Devices) -> None:
        """The result to where it shall lie. A sum that is sliced at once, along all that it was made over, is a reduce-scatter."""
        last = self.sent[-1] if self.sent else None
        steps = steps_within(result.shape, lies, result.tiles, self._mesh, devices)
        sliced = math.prod(result.tiles.shape[:-1]) // math.prod(lies.shape[:-1])
        if last and last.operand == RESULT and last.step.kind == "all-reduce" and [each.kind for each in steps] == [SLICE]:
            parts = math.prod(axis_size(axis, self._mesh) for axis in last.step.axes)
            is_first = len(self.sent) == 1 or self.sent[-2].operand != RESULT
            if parts == sliced and is_first:
                self.sent[-1] = last._replace(step=last.step._replace(kind="reduce-scatter", after=steps[0].after))
        self.sent += [Sent(step, RESULT, ()) for step in steps if step.kind != SLICE]

    def made(self, left: Operand, right: Operand, result: Sequence[int]) -> tuple[int, ...]:
        """The shape of what a device makes of its parts."""
        found = list(result)
        for each in (*self.mapping.batch, *self.mapping.rows):
            if each.result >= 0:
                found[each.result] = left.local[each.left]
        for each in self.mapping.columns:
            if each.result >= 0:
                found[each.result] = right.local[each.right]
        return tuple(found)

    def reduce(self, elements: int, tiles: Devices, dims: Sequence[int], devices: Devices) -> None:
        """One all-reduce for each dimension, the last one first."""
        for dim in reversed(dims):
            if tiles.shape[dim] > 1:
                axes = varying(devices[:, minor_groups(tiles, [(dim, tiles.shape[dim])])].reshape(-1, tiles.shape[dim]), self._mesh)
                self.sent.append(Sent(Step("all-reduce", axes, elements, elements, elements), RESULT, ()))

    def within(self, task: Task, groups: Sequence[Groups], near: Groups) -> None:
        """The product within each group, and the result from there to where it shall lie."""
        first, second = (in_group(each, of) for each, of in zip((task.left, task.right), groups, strict=True))
        target = Target(near.shape(task.result.shape), near.inner)
        self.partition(Task(first, second, target, inside(task.devices, near), task.leaf))
        self.bring(task.result, ungrouped_from(near), task.devices)

    def inferred(self, operand: Operand, result: Target, other: Operand | None = None) -> Devices:
        """Where an operand lies if it follows the result, and the other operand, if that has a say."""
        at, kinds = operand.number, (self.mapping.rows, self.mapping.columns)
        own = made_whole(result.tiles, [each.result for each in kinds[1 - at] if each.result >= 0])
        found = self.turned(own, RESULT, at)
        if found is None:
            found = made_whole(operand.tiles, range(len(operand.shape)))
        if other is None:
            return found
        beside = self.turned(made_whole(other.tiles, [each[1 - at] for each in kinds[1 - at]]), 1 - at, at)
        both = None if beside is None else combined(found, beside)
        return found if both is None else both


def _made_whole(source: Devices, target: Devices) -> tuple[int, ...]:
    """The dimensions that were cut and are no longer, if nothing else changed."""
    gone = tuple(dim for dim, (old, new) in enumerate(zip(source.shape[:-1], target.shape[:-1], strict=True)) if old > new == 1)
    return gone if np.array_equal(made_whole(source, gone), target) else ()
