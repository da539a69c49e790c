"""The ways to run one operation over a mesh axis: all of it on every device, or split along one of its factors.

Factors are those of Shardy's sharding rules. One that no result has leaves partial sums, which are summed everywhere (all-reduce) or of
which each device keeps a slice (reduce-scatter). Along one that windows move along a device needs a part of its neighbours'
(collective-permute).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.propagation.explain.factor_graph import Factors, OperationFactors

WHOLE = -1
Splits = NDArray[np.int64]
"""Of each way, the dimension of a tensor that is split over the axis, or `WHOLE`."""
DOTS = ("dot_general", "convolution")


class OperationWays(NamedTuple):
    """Of each way: the split of every tensor of the operation (operands, then results), whether its work is divided, and the collective
    that it needs.

    - `splits` has an array for each tensor, `is_divided`, `sends` and `shares` a value for each way;
    - `sends`: a sum of its results, a permutation of its first operand, `""` for none; `shares`: how much of that tensor it sends.
    """

    splits: tuple[Splits, ...]
    is_divided: NDArray[np.bool_]
    sends: tuple[str, ...]
    shares: NDArray[np.float64]


class _Way(NamedTuple):
    splits: tuple[int, ...]
    is_divided: bool = True
    sends: str = ""
    share: float = 1.0


def list_ways(operation: OperationFactors, shapes: Sequence[tuple[int, ...]], parts: int) -> OperationWays:
    """The ways of an operation whose tensors have these `shapes` on one device, over an axis of `parts` devices.

    A factor can be split where it is the major one of every dimension that it is in, and the axis divides all of these; a sort's or a
    concatenation's cannot.
    """
    found = [_Way((WHOLE,) * len(shapes), is_divided=False), *_list_split_ways(operation, shapes, parts)]
    rows, divided, sends, shares = zip(*found, strict=True)
    return OperationWays(tuple(np.array(each) for each in zip(*rows, strict=True)), np.array(divided), sends, np.array(shares))


def _list_split_ways(operation: OperationFactors, shapes: Sequence[tuple[int, ...]], parts: int) -> Iterator[_Way]:
    for factor, size in operation.sizes.items():
        if size == 1 or size % parts or factor in operation.blocked or factor in operation.whole:
            continue
        row = _find_dims(factor, operation.mappings, shapes, parts)
        if row is None:
            continue
        results = row[operation.operands :]
        if factor in operation.permuted:
            yield _Way(row, sends="collective-permute", share=_halo_share(operation, factor, shapes, parts))
        elif not results or max(results) > WHOLE:
            yield _Way(row)
        else:
            yield _Way(row, sends="all-reduce")
            if operation.kind in DOTS:
                yield from (_Way((*row[:-1], dim), sends="reduce-scatter") for dim, local in enumerate(shapes[-1]) if local % parts == 0)


def _halo_share(operation: OperationFactors, factor: str, shapes: Sequence[tuple[int, ...]], parts: int) -> float:
    """How much of the first operand a device sends: of a convolution's as many rows as its window is long, else all that it has."""
    if operation.kind != "convolution":
        return 1 / parts
    own = [size for dims, size in zip(operation.mappings[1], shapes[1], strict=True) if not _is_elsewhere(operation, dims)]
    return min(max(own, default=1) / operation.sizes[factor], 1 / parts)


def _is_elsewhere(operation: OperationFactors, factors: tuple[str, ...]) -> bool:
    """Whether another tensor than the kernel of a convolution has one of these factors."""
    return any(each in dims for at, mapping in enumerate(operation.mappings) if at != 1 for dims in mapping for each in factors)


def _find_dims(factor: str, mappings: Sequence[Factors], shapes: Sequence[tuple[int, ...]], parts: int) -> tuple[int, ...] | None:
    """The dimension of each tensor that has the factor; `None` where one cannot be split along it."""
    row = []
    for mapping, shape in zip(mappings, shapes, strict=True):
        dims = [dim for dim, factors in enumerate(mapping) if factor in factors]
        if len(dims) > 1 or any(mapping[dim][0] != factor or shape[dim] % parts for dim in dims):
            return None
        row.append(dims[0] if dims else WHOLE)
    return tuple(row)
