"""The ways to run one operation over a mesh axis: replicated, or split along one of its factors.

Factors come from Shardy's sharding rules. A factor missing in the result leaves partial sums: an all-reduce sums them
everywhere, a reduce-scatter leaves each device a slice. A factor along which windows move needs data of the neighbors
(collective-permute).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.propagation.explain.factor_graph import Factors, OperationFactors

WHOLE = -1
Splits = NDArray[np.int64]
"""Per way, the dimension of a tensor that is split over the axis, or `WHOLE`."""
DOTS = ("dot_general", "convolution")


class OperationStrategies(NamedTuple):
    """Per way: the split of every tensor (operands, then results), whether work is divided, and the collective.

    - `splits` has an array for each tensor; `is_divided`, `sends` and `shares` have a value for each way;
    - `sends`: a sum of the results, a permutation of the first operand, or `""`; `shares`: the share of that tensor
      that is sent.
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


def list_strategies(operation: OperationFactors, shapes: Sequence[tuple[int, ...]], parts: int) -> OperationStrategies:
    """List the ways of an operation with local tensor `shapes` over an axis of `parts` devices.

    A factor can be split if it is the major factor of every dimension that contains it and the axis divides all of
    these; factors of a sort or a concatenation cannot be split.
    """
    ways = [_Way((WHOLE,) * len(shapes), is_divided=False), *_list_split_ways(operation, shapes, parts)]
    rows, divided, sends, shares = zip(*ways, strict=True)
    return OperationStrategies(tuple(np.array(split) for split in zip(*rows, strict=True)), np.array(divided), sends, np.array(shares))


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
    """Share of the first operand that a device sends: the window's rows for a convolution, else its whole part."""
    if operation.kind != "convolution":
        return 1 / parts
    window = [size for dims, size in zip(operation.mappings[1], shapes[1], strict=True) if not _is_elsewhere(operation, dims)]
    return min(max(window, default=1) / operation.sizes[factor], 1 / parts)


def _is_elsewhere(operation: OperationFactors, factors: tuple[str, ...]) -> bool:
    return any(factor in dims for at, mapping in enumerate(operation.mappings) if at != 1 for dims in mapping for factor in factors)


def _find_dims(factor: str, mappings: Sequence[Factors], shapes: Sequence[tuple[int, ...]], parts: int) -> tuple[int, ...] | None:
    row = []
    for mapping, shape in zip(mappings, shapes, strict=True):
        dims = [dim for dim, factors in enumerate(mapping) if factor in factors]
        if len(dims) > 1 or any(mapping[dim][0] != factor or shape[dim] % parts for dim in dims):
            return None
        row.append(dims[0] if dims else WHOLE)
    return tuple(row)
