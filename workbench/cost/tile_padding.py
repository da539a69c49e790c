"""Padding to tiles: dot sizes on a matrix unit, and array bytes in TPU memory."""

import functools
from functools import lru_cache
from itertools import permutations
from math import ceil, prod

from workbench.core.tensor import itemsize

# Dot sizes are rounded up to the tiles of a matrix unit, which wastes some multiply-adds.
#
# A dot of 6 rows by 64 columns keeps a 128 x 128 array as busy as one of 8 by 128. A chip's tile is in
# `hardware.toml` (`matmul_tile`).

_BLOCK = 3  # sides of a tile without a systolic array
_NARROW = (64, 32)  # narrow block sides
_THIN = (16, 32, 64)  # block sides for dots with few rows or columns
_SUBLANES = 8  # rows per step of a systolic array


@lru_cache(maxsize=4096)
def padded_volume(rows: int, columns: int, summed: float, tile: tuple[int, ...]) -> float:
    """Return the multiply-adds for which a matrix unit is busy.

    - A tile with two sides is a systolic array: it holds summed x columns, or summed x rows, whichever wastes less, and
      streams the rest;
    - a tile with three sides is a block of rows x columns x summed.

    >>> padded_volume(6, 64, 64, (128, 128)) == 8 * 128 * 128
    True
    >>> padded_volume(4096, 64, 128, (128, 128)) == 64 * 4096 * 128  # the 64 columns stream
    True
    """
    if len(tile) == _BLOCK:
        return round_up(rows, tile[0]) * round_up(columns, tile[1]) * round_up(summed, tile[2])
    if not tile:
        return rows * columns * summed
    depth, width = tile
    return round_up(summed, depth) * min(
        round_up(rows, _SUBLANES) * round_up(columns, width), round_up(columns, _SUBLANES) * round_up(rows, width)
    )


@lru_cache(maxsize=4096)
def passes_volume(rows: int, columns: int, summed: float, tile: tuple[int, ...]) -> float:
    """Return the multiply-adds for one dot of a convolution, whose rows are streamed."""
    depth, width = tile
    return round_up(rows, _SUBLANES) * round_up(columns, width) * round_up(summed, depth)


@lru_cache(maxsize=1 << 15)
def blocks_volume(
    batch: int, rows: int, columns: int, summed: float, tile: tuple[int, ...], splits: int = 1, *, narrow: bool = False
) -> float:
    """Return the multiply-adds for which all units of a GPU are busy.

    `tile` is (rows, columns, summed per step, units, steps to fill a block's pipeline and write its result; 0 if this
    overlaps with the next block). Blocks run in waves of one per unit, the last as long as a full one. The best of the
    library's block shapes is taken: this one, transposed, or half as large; `narrow`: also 64 or 32 columns or rows, as
    libraries have them for units without tensor cores (`maxwell_scudnn_128x32`, `maxwell_sgemm_128x64` in cuDNN 7 and
    cuBLAS 10). For few rows or columns, as in decoding, libraries have thin blocks of at least 16, the size of a tensor
    core operation (`mma.m16n8k16`). `splits`: number of blocks that share a sum (split-K).

    >>> blocks_volume(1, 128, 108 * 256, 1024, (128, 256, 32, 108, 8)) == 128 * 108 * 256 * (1024 + 8 * 32)
    True
    >>> blocks_volume(1, 128, 109 * 128, 1024, (128, 128, 32, 108, 0)) / blocks_volume(1, 128, 108 * 128, 1024, (128, 128, 32, 108, 0))
    2.0
    >>> blocks_volume(1, 3, 128 * 108, 1024, (128, 256, 32, 108, 0)) == 16 * 128 * 108 * 1024
    True
    >>> blocks_volume(1, 128, 128, 4096, (128, 128, 32, 4, 0), splits=4) / blocks_volume(1, 128, 128, 4096, (128, 128, 32, 4, 0))
    0.25
    """
    tall, wide, deep, units, ends = tile
    depth = round_up(summed / splits, deep) + ends * deep
    return (
        min(
            round_up(batch * splits * ceil(rows / r) * ceil(columns / c), units) * r * c
            for r, c in _block_shapes(tall, wide, narrow, min(rows, columns))
        )
        * depth
    )


@lru_cache(maxsize=256)
def _block_shapes(tall: int, wide: int, narrow: bool, least: int) -> frozenset[tuple[int, int]]:
    side = min(tall, wide)
    thin = {(side, short) for short in _THIN if least <= short < side}
    narrower = thin | ({(side, short) for short in _NARROW if short < side} if narrow else set())
    return frozenset({(tall, wide), (wide, tall), (side, side), *narrower, *((c, r) for r, c in narrower)})


def round_up(size: float, tile: float) -> int:
    return int(ceil(size / tile) * tile)


# Array bytes in memory; on a TPU the last two dimensions are padded to tiles.

_WORD = 4  # element bytes of a tile; smaller elements are packed
_MATRIX = 2  # minimum rank with rows


@functools.lru_cache(maxsize=65536)
def tiled_bytes(shape: tuple[int, ...], dtype: str, tile: tuple[int, ...] = ()) -> int:
    """Return the bytes of an array; `tile` is (sublanes, lanes) for 4-byte elements, () for no padding.

    The compiler chooses the last two dimensions, so the order with the least padding counts. A dimension shorter than
    the sublanes is padded to the next power of two.

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
