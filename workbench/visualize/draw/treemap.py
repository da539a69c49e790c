"""Squarified treemaps (Bruls, Huizing, van Wijk 2000)."""

from collections.abc import Sequence
from typing import NamedTuple


class Tile(NamedTuple):
    """A rectangle by top left corner and size."""

    x: float
    y: float
    width: float
    height: float


def squarify(sizes: Sequence[float], whole: Tile) -> tuple[Tile, ...]:
    """A tile for each size, in order, which together fill `whole`; descending sizes look best.

    >>> squarify([2, 1, 1], Tile(0.0, 0.0, 4.0, 2.0))[1:]
    (Tile(x=2.0, y=0.0, width=2.0, height=1.0), Tile(x=2.0, y=1.0, width=2.0, height=1.0))
    """
    total = sum(sizes)
    if total <= 0:
        return tuple(Tile(whole.x, whole.y, 0.0, 0.0) for _ in sizes)
    areas = [size * whole.width * whole.height / total for size in sizes]
    placed: list[Tile] = []
    left, row = whole, list[float]()
    for area in areas:
        side = min(left.width, left.height)
        if row and _worst_ratio([*row, area], side) > _worst_ratio(row, side):
            tiles, left = _lay_row(row, left)
            placed += tiles
            row = []
        row.append(area)
    return (*placed, *_lay_row(row, left)[0])


def _worst_ratio(row: Sequence[float], side: float) -> float:
    total, least, most = sum(row), min(row), max(row)
    if not least or not side:
        return float("inf")
    return max(side * side * most / total**2, total**2 / (side * side * least))


def _lay_row(row: Sequence[float], left: Tile) -> tuple[list[Tile], Tile]:
    total = sum(row)
    tiles = []
    if left.width >= left.height:
        width, y = total / (left.height or 1.0), left.y
        for area in row:
            tiles.append(Tile(left.x, y, width, area / width if width else 0.0))
            y += tiles[-1].height
        return tiles, Tile(left.x + width, left.y, max(left.width - width, 0.0), left.height)
    height, x = total / (left.width or 1.0), left.x
    for area in row:
        tiles.append(Tile(x, left.y, area / height if height else 0.0, height))
        x += tiles[-1].width
    return tiles, Tile(left.x, left.y + height, left.width, max(left.height - height, 0.0))
