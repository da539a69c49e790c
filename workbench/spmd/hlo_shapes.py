"""Shapes of HLO values with their layouts, which determine the compiler's byte counts.

    bf16[4,768,12,64]{1,3,2,0:T(8,128)(2,1)S(1)}
    type dimensions   order   tiles        memory space

The order lists dimensions minor to major. Tiles pad the physical dimensions (major to minor): the first tile its last ones, each further
tile the last ones inside the tile before it. Memory space 0 is the device's memory (HBM), 5 the host's; on a TPU the others are on chip.
"""

import re
from math import ceil, prod
from typing import NamedTuple

from workbench.spmd import hlo_pb2

DEVICE_MEMORY = 0  # default memory space of a layout; the host's is 5

TUPLE, _OPAQUE, _TOKEN = 13, 14, 17
_TYPE_NUMBERS = (1, 30, 26, 21, 2, 3, 4, 5, 31, 27, 22, 6, 7, 8, 9, 10, 11, 16, 12, 15, 18, 19, 28, 20, 23, 29, 24, 25, 32, 33, 35, 36)
_NAMES = (
    "pred s1 s2 s4 s8 s16 s32 s64 u1 u2 u4 u8 u16 u32 u64 f16 f32 bf16 f64 c64 c128 "
    "f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e4m3fnuz f4e2m1fn f8e8m0fnu f6e3m2fn f6e2m3fn"
)
_TYPES = dict(zip(_TYPE_NUMBERS, _NAMES.split(), strict=True))  # `PrimitiveType` of `xla_data.proto`, as printed in HLO
_WIDTH = re.compile(r"\d+")


class Array(NamedTuple):
    """One array. `bits`: per element as stored in memory; `order` is empty for row-major."""

    element: str
    dims: tuple[int, ...]
    bits: int
    order: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    space: int = DEVICE_MEMORY

    @property
    def size(self) -> int:
        """Number of elements, without padding."""
        return prod(self.dims)

    @property
    def bytes(self) -> int:
        return ceil(self.size * self.bits / 8)

    @property
    def padded_bytes(self) -> int:
        """Bytes in memory with padded tiles.

        >>> Array("f32", (3, 130), 32, (1, 0), ((8, 128),)).padded_bytes == 8 * 256 * 4
        True
        """
        physical = [self.dims[i] for i in reversed(self.order)] if self.order else list(self.dims)
        for tile in self.tiles:
            physical = _tile_dims(physical, tile)
        return ceil(prod(physical) * self.bits / 8)


Shape = Array | tuple["Shape", ...]


def read_shape(shape: hlo_pb2.Shape) -> Shape:
    """Read an array or a tuple of shapes; a token is an empty tuple.

    >>> read_shape(hlo_pb2.Shape(element_type=11, dimensions=[2, 3])).bytes
    24
    """
    kind = shape.element_type
    if kind == TUPLE:
        return tuple(map(read_shape, shape.tuple_shapes))
    if kind in (_TOKEN, _OPAQUE, 0):
        return ()
    name = _TYPES.get(kind, f"type{kind}")
    layout = shape.layout
    return Array(
        name,
        tuple(shape.dimensions),
        layout.element_size_in_bits or _element_bits(name),
        tuple(layout.minor_to_major),
        tuple(tuple(1 if size < 0 else size for size in tile.dimensions) for tile in layout.tiles),  # a negative size combines dimensions
        layout.memory_space,
    )


def _element_bits(element: str) -> int:
    width = _WIDTH.search(element)
    return 8 if element == "pred" else int(width[0]) if width else 0


def arrays(shape: Shape) -> tuple[Array, ...]:
    """Return the arrays of a shape, in order."""
    if isinstance(shape, Array):
        return (shape,)
    return tuple(array for member in shape for array in arrays(member))


def bytes_of(shape: Shape) -> int:
    """Return the bytes of all arrays of a shape, without padding."""
    return sum(array.bytes for array in arrays(shape))


def _tile_dims(physical: list[int], tile: tuple[int, ...]) -> list[int]:
    width = len(tile)
    padded = [1] * (width - len(physical)) + physical  # a scalar in T(128) fills one tile
    counts = [ceil(size / side) for size, side in zip(padded[-width:], tile, strict=True)]
    return [*padded[:-width], *counts, *tile]
