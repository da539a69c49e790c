"""Shapes as XLA prints them, with the layouts from which the compiler's own byte counts follow.

    bf16[4,768,12,64]{1,3,2,0:T(8,128)(2,1)S(1)}
    type dimensions   order   tiles        memory space

The order lists dimensions minor to major. Tiles pad the physical dimensions (major to minor): the first tile its last ones, each further
tile the last ones inside the tile before it. Memory space 0 is the device's memory (HBM), 5 the host's; on a TPU the others are on chip.
"""

import re
from functools import lru_cache
from math import ceil, prod
from typing import NamedTuple

DEVICE_MEMORY = 0  # the memory space of a layout without `S(n)`; the host's is 5

_ARRAY = re.compile(r"(?P<type>[a-z]\w*)\[(?P<dims>[\d,<=]*)\](?:\{(?P<order>[\d,]*)(?::(?P<layout>[^}]*))?\})?")
_TILES = re.compile(r"T((?:\([\d,*]+\))+)")
_SPACE = re.compile(r"S\((\d+)\)")
_ELEMENT_BITS = re.compile(r"E\((\d+)\)")
_COMMENT = re.compile(r"/\*.*?\*/")


class Array(NamedTuple):
    """One array. `bits` of an element as it lies in memory; `order` empty for row-major."""

    element: str
    dims: tuple[int, ...]
    bits: int
    order: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    space: int = DEVICE_MEMORY

    @property
    def size(self) -> int:
        """Elements, without padding."""
        return prod(self.dims)

    @property
    def bytes(self) -> int:
        return ceil(self.size * self.bits / 8)

    @property
    def padded_bytes(self) -> int:
        """Bytes in memory, tiles filled up.

        >>> parse_shape("f32[3,130]{1,0:T(8,128)}").padded_bytes == 8 * 256 * 4
        True
        """
        physical = [self.dims[i] for i in reversed(self.order)] if self.order else list(self.dims)
        for tile in self.tiles:
            physical = _tiled(physical, tile)
        return ceil(prod(physical) * self.bits / 8)


Shape = Array | tuple["Shape", ...]


@lru_cache(maxsize=65536)
def parse_shape(text: str) -> Shape:
    """An array, or a tuple of shapes; a token is an empty tuple.

    >>> [each.dims for each in arrays(parse_shape("(f32[2]{0}, (s8[3]{0}, token[]), /*index=2*/pred[])"))]
    [(2,), (3,), ()]
    """
    shape, rest = _read(_COMMENT.sub("", text).strip())
    if rest.strip():
        raise ValueError(f"not an HLO shape: {text[:200]}")
    return shape


def arrays(shape: Shape) -> tuple[Array, ...]:
    """The arrays of a shape, in order."""
    if isinstance(shape, Array):
        return (shape,)
    return tuple(array for each in shape for array in arrays(each))


def array_of(text: str) -> Array:
    """The one array of a shape; a tuple's first."""
    return next(iter(arrays(parse_shape(text))), Array("token", (), 0))


def _read(text: str) -> tuple[Shape, str]:
    if text.startswith("("):
        parts: list[Shape] = []
        text = text[1:].lstrip()
        while not text.startswith(")"):
            part, text = _read(text)
            parts.append(part)
            text = text.lstrip(", ")
        return tuple(parts), text[1:]
    found = _ARRAY.match(text)
    if found is None:
        raise ValueError(f"not an HLO shape: {text[:200]}")
    return _array(found), text[found.end() :]


def _array(found: re.Match[str]) -> Shape:
    if found["type"] in ("token", "opaque"):
        return ()
    layout = found["layout"] or ""
    tiles, space, bits = _TILES.search(layout), _SPACE.search(layout), _ELEMENT_BITS.search(layout)
    return Array(
        found["type"],
        _numbers(found["dims"].replace("<=", "")),
        int(bits[1]) if bits else _bits(found["type"]),
        _numbers(found["order"] or ""),
        tuple(tuple(1 if size == "*" else int(size) for size in tile.split(",")) for tile in re.findall(r"\(([^)]*)\)", tiles[1]))
        if tiles
        else (),
        int(space[1]) if space else DEVICE_MEMORY,
    )


def _bits(element: str) -> int:
    width = re.search(r"\d+", element)
    return 8 if element == "pred" else int(width[0]) if width else 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)


def _tiled(physical: list[int], tile: tuple[int, ...]) -> list[int]:
    """The dimensions after one tiling: counts of tiles, then the tile's own sizes."""
    width = len(tile)
    padded = [1] * (width - len(physical)) + physical  # a scalar in T(128) fills one tile
    counts = [ceil(size / side) for size, side in zip(padded[-width:], tile, strict=True)]
    return [*padded[:-width], *counts, *tile]
