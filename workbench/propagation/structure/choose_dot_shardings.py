"""The shardings in which XLA's partitioner computes a dot (openxla/xla, `dot_handler.cc`).

Shardy brings operands and result to the cheapest common sharding of their shared dimensions. XLA does not compare
costs. It looks for dimensions that are sharded alike in two of the three tensors, groups the devices along their axes,
and goes on with the smaller dot within each group, first without moving anything between groups, then with.

Kinds of groups:
    batch dimensions, alike in the result and one operand       the other operand is resharded to match
    rows or columns, alike in the result and one operand        the other operand is gathered along their axes
    a summed dimension, alike in both operands                  partial sums are reduced, and slices of the result kept

The rest follows the result. This is modeled in mesh axes, without XLA's treatment of partly replicated devices. For
three in five random dots the payload equals that of XLA's partitioner to the byte.
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
    """A dot's dimensions by kind, and shapes and bytes per element of left operand, right operand and result."""

    dims: DotDims
    shapes: tuple[tuple[int, ...], ...]
    itemsizes: tuple[float, ...]

    def has_sharded_window(self, shardings: Sequence[Dims]) -> bool:
        """Return whether a windowed dimension is sharded in a tensor: such a convolution is not handled as a dot."""
        return any(dims[dim[tensor]] for dim in self.dims.spatial for tensor, dims in enumerate(shardings))


class DotShardings(NamedTuple):
    """The shardings of a dot's tensors when it is computed."""

    left: Dims
    right: Dims
    result: Dims


@functools.lru_cache(maxsize=8192)
def choose_dot_shardings(facts: DotFacts, shardings: tuple[Dims, ...], mesh: Mesh) -> DotShardings:
    """The shardings in which XLA computes a dot with these operand and result shardings."""
    walk = _GroupWalk(facts, shardings, mesh)
    while any(
        group(without_moves=without_moves)
        for without_moves in (True, False)
        for group in (walk.group_by_batch, walk.group_by_rows_or_columns, walk.group_by_summed)
    ):
        pass
    walk.follow_the_result()
    return DotShardings(*(tuple(dims) for dims in walk.grouped))


class _GroupWalk:
    """Follows the partitioner from group to smaller group.

    For each dimension of each tensor, `_ungrouped` has the axes without groups yet, `grouped` those with; `_devices` is
    the size of a group.
    """

    def __init__(self, facts: DotFacts, shardings: Sequence[Dims], mesh: Mesh) -> None:
        self._kinds, self._shapes, self._itemsizes, self._mesh = facts.dims, facts.shapes, facts.itemsizes, mesh
        self._ungrouped: list[list[Axes]] = [list(dims) for dims in shardings]
        self.grouped: list[list[Axes]] = [[()] * len(dims) for dims in shardings]
        self._devices = mesh.size

    def group_by_batch(self, *, without_moves: bool) -> bool:
        """Form groups along batch dimensions; returns whether there are any. `without_moves`: only if no data moves."""
        kind = self._kinds.batch
        parts = self._count_parts(RESULT, kind)
        if parts == 1 or parts not in (self._count_parts(LEFT, kind), self._count_parts(RIGHT, kind)):
            return False
        if without_moves and any(len({self._ungrouped[tensor][dim[tensor]] for tensor in (LEFT, RIGHT, RESULT)}) > 1 for dim in kind):
            return False
        self._form_groups(kind, RESULT, (LEFT, RIGHT, RESULT))
        return True

    def group_by_rows_or_columns(self, *, without_moves: bool) -> bool:
        """Form groups along an operand's own dimensions, if any; each group needs the other operand."""
        at, kind = self._find_matching_operand()
        if not kind or (without_moves and any(self._ungrouped[at][dim[at]] != self._ungrouped[RESULT][dim.result] for dim in kind)):
            return False
        along = self._axes_along(RESULT, kind)
        other = 1 - at
        if any(_is_mixed(axes, along) for axes in self._ungrouped[other]):
            dims = self._infer_operand_dims(other, along)
            self._ungrouped[other] = [()] * len(dims) if any(_is_mixed(axes, along) for axes in dims) else dims
        self._form_groups(kind, RESULT, (at, RESULT))
        return True

    def group_by_summed(self, *, without_moves: bool) -> bool:
        """Form groups along a contracted dimension of the larger operand; returns whether there is one."""
        kind: Sequence[DotDim] = self._kinds.summed
        parts = [self._count_parts(at, kind) for at in (LEFT, RIGHT)]
        if min(parts) == 1:
            return False
        if parts[LEFT] != parts[RIGHT]:
            kind = [dim for dim in kind if self._count_parts(LEFT, [dim]) == self._count_parts(RIGHT, [dim]) > 1]
        if not kind or (without_moves and any(self._ungrouped[LEFT][dim.left] != self._ungrouped[RIGHT][dim.right] for dim in kind)):
            return False
        larger = LEFT if self._bytes(LEFT) > self._bytes(RIGHT) else RIGHT
        along = self._axes_along(larger, kind)
        if any(_is_mixed(axes, along) for axes in self._ungrouped[RESULT]):
            self._ungrouped[RESULT] = self._coarsen_result()
        self._form_groups(kind, larger, (LEFT, RIGHT))
        return True

    def follow_the_result(self) -> None:
        """Without groups, reshard operands to follow the result, unless slicing a whole operand sends less."""
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
        """The operand whose own dimensions are sharded like the result's, and these: all of them, else single ones."""
        kinds = (self._kinds.rows, self._kinds.columns)
        operand_parts, result_parts = (
            [self._count_parts(at, kinds[number]) for number, at in enumerate(tensors)] for tensors in ((LEFT, RIGHT), (RESULT, RESULT))
        )
        matches = [operand_parts[at] == result_parts[at] > 1 for at in (LEFT, RIGHT)]
        if any(matches):
            is_left = matches[LEFT] and (
                not matches[RIGHT] or operand_parts[LEFT] * self._bytes(RIGHT) < operand_parts[RIGHT] * self._bytes(LEFT)
            )
            at = LEFT if is_left else RIGHT
            return at, kinds[at]
        at = next((at for at in (LEFT, RIGHT) if operand_parts[at] > 1 and result_parts[at] > 1), RIGHT)
        return at, [dim for dim in kinds[at] if self._count_parts(at, [dim]) == self._count_parts(RESULT, [dim]) > 1]

    def _infer_operand_dims(self, at: int, along: Axes) -> list[Axes]:
        """The sharding of an operand that follows the result and the other operand, without the axes `along`."""
        inferred: list[Axes] = [()] * len(self._ungrouped[at])
        free = self._kinds.columns if at else self._kinds.rows
        requested = [(dot_dim[at], self._ungrouped[RESULT][dot_dim.result]) for dot_dim in (*free, *self._kinds.batch)]
        requested += [(dot_dim[at], self._ungrouped[1 - at][dot_dim[1 - at]]) for dot_dim in (*self._kinds.summed, *self._kinds.batch)]
        used_axes = along
        for dim, axes in requested:
            if not inferred[dim] and not _has_overlap(axes, used_axes):
                inferred[dim], used_axes = axes, (*used_axes, *axes)
        return inferred

    def _coarsen_result(self) -> list[Axes]:
        """The result's sharding, coarsened to the operands' where it is finer, else whole."""
        coarse: list[Axes] = [()] * len(self._ungrouped[RESULT])
        for kind, at in ((self._kinds.batch, LEFT), (self._kinds.rows, LEFT), (self._kinds.columns, RIGHT)):
            for dim in kind:
                axes = self._ungrouped[at][dim[at]]
                coarse[dim.result] = axes if self._ungrouped[RESULT][dim.result][: len(axes)] == axes else ()
        return coarse

    def _is_batch_alike(self) -> bool:
        pairs = [(self._ungrouped[LEFT][dim.left], self._ungrouped[RIGHT][dim.right]) for dim in self._kinds.batch]
        return any(left for left, _ in pairs) and all(left == right for left, right in pairs)

    def _form_groups(self, kind: Sequence[DotDim], source: int, tensors: Iterable[int]) -> None:
        """Form groups along the axes of these dimensions in one tensor, and free the axes everywhere else."""
        along = self._axes_along(source, kind)
        self._assign_axes(kind, source, tensors)
        for at in tensors:
            for dim in kind:
                self._ungrouped[at][dim[at]] = ()
        self._ungrouped = [[tuple(axis for axis in axes if not _has_overlap((axis,), along)) for axes in dims] for dims in self._ungrouped]
        self._devices //= self._size(along)

    def _assign_axes(self, kind: Sequence[DotDim], source: int, tensors: Iterable[int]) -> None:
        for dim, axes in [(dim, self._ungrouped[source][dim[source]]) for dim in kind]:
            for at in tensors:
                self.grouped[at][dim[at]] += axes

    def _axes_along(self, at: int, kind: Sequence[DotDim]) -> Axes:
        return tuple(axis for dim in kind for axis in self._ungrouped[at][dim[at]])

    def _count_parts(self, at: int, kind: Sequence[DotDim]) -> int:
        return self._size(self._axes_along(at, kind))

    def _size(self, axes: Iterable[str]) -> int:
        return math.prod(axis_size(axis, self._mesh) for axis in axes)

    def _bytes(self, at: int) -> float:
        parts = self._size(axis for dims in (self.grouped[at], self._ungrouped[at]) for axes in dims for axis in axes)
        return math.prod(self._shapes[at]) * self._itemsizes[at] / parts


def _is_mixed(axes: Axes, along: Axes) -> bool:
    """Return whether a dimension is sharded over some of these axes and over others too, so that it cannot form groups."""
    return _has_overlap(axes, along) and not all(_has_overlap((axis,), along) for axis in axes)


def _has_overlap(axes: Axes, others: Axes) -> bool:
    return any(axes_overlap(one, other) for one in axes for other in others)
