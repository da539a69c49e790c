"""A product as XLA's partitioner takes it apart: what is sent, and what each device multiplies (openxla/xla, `dot_handler.cc`).

The partitioner knows where both operands lie and where the result shall. It looks for dimensions that lie alike in two of the three, and
groups the devices by them; the rest is a smaller product within each group. In turn:

    nothing to send, or all devices along one kind of dimension      -> there it ends
    a batch of products, alike in the result and one operand         -> group; the other operand is brought there
    columns or rows, alike in the result and one operand             -> group; the other operand is gathered among the groups, or, where it
                                                                        is held by several, sliced and gathered within each
    a summed dimension, alike in both operands                       -> group; parts are all-reduced, and slices of the result kept
    the result is held by several, the operands are whole            -> group; each computes it

first without moving a device from one group to another, then with. What no group is found for is gathered. So it is not weighed what is
cheapest, and what is sent depends on what the devices beside an axis hold.
"""

import functools

import numpy as np

from workbench.mesh import Mesh
from workbench.partition.attributes import Dims
from workbench.partition.xla_products.values import LEFT, RESULT, RIGHT, Mapping, Operand, Product, Target, Task
from workbench.partition.xla_products.walk import Walk
from workbench.partition.xla_tiles import tiles_of


@functools.lru_cache(maxsize=4096)
def tiling(dims: Dims, mesh: Mesh) -> tuple[object, ...]:
    """A name for where a value lies, the same for equal tiles."""
    tiles = tiles_of(dims, mesh)
    return tiles.shape, tiles.tobytes()


@functools.lru_cache(maxsize=4096)
def product(
    mapping: Mapping, shapes: tuple[tuple[int, ...], ...], lies: tuple[Dims, ...], itemsizes: tuple[float, ...], mesh: Mesh
) -> Product | None:
    """The way of a product of these shapes, of left operand, right operand and result; `None` where a window reaches over a cut, and where
    dimensions are cut into parts that go into each other in no way."""
    if any(lies[tensor][each[tensor]] for each in mapping.spatial for tensor in (LEFT, RIGHT, RESULT)):
        return None
    try:
        return _walked(mapping, shapes, lies, itemsizes, mesh)
    except ValueError:
        return None


def _walked(
    mapping: Mapping, shapes: tuple[tuple[int, ...], ...], lies: tuple[Dims, ...], itemsizes: tuple[float, ...], mesh: Mesh
) -> Product:
    """Raises `ValueError` for tiles that cannot be told in terms of each other."""
    walk = Walk(mapping, shapes, itemsizes, mesh)
    left, right, result = (tiles_of(dims, mesh) for dims in lies)
    first, second = Operand(LEFT, shapes[LEFT], left), Operand(RIGHT, shapes[RIGHT], right)
    walk.partition(Task(first, second, Target(shapes[RESULT], result), np.arange(mesh.size)[None], walk.leaf))
    return Product(tuple(walk.sent), walk.share)
