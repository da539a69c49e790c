"""The shardings to which XLA's partitioner brings the tensors of a dot before each device multiplies its part (openxla/xla,
`dot_handler.cc`).

Shardy brings operands and result to the cheapest common sharding of their shared dimensions. XLA does not compare costs. It looks for
dimensions that are sharded alike in two of the three tensors, groups the devices along their axes, and goes on with the smaller dot within
each group:

    a batch of products, alike in the result and one operand    the other operand is brought there
    rows or columns, alike in the result and one operand        the other operand is gathered along their axes
    a summed dimension, alike in both operands                  parts are summed, and slices of the result kept

first without moving anything from one group to another, then with. What is left follows the result. This is modelled in mesh axes: how XLA
treats replicated devices besides is not. Of random dots three in five send what XLA's partitioner answers, to the byte.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.core.sharding import axes_overlap, axis_size
from workbench.propagation.module.shardy_attributes import Dims
from workbench.propagation.structure.operation_work import LEFT, RESULT, RIGHT, DotDim, DotDims

Axes = tuple[str, ...]


class DotFacts(NamedTuple):
    """A dot's facts, whatever the layout: its dimensions by kind, and shapes and bytes per element of left operand, right one and
    result."""

    dims: DotDims
    shapes: tuple[tuple[int, ...], ...]
    itemsizes: tuple[float, ...]

    def has_sharded_window(self, shardings: Sequence[Dims]) -> bool:
        """Whether a dimension that windows move along is sharded in a tensor: such a convolution is not handled as a dot."""
        return any(dims[each[at]] for each in self.dims.spatial for at, dims in enumerate(shardings))


class DotShardings(NamedTuple):
    """The shardings of a dot's tensors when it is computed."""

    left: Dims
    right: Dims
    result: Dims


@functools.lru_cache(maxsize=8192)
def choose_dot_shardings(facts: DotFacts, shardings: tuple[Dims, ...], mesh: Mesh) -> DotShardings:
    """The shardings in which XLA computes a dot whose operands and result have these."""
    walk = _GroupWalk(facts, shardings, mesh)
    while any(
        way(without_moves=without_moves)
        for without_moves in (True, False)
        for way in (walk.group_by_batch, walk.group_by_rows_or_columns, walk.group_by_summed)
    ):
        pass
    walk.follow_the_result()
    return DotShardings(*(tuple(dims) for dims in walk.grouped))


class _GroupWalk:
    """Follows the partitioner from group to smaller group. Of each dimension of each tensor: `_ungrouped`, the axes that no group is along
    yet, and `grouped`, those that groups were made along; `devices` in each group."""

    def __init__(self, facts: DotFacts, shardings: Sequence[Dims], mesh: Mesh) -> None:
        self._kinds, self._shapes, self._itemsizes, self._mesh = facts.dims, facts.shapes, facts.itemsizes, mesh
        self._ungrouped: list[list[Axes]] = [list(dims) for dims in shardings]
        self.grouped: list[list[Axes]] = [[()] * len(dims) for dims in shardings]
        self._devices = mesh.size

    def group_by_batch(self, *, without_moves: bool) -> bool:
        """Go on within groups along a batch dimension; whether there is one. `without_moves`: only if nothing is moved for it."""
        kind = self._kinds.batch
        parts = self._count_parts(RESULT, kind)
        if parts == 1 or parts not in (self._count_parts(LEFT, kind), self._count_parts(RIGHT, kind)):
            return False
        if without_moves and any(len({self._ungrouped[at][each[at]] for at in (LEFT, RIGHT, RESULT)}) > 1 for each in kind):
            return False
        self._form_groups(kind, RESULT, (LEFT, RIGHT, RESULT))
        return True

    def group_by_rows_or_columns(self, *, without_moves: bool) -> bool:
        """Go on within groups along an operand's own dimensions; whether there are any. Each group needs the other operand."""
        at, kind = self._find_matching_operand()
        if not kind or (without_moves and any(self._ungrouped[at][each[at]] != self._ungrouped[RESULT][each.result] for each in kind)):
            return False
        along = self._axes_along(RESULT, kind)
        other = 1 - at
        if any(_is_mixed(axes, along) for axes in self._ungrouped[other]):
            found = self._infer_operand_dims(other, along)
            self._ungrouped[other] = [()] * len(found) if any(_is_mixed(axes, along) for axes in found) else found
        self._form_groups(kind, RESULT, (at, RESULT))
        return True

    def group_by_summed(self, *, without_moves: bool) -> bool:
        """Go on within groups along a contracted dimension; whether there is one. The larger operand decides which."""
        kind: Sequence[DotDim] = self._kinds.summed
        parts = [self._count_parts(at, kind) for at in (LEFT, RIGHT)]
        if min(parts) == 1:
            return False
        if parts[LEFT] != parts[RIGHT]:
            kind = [each for each in kind if self._count_parts(LEFT, [each]) == self._count_parts(RIGHT, [each]) > 1]
        if not kind or (without_moves and any(self._ungrouped[LEFT][each.left] != self._ungrouped[RIGHT][each.right] for each in kind)):
            return False
        large = LEFT if self._bytes(LEFT) > self._bytes(RIGHT) else RIGHT
        along = self._axes_along(large, kind)
        if any(_is_mixed(axes, along) for axes in self._ungrouped[RESULT]):
            self._ungrouped[RESULT] = self._coarsen_result()
        self._form_groups(kind, large, (LEFT, RIGHT))
        return True

    def follow_the_result(self) -> None:
        """Where no group is found, reshard operands to follow the result, unless slicing a whole one sends less."""
        whole = [not any(dims) for dims in self._ungrouped]
        for at in (RIGHT, LEFT):
            is_smaller = math.prod(self._shapes[RESULT]) < math.prod(self._shapes[at])
            if whole[RESULT] and whole[1 - at] and is_smaller and self._count_parts(at, self._kinds.summed) == self._devices > 1:
                self._assign_axes(self._kinds.summed, at, (LEFT, RIGHT))
                return
        if not any(self._ungrouped[RESULT]) and self._is_batch_alike():
            self._assign_axes(self._kinds.batch, LEFT, (LEFT, RIGHT, RESULT))
            return
        self._assign_axes(self._kinds.batch, RESULT, (LEFT, RIGHT, RESULT))
        self._assign_axes(self._kinds.rows, RESULT, (LEFT, RESULT))
        self._assign_axes(self._kinds.columns, RESULT, (RIGHT, RESULT))

    def _find_matching_operand(self) -> tuple[int, Sequence[DotDim]]:
        """The operand whose own dimensions are sharded as the result's, and these dimensions: all of them, else single ones."""
        kinds = (self._kinds.rows, self._kinds.columns)
        operand_parts, result_parts = (
            [self._count_parts(at, kinds[number]) for number, at in enumerate(of)] for of in ((LEFT, RIGHT), (RESULT, RESULT))
        )
        alike = [operand_parts[at] == result_parts[at] > 1 for at in (LEFT, RIGHT)]
        if any(alike):
            is_left = alike[LEFT] and (
                not alike[RIGHT] or operand_parts[LEFT] * self._bytes(RIGHT) < operand_parts[RIGHT] * self._bytes(LEFT)
            )
            at = LEFT if is_left else RIGHT
            return at, kinds[at]
        at = next((at for at in (LEFT, RIGHT) if operand_parts[at] > 1 and result_parts[at] > 1), RIGHT)
        return at, [each for each in kinds[at] if self._count_parts(at, [each]) == self._count_parts(RESULT, [each]) > 1]

    def _infer_operand_dims(self, at: int, along: Axes) -> list[Axes]:
        """The sharding of an operand that follows the result and the other operand, and leaves the axes `along` free."""
        found: list[Axes] = [()] * len(self._ungrouped[at])
        free = self._kinds.columns if at else self._kinds.rows
        requested = [(each[at], self._ungrouped[RESULT][each.result]) for each in (*free, *self._kinds.batch)]
        requested += [(each[at], self._ungrouped[1 - at][each[1 - at]]) for each in (*self._kinds.summed, *self._kinds.batch)]
        taken = along
        for dim, axes in requested:
            if not found[dim] and not _has_overlap(axes, taken):
                found[dim], taken = axes, (*taken, *axes)
        return found

    def _coarsen_result(self) -> list[Axes]:
        """The result as coarsely sharded as the operands, where it is finer than they are; else whole."""
        found: list[Axes] = [()] * len(self._ungrouped[RESULT])
        for kind, at in ((self._kinds.batch, LEFT), (self._kinds.rows, LEFT), (self._kinds.columns, RIGHT)):
            for each in kind:
                axes = self._ungrouped[at][each[at]]
                found[each.result] = axes if self._ungrouped[RESULT][each.result][: len(axes)] == axes else ()
        return found

    def _is_batch_alike(self) -> bool:
        pairs = [(self._ungrouped[LEFT][each.left], self._ungrouped[RIGHT][each.right]) for each in self._kinds.batch]
        return any(left for left, _ in pairs) and all(left == right for left, right in pairs)

    def _form_groups(self, kind: Sequence[DotDim], source: int, tensors: Iterable[int]) -> None:
        """Form groups along the axes of these dimensions, as one tensor has them; nothing else is sharded along them then."""
        along = self._axes_along(source, kind)
        self._assign_axes(kind, source, tensors)
        for at in tensors:
            for each in kind:
                self._ungrouped[at][each[at]] = ()
        self._ungrouped = [[tuple(axis for axis in axes if not _has_overlap((axis,), along)) for axes in dims] for dims in self._ungrouped]
        self._devices //= self._size(along)

    def _assign_axes(self, kind: Sequence[DotDim], source: int, tensors: Iterable[int]) -> None:
        for each, axes in [(each, self._ungrouped[source][each[source]]) for each in kind]:
            for at in tensors:
                self.grouped[at][each[at]] += axes

    def _axes_along(self, at: int, kind: Sequence[DotDim]) -> Axes:
        return tuple(axis for each in kind for axis in self._ungrouped[at][each[at]])

    def _count_parts(self, at: int, kind: Sequence[DotDim]) -> int:
        return self._size(self._axes_along(at, kind))

    def _size(self, axes: Iterable[str]) -> int:
        return math.prod(axis_size(axis, self._mesh) for axis in axes)

    def _bytes(self, at: int) -> float:
        """Bytes of one device's part."""
        parts = self._size(axis for dims in (self.grouped[at], self._ungrouped[at]) for axes in dims for axis in axes)
        return math.prod(self._shapes[at]) * self._itemsizes[at] / parts


def _is_mixed(axes: Axes, along: Axes) -> bool:
    """Whether a dimension is sharded over some of these axes and over others, too: no groups can be formed from it."""
    return _has_overlap(axes, along) and not all(_has_overlap((axis,), along) for axis in axes)


def _has_overlap(axes: Axes, others: Axes) -> bool:
    return any(axes_overlap(one, other) for one in axes for other in others)
