"""Bytes of arrays as laid out in memory: on a TPU the last two dimensions are padded to tiles."""

import functools
from itertools import permutations
from math import ceil, prod

from workbench.core.tensor import itemsize
from workbench.cost.matmul_tiles import round_up

_WORD = 4  # bytes of the elements a tile is given for; smaller ones stand closer
_MATRIX = 2  # dimensions from which an array has rows


@functools.lru_cache(maxsize=65536)
def tiled_bytes(shape: tuple[int, ...], dtype: str, tile: tuple[int, ...] = ()) -> int:
    """Bytes of an array, `tile` being (sublanes, lanes) for 4-byte elements; () pads nothing.

    The compiler chooses which two dimensions are last, so the order that wastes least counts. A dimension shorter than the sublanes is
    padded to the next power of two.

    >>> tiled_bytes((4, 768, 6, 64), "float32", (8, 128)) == 4 * 768 * 6 * 64 * 4  # with 768 last, and 64 before it
    True
    >>> tiled_bytes((100, 28, 28), "float32", (8, 128)) == 28 * 32 * 128 * 4  # 100 images last
    True
    """
    size = itemsize(dtype)
    elements = prod(shape)
    if not tile or not elements:
        return ceil(elements * size)
    sublanes, lanes = int(tile[0] * _WORD / size), tile[1]
    if len(shape) < _MATRIX:
        row = lanes * tile[0] if elements >= lanes * tile[0] else lanes
        return ceil(round_up(elements, row) * size)
    pairs = dict.fromkeys(permutations(shape, 2))
    waste = min(round_up(last, lanes) * round_up(before, _padded_rows(before, sublanes)) / (last * before) for before, last in pairs)
    return ceil(elements * waste * size)


def _padded_rows(size: int, sublanes: int) -> int:
    return sublanes if size >= sublanes else 1 << (size - 1).bit_length()
