"""Reversal along a cut dimension: the parts change places, by one permute (`HandleReverse`; openxla/xla, `spmd_partitioner.cc`).

Where the last part is short, its padding is brought to the front first, by an exchange of borders (`HaloExchangeToPadOnLeft`).
"""

import itertools
import math
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.partition.halo import Piece
from workbench.partition.own_communication.placed import NOTHING, Answer, Operator, Placed, Sent, numbers, sized
from workbench.partition.own_communication.windows import Window, crossed, windowed


class Reversed(NamedTuple):
    dims: tuple[int, ...]


def read(op: ir.Operation) -> Reversed:
    return Reversed(numbers(op, "dimensions"))


def sends(facts: Reversed, placed: Placed) -> Answer | None:
    result = placed.results[0]
    cut = [dim for dim in facts.dims if result.dims[dim]]
    if not cut:
        return NOTHING
    axes = [crossed(_mirrored(placed.parts(result.dims[dim])), result.dims[dim], placed) for dim in cut]
    swapped = Sent("collective-permute", tuple(itertools.chain(*axes)), sized(result.local(placed.mesh), result.itemsize))
    sizes = {dim: result.shape[dim] for dim in cut}
    low = {dim: math.ceil(size / placed.parts(result.dims[dim])) * placed.parts(result.dims[dim]) - size for dim, size in sizes.items()}
    shifted = windowed([Window(low=low.get(dim, 0)) for dim in range(len(result.shape))], placed)
    return Answer((swapped, *shifted.sends))


def _mirrored(count: int) -> Piece:
    return Piece(0, tuple((k, count - 1 - k) for k in range(count)))


REVERSAL = Operator("reversal", ("stablehlo.reverse",), read, sends)
