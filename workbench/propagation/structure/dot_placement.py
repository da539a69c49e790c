"""Where XLA's partitioner brings the tensors of a product before each device multiplies what it has (openxla/xla, `dot_handler.cc`).

Shardy brings operands and result to one sharding of their shared dimensions by what is cheapest. XLA does not weigh. It looks for
dimensions that lie alike in two of the three tensors, groups the devices along their axes, and goes on with the smaller product within
each group:

    a batch of products, alike in the result and one operand    the other operand is brought there
    rows or columns, alike in the result and one operand        the other operand is gathered along their axes
    a summed dimension, alike in both operands                  parts are summed, and slices of the result kept

first without moving anything from one group to another, then with. What is left follows the result. This is told in mesh axes: what XLA
does besides with devices that hold the same is not. Of random products three in five send what XLA's partitioner answers, to the byte.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size, overlap
from workbench.propagation.module.attributes import Dims
from workbench.propagation.structure.dot_dims import LEFT, RESULT, RIGHT, Mapping, Shared

Axes = tuple[str, ...]


class ProductFacts(NamedTuple):
    """A product, whatever the layout: its dimensions by kind, and the shapes and bytes an element of left operand, right one and result."""

    mapping: Mapping
    shapes: tuple[tuple[int, ...], ...]
    itemsizes: tuple[float, ...]

    def reaches_over_a_cut(self, lies: Sequence[Dims]) -> bool:
        """Whether a dimension that windows move along is cut in a tensor: such a convolution is not taken apart as a product."""
        return any(dims[each[at]] for each in self.mapping.spatial for at, dims in enumerate(lies))


class Near(NamedTuple):
    """Where the tensors of a product lie when it is computed."""

    left: Dims
    right: Dims
    result: Dims


@functools.lru_cache(maxsize=8192)
def nearest(facts: ProductFacts, lies: tuple[Dims, ...], mesh: Mesh) -> Near:
    """Where XLA computes a product whose operands and result lie so."""
    walk = _GroupWalk(facts, lies, mesh)
    while any(way(keeps=keeps) for keeps in (True, False) for way in (walk.by_batch, walk.by_rows_or_columns, walk.by_summed)):
        pass
    walk.follow_the_result()
    return Near(*(tuple(dims) for dims in walk.near))


class _GroupWalk:
    """Follows the partitioner from group to smaller group. Of each dimension of each tensor: `rest`, the axes that no group is along yet,
    and `near`, those that groups were made along; `devices` in each group."""

    def __init__(self, facts: ProductFacts, lies: Sequence[Dims], mesh: Mesh) -> None:
        self._kinds, self._shapes, self._itemsizes, self._mesh = facts.mapping, facts.shapes, facts.itemsizes, mesh
        self._rest: list[list[Axes]] = [list(dims) for dims in lies]
        self.near: list[list[Axes]] = [[()] * len(dims) for dims in lies]
        self._devices = mesh.size

    def by_batch(self, *, keeps: bool) -> bool:
        """Go on within groups along a batch; whether there is one. `keeps`: only if nothing is moved for it."""
        kind = self._kinds.batch
        parts = self._parts(RESULT, kind)
        if parts == 1 or parts not in (self._parts(LEFT, kind), self._parts(RIGHT, kind)):
            return False
        if keeps and any(len({self._rest[at][each[at]] for at in (LEFT, RIGHT, RESULT)}) > 1 for each in kind):
            return False
        self._group(kind, RESULT, (LEFT, RIGHT, RESULT))
        return True

    def by_rows_or_columns(self, *, keeps: bool) -> bool:
        """Go on within groups along an operand's own dimensions; whether there are any. The other operand is wanted by each group."""
        at, kind = self._own_alike()
        if not kind or (keeps and any(self._rest[at][each[at]] != self._rest[RESULT][each.result] for each in kind)):
            return False
        along = self._axes(RESULT, kind)
        other = 1 - at
        if any(_is_mixed(axes, along) for axes in self._rest[other]):
            found = self._inferred(other, along)
            self._rest[other] = [()] * len(found) if any(_is_mixed(axes, along) for axes in found) else found
        self._group(kind, RESULT, (at, RESULT))
        return True

    def by_summed(self, *, keeps: bool) -> bool:
        """Go on within groups along a summed dimension; whether there is one. The larger operand says which."""
        kind: Sequence[Shared] = self._kinds.summed
        parts = [self._parts(at, kind) for at in (LEFT, RIGHT)]
        if min(parts) == 1:
            return False
        if parts[LEFT] != parts[RIGHT]:
            kind = [each for each in kind if self._parts(LEFT, [each]) == self._parts(RIGHT, [each]) > 1]
        if not kind or (keeps and any(self._rest[LEFT][each.left] != self._rest[RIGHT][each.right] for each in kind)):
            return False
        large = LEFT if self._bytes(LEFT) > self._bytes(RIGHT) else RIGHT
        along = self._axes(large, kind)
        if any(_is_mixed(axes, along) for axes in self._rest[RESULT]):
            self._rest[RESULT] = self._as_operands()
        self._group(kind, large, (LEFT, RIGHT))
        return True

    def follow_the_result(self) -> None:
        """What no group is found for: operands go to where the result lies, unless slicing a whole one sends less."""
        whole = [not any(dims) for dims in self._rest]
        for at in (RIGHT, LEFT):
            is_smaller = math.prod(self._shapes[RESULT]) < math.prod(self._shapes[at])
            if whole[RESULT] and whole[1 - at] and is_smaller and self._parts(at, self._kinds.summed) == self._devices > 1:
                self._place(self._kinds.summed, at, (LEFT, RIGHT))
                return
        if not any(self._rest[RESULT]) and self._is_batch_alike():
            self._place(self._kinds.batch, LEFT, (LEFT, RIGHT, RESULT))
            return
        self._place(self._kinds.batch, RESULT, (LEFT, RIGHT, RESULT))
        self._place(self._kinds.rows, RESULT, (LEFT, RESULT))
        self._place(self._kinds.columns, RESULT, (RIGHT, RESULT))

    def _own_alike(self) -> tuple[int, Sequence[Shared]]:
        """The operand whose own dimensions are cut as the result's, and which: all of them, else single ones."""
        kinds = (self._kinds.rows, self._kinds.columns)
        own, kept = ([self._parts(at, kinds[number]) for number, at in enumerate(of)] for of in ((LEFT, RIGHT), (RESULT, RESULT)))
        alike = [own[at] == kept[at] > 1 for at in (LEFT, RIGHT)]
        if any(alike):
            is_left = alike[LEFT] and (not alike[RIGHT] or own[LEFT] * self._bytes(RIGHT) < own[RIGHT] * self._bytes(LEFT))
            at = LEFT if is_left else RIGHT
            return at, kinds[at]
        at = next((at for at in (LEFT, RIGHT) if own[at] > 1 and kept[at] > 1), RIGHT)
        return at, [each for each in kinds[at] if self._parts(at, [each]) == self._parts(RESULT, [each]) > 1]

    def _inferred(self, at: int, along: Axes) -> list[Axes]:
        """Where an operand lies that follows the result, and the other operand, and leaves the axes `along` free."""
        found: list[Axes] = [()] * len(self._rest[at])
        own = self._kinds.columns if at else self._kinds.rows
        wanted = [(each[at], self._rest[RESULT][each.result]) for each in (*own, *self._kinds.batch)]
        wanted += [(each[at], self._rest[1 - at][each[1 - at]]) for each in (*self._kinds.summed, *self._kinds.batch)]
        taken = along
        for dim, axes in wanted:
            if not found[dim] and not _share(axes, taken):
                found[dim], taken = axes, (*taken, *axes)
        return found

    def _as_operands(self) -> list[Axes]:
        """The result as coarse as the operands lie, where it is cut finer than they are; else whole."""
        found: list[Axes] = [()] * len(self._rest[RESULT])
        for kind, at in ((self._kinds.batch, LEFT), (self._kinds.rows, LEFT), (self._kinds.columns, RIGHT)):
            for each in kind:
                axes = self._rest[at][each[at]]
                found[each.result] = axes if self._rest[RESULT][each.result][: len(axes)] == axes else ()
        return found

    def _is_batch_alike(self) -> bool:
        pairs = [(self._rest[LEFT][each.left], self._rest[RIGHT][each.right]) for each in self._kinds.batch]
        return any(left for left, _ in pairs) and all(left == right for left, right in pairs)

    def _group(self, kind: Sequence[Shared], says: int, tensors: Iterable[int]) -> None:
        """Groups along the axes of these dimensions, as one tensor has them; there is nothing else along them then."""
        along = self._axes(says, kind)
        self._place(kind, says, tensors)
        for at in tensors:
            for each in kind:
                self._rest[at][each[at]] = ()
        self._rest = [[tuple(axis for axis in axes if not _share((axis,), along)) for axes in dims] for dims in self._rest]
        self._devices //= self._size(along)

    def _place(self, kind: Sequence[Shared], says: int, tensors: Iterable[int]) -> None:
        for each, axes in [(each, self._rest[says][each[says]]) for each in kind]:
            for at in tensors:
                self.near[at][each[at]] += axes

    def _axes(self, at: int, kind: Sequence[Shared]) -> Axes:
        return tuple(axis for each in kind for axis in self._rest[at][each[at]])

    def _parts(self, at: int, kind: Sequence[Shared]) -> int:
        return self._size(self._axes(at, kind))

    def _size(self, axes: Iterable[str]) -> int:
        return math.prod(axis_size(axis, self._mesh) for axis in axes)

    def _bytes(self, at: int) -> float:
        """Of one device's part."""
        parts = self._size(axis for dims in (self.near[at], self._rest[at]) for axes in dims for axis in axes)
        return math.prod(self._shapes[at]) * self._itemsizes[at] / parts


def _is_mixed(axes: Axes, along: Axes) -> bool:
    """Whether a dimension lies along some of these axes and along others, too: no groups are told from it."""
    return _share(axes, along) and not all(_share((axis,), along) for axis in axes)


def _share(axes: Axes, others: Axes) -> bool:
    return any(overlap(one, other) for one in axes for other in others)
