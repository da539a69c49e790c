"""The shardings to which XLA's partitioner brings a table lookup, or its gradient (openxla/xla, `gather_scatter_handler.cc`).

Where one mesh axis splits the rows of the table and the tokens that are looked up, one of the two gives it up. XLA tries both ways, and
takes that whose largest value is smaller, the table's where both are as large:

    lookup      the table is gathered                         or   the tokens are, and what each device finds in its part is summed
    gradient    each device adds into a table of its own,     or   the tokens and their gradients are gathered
                and these are summed

Shardy weighs what is sent, and knows nothing of what the value is used for next.
"""

import math
from collections.abc import Collection, Sequence

from workbench.core.mesh import Mesh
from workbench.core.sharding import axes_overlap
from workbench.propagation.module.infer_dim_names import Rule
from workbench.propagation.module.shardy_attributes import Dims, local_shape

_TABLES = (0, 3)  # the table of a gather or scatter, and what a scatter makes of it
_TOKENS, _FOUND = 1, 2  # which rows, and the rows: a gather's result, or what a scatter adds


def choose_lookup_shardings(rule: Rule, shapes: Sequence[tuple[int, ...]], shardings: tuple[Dims, ...], mesh: Mesh) -> tuple[Dims, ...]:
    """The shardings of operands and result in which XLA computes a gather or scatter that has these."""
    factors = (*rule.operands, *rule.results)
    names = [{name for dim in each for name in dim} for each in factors]
    rows, tokens = names[0] - names[_FOUND], names[_TOKENS] & names[_FOUND]
    along = [_axes_along(shardings[at], factors[at], tokens if at in (_TOKENS, _FOUND) else rows) for at in range(len(factors))]
    of_tables = [axis for at in _TABLES if at < len(factors) for axis in along[at]]
    shared = [axis for axis in of_tables if any(axes_overlap(axis, each) for each in (*along[_TOKENS], *along[_FOUND]))]
    if not shared:
        return shardings
    table, found = (_elements_if_whole(shapes[at], shardings[at], shared, mesh) for at in (0, _FOUND))
    return tuple(_without(dims, shared) if (at in _TABLES) == (table <= found) else dims for at, dims in enumerate(shardings))


def _elements_if_whole(shape: tuple[int, ...], dims: Dims, shared: Collection[str], mesh: Mesh) -> int:
    """Elements on one device where the dimensions that these axes split are whole, along their other axes, too."""
    kept = tuple(axes if _without((axes,), shared) == (axes,) else () for axes in dims)
    return math.prod(local_shape(shape, kept, mesh))


def _axes_along(dims: Dims, factors: Sequence[Collection[str]], wanted: Collection[str]) -> list[str]:
    """The axes that split the dimensions of any of these factors."""
    return [axis for axes, names in zip(dims, factors, strict=True) if not set(names).isdisjoint(wanted) for axis in axes]


def _without(dims: Dims, given_up: Collection[str]) -> Dims:
    return tuple(tuple(axis for axis in axes if not any(axes_overlap(axis, each) for each in given_up)) for axes in dims)
