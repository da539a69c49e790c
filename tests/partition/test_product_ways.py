"""Products whose dimensions lie alike are those that XLA and Shardy take apart in the same way; whatever the placement, a way is found."""

import math
import random

import pytest

from workbench.mesh import Mesh
from workbench.partition.product_ways import Near, ProductFacts, is_apart
from workbench.partition.xla_products import LEFT, RESULT, RIGHT, Mapping, Shared
from workbench.sharding import axis_size

MAPPING = Mapping((Shared(0, 0, 0),), (Shared(2, 1, -1),), (Shared(1, -1, 1),), (Shared(-1, 2, 2),))  # b r k, b k c -> b r c
MESHES = [Mesh((("a", 2), ("b", 2), ("c", 2))), Mesh((("a", 2), ("b", 4))), Mesh((("a", 4), ("b", 2))), Mesh((("a", 4), ("b", 4)))]


def facts(numbers):
    batch, rows, summed, columns = (numbers.choice((16, 32, 64, 256)) for _ in range(4))
    return ProductFacts(MAPPING, ((batch, rows, summed), (batch, summed, columns), (batch, rows, columns)), (4.0,) * 3, is_dot=True)


def placed(numbers, mesh, rank):
    """Each axis on some dimension, or on none."""
    dims = [[] for _ in range(rank)]
    for name in mesh.names:
        at = numbers.randrange(-2, rank)
        if at >= 0:
            dims[at].append(name)
    return tuple(map(tuple, dims))


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_where_dimensions_lie_alike_nothing_is_sent_but_a_sum_over_those_that_are_summed(mesh):
    numbers = random.Random(0)
    for _ in range(100):
        product = facts(numbers)
        batch, rows, summed, columns = placed(numbers, mesh, 4)
        lies = Near((batch, rows, summed), (batch, summed, columns), (batch, rows, columns))
        assert not is_apart(product, lies, mesh)
        sent = [(each.step.kind, each.step.axes, each.operand) for each in product.way(lies, mesh).sent]
        assert sent == ([("all-reduce", tuple(sorted(summed)), RESULT)] if summed else [])


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_every_placement_has_a_way_and_each_device_computes_its_share_at_least(mesh):
    numbers = random.Random(1)
    for _ in range(100):
        product = facts(numbers)
        lies = tuple(placed(numbers, mesh, 3) for _ in (LEFT, RIGHT, RESULT))
        way = product.way(lies, mesh)
        assert 1 / mesh.size <= way.share <= 1
        assert all(math.prod(axis_size(axis, mesh) for axis in each.step.axes) > 1 for each in way.sent)
