"""Products that XLA takes apart in another way than Shardy would: told by what either sends.

Shardy brings operands and result to one sharding of their shared dimensions, and so does XLA for the most part. Where devices beside an
axis hold the same, or dimensions lie alike only in part, XLA groups devices first (`xla_products`), and sends something else.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from workbench.collective import collective_class
from workbench.mesh import Mesh
from workbench.partition.attributes import Dims, local_shape
from workbench.partition.xla_products import LEFT, RESULT, RIGHT, Mapping, Product, Shared, product
from workbench.partition.xla_reshard import way
from workbench.sharding import base_axis

_Moved = tuple[str, frozenset[str], int]  # class, mesh axes, elements


class ProductFacts(NamedTuple):
    """A product, whatever the layout: its dimensions by kind, and the shapes and bytes an element of left operand, right one and result."""

    mapping: Mapping
    shapes: tuple[tuple[int, ...], ...]
    itemsizes: tuple[float, ...]
    is_dot: bool

    def way(self, lies: tuple[Dims, ...], mesh: Mesh) -> Product | None:
        """As XLA takes it apart; `None` where a window reaches over a cut."""
        return product(self.mapping, self.shapes, lies, self.itemsizes, mesh)


class Near(NamedTuple):
    """Where the tensors of a product lie when it is computed."""

    left: Dims
    right: Dims
    result: Dims


def nearest(mapping: Mapping, lies: Sequence[Dims]) -> Near:
    """Where XLA computes a product: part by part where both operands are cut alike along what is summed, however small they are beside the
    result; else where an operand's own dimensions are cut that the result keeps so, and the other operand is gathered."""
    left, right, result = lies
    summed = [tuple(axis for dim in sorted(each[at] for each in mapping.summed) for axis in lies[at][dim]) for at in (LEFT, RIGHT)]
    if summed[LEFT] and summed[LEFT] == summed[RIGHT]:
        return Near(left, right, _without(result, summed[LEFT]))
    shared = {axis for each in mapping.batch if left[each.left] == right[each.right] for axis in left[each.left]}
    kept = [_kept(at, mapping, lies) for at in (LEFT, RIGHT)]
    gathered = [lies[at] if shared & set(kept[1 - at]) else _without(lies[at], kept[1 - at]) for at in (LEFT, RIGHT)]
    return Near(gathered[LEFT], gathered[RIGHT], result)


def _kept(at: int, mapping: Mapping, lies: Sequence[Dims]) -> tuple[str, ...]:
    """The axes of an operand's dimensions that split them in the result too, in the same way."""
    own = (*mapping.batch, *(mapping.columns if at else mapping.rows))
    return tuple(axis for each in own if lies[at][each[at]] == lies[RESULT][each.result] for axis in lies[at][each[at]])


def _without(dims: Dims, axes: Sequence[str]) -> Dims:
    return tuple(tuple(axis for axis in dim if axis not in axes) for dim in dims) if axes else dims


@functools.lru_cache(maxsize=8192)
def is_apart(facts: ProductFacts, lies: tuple[Dims, ...], mesh: Mesh) -> bool:
    """Whether XLA sends something else for a product than Shardy, or it is not sure that it does not.

    Never where all dimensions lie alike from the start (held by a test), which is told without a walk over the devices.
    """
    near = nearest(facts.mapping, lies)
    if near == lies and _is_consistent(facts.mapping, near):
        return False
    found = facts.way(lies, mesh)
    if found is None:
        return False
    plain = _plainly(facts, lies, near, mesh)
    sent = Counter((collective_class(each.step.kind), frozenset(each.step.axes), each.step.payload) for each in found.sent)
    return plain is None or plain != sent


def _plainly(facts: ProductFacts, lies: tuple[Dims, ...], near: Near, mesh: Mesh) -> "Counter[_Moved] | None":
    """What Shardy sends: operands gathered, a product whose dimensions lie alike in all, the result reduced; `None` for anything else."""
    mapping = facts.mapping
    if not _is_consistent(mapping, near) or (not facts.is_dot and near != lies):
        return None
    moves = Counter(
        (collective_class(step.kind), frozenset(step.axes), step.payload)
        for shape, before, after in zip(facts.shapes, lies[:RESULT], near, strict=False)
        for step in way(shape, before, after, mesh).collectives
    )
    size = math.prod(local_shape(facts.shapes[RESULT], near.result, mesh))
    summed = [near.left[each.left] for each in mapping.summed if near.left[each.left]]
    moves.update(("reduce", frozenset(axes), size) for axes in summed)
    scattered = {axis for dim in lies[RESULT] for axis in dim} - {axis for dim in near.result for axis in dim}
    if scattered and (len(summed) != 1 or scattered != set(summed[0])):
        return None
    return moves


def _is_consistent(mapping: Mapping, near: Near) -> bool:
    """Whether each dimension lies alike in all tensors that have it, and no axis cuts two of them."""
    placed = [list(_places(each, near)) for each in (*mapping.batch, *mapping.summed, *mapping.rows, *mapping.columns, *mapping.spatial)]
    if any(axes != each[0] for each in placed for axes in each):
        return False
    used = [base_axis(axis) for each in placed for axis in each[0]]
    return len(used) == len(set(used))


def _places(each: Shared, near: Near) -> Iterator[tuple[str, ...]]:
    return (near[tensor][dim] for tensor, dim in enumerate(each) if dim >= 0)
