"""Select-and-scatter, the gradient of a max-pooling: each part fetches the gradients whose windows reach into it, and the data those
windows compare (`HandleSelectAndScatter`; openxla/xla, `spmd_partitioner.cc`).

XLA:CPU rewrites it into other operations before it partitions them, which then exchange more.
"""

import math
from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.partition.halo import Piece, exchange, toward_zero
from workbench.partition.own_communication.placed import Answer, Operator, Placed, Sent, moved
from workbench.partition.own_communication.windowed_reduction import Windows, windows_of
from workbench.partition.own_communication.windows import Window, permutes, whole


def read(op: ir.Operation) -> Windows | None:
    return windows_of(op)


def sends(facts: Windows, placed: Placed) -> Answer | None:
    """Part i of S elements holds the windows from first(i) = (S i + low - size + stride) / stride to limit(i), behind its last."""
    data = placed.operands[0]._replace(dims=placed.results[0].dims)
    source = placed.operands[1]._replace(dims=placed.results[0].dims)
    shapes = [list(data.local(placed.mesh)), list(source.local(placed.mesh))]
    found: list[Sent] = [*moved(placed, placed.operands[0], data.dims, 0), *moved(placed, placed.operands[1], data.dims, 1)]
    for dim, window in enumerate(facts):
        count = placed.parts(data.dims[dim])
        if count == 1 or window.is_trivial:
            continue
        exchanged = _dimension(window._replace(size=max(window.size, window.stride)), data.shape[dim], source.shape[dim], count)
        for tensor, shape, number, (pieces, size) in zip((source, data), shapes[::-1], (1, 0), exchanged, strict=True):
            if pieces is None:
                return whole(placed, 0, 1)
            found += permutes(pieces, dim, shape, tensor, placed, number)
            shape[dim] = size
    return Answer(tuple(found), replaces=True)


def _dimension(window: Window, size: int, windows: int, count: int) -> Iterator[tuple[tuple[Piece, ...] | None, int]]:
    """What is exchanged of the gradients, and of the data; and how many elements each has then."""
    part, taken, stride = math.ceil(size / count), math.ceil(windows / count), window.stride
    first = [toward_zero(part * i + window.low - window.size + stride, stride) for i in range(count)]
    limit = [toward_zero(part * (i + 1) + window.low + stride - 1, stride) for i in range(count)]
    most = max(end - start for start, end in zip(first, limit, strict=True))
    left = [taken * i - start for i, start in enumerate(first)]
    right = [end - taken * (i + 1) for i, end in enumerate(limit)]
    yield exchange(taken, left, right, 0, most, windows), most
    left = [part * i + window.low - start * stride for i, start in enumerate(first)]
    right = [end * stride - part * (i + 1) - stride - window.low + window.size for i, end in enumerate(limit)]
    wanted = (most - 1) * stride + window.size
    yield exchange(part, left, right, window.low, wanted, size), wanted


SELECTION = Operator("select and scatter", ("stablehlo.select_and_scatter",), read, sends)
