"""Padding to tiles: the sizes of a dot on a matrix unit, and the bytes of arrays in a TPU's memory."""

import functools
from functools import lru_cache
from itertools import permutations
from math import ceil, prod

from workbench.core.tensor import itemsize

# Rounding the sizes of a dot up to the tiles of a matrix unit: multiply-adds for which it is busy, of which some are done for nothing.
#
# A matrix unit works in tiles: a dot of 6 rows by 64 columns keeps a 128 x 128 array as busy as one of 8 by 128. Which tile a chip has says
# `hardware.toml` (`matmul_tile`).

_BLOCK = 3  # sides of a tile that is no systolic array
_NARROW = (64, 32)  # sides of blocks
_THIN = (16, 32, 64)  # those of a dot that has no more rows, or columns
_SUBLANES = 8  # rows a systolic array takes at once


@lru_cache(maxsize=4096)
def padded_volume(rows: int, columns: int, summed: float, tile: tuple[int, ...]) -> float:
    """Multiply-adds for which a matrix unit is busy.

    - A tile of two sides is a systolic array: it holds summed x columns, or summed x rows, whichever wastes less, and streams the rest;
    - one of three is a block of rows x columns x summed.

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
    """The same for one dot of a convolution: its rows are streamed."""
    depth, width = tile
    return round_up(rows, _SUBLANES) * round_up(columns, width) * round_up(summed, depth)


@lru_cache(maxsize=1 << 15)
def blocks_volume(
    batch: int, rows: int, columns: int, summed: float, tile: tuple[int, ...], splits: int = 1, *, narrow: bool = False
) -> float:
    """Multiply-adds for which all units of a GPU are busy: `tile` is rows x columns x summed of a step of a block, how many units do a
    block each, and for how many steps a block fills its pipeline and writes its result (none where the next one goes on beside that).

    Blocks are done in waves of one a unit, the last as long as a full one. Of the shapes of block that a library has, the best is taken:
    this one, turned, or half as large; `narrow`: or of 64 or 32 columns or rows, as libraries have them for units without tensor cores
    (`maxwell_scudnn_128x32`, `maxwell_sgemm_128x64` in cuDNN 7 and cuBLAS 10). For a dot of few rows or columns, as in decoding, libraries
    have blocks that are as thin: 16 at least, as many as a tensor core multiplies at once (`mma.m16n8k16`). With `splits` each block is so
    many, that sum a part each.

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
    """The shapes of blocks for a dot whose shorter side is `least`."""
    side = min(tall, wide)
    thin = {(side, each) for each in _THIN if least <= each < side}
    narrower = thin | ({(side, each) for each in _NARROW if each < side} if narrow else set())
    return frozenset({(tall, wide), (wide, tall), (side, side), *narrower, *((c, r) for r, c in narrower)})


def round_up(size: float, tile: float) -> int:
    """The next multiple of `tile`."""
    return int(ceil(size / tile) * tile)


# Bytes of arrays as laid out in memory: on a TPU the last two dimensions are padded to tiles.

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
