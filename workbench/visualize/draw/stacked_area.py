"""Two outlines, in numbers: series stacked over the same positions, reduced to as few columns as can be seen, and the staircase around what
some points dominate."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from workbench.visualize.draw.drawing_marks import Area, Mark, Polyline

Column = tuple[int, ...]
"""One value of each series at one position."""


def reduce_columns(values: Sequence[Column], most: int) -> tuple[tuple[int, Column], ...]:
    """At most `most` columns of a longer sequence, with their indices: of merged neighbours the highest is kept, so the peak stays.

    >>> reduce_columns([(1, 0), (5, 1), (2, 2), (2, 0)], 2)
    ((1, (5, 1)), (2, (2, 2)))
    """
    width = max(-(-len(values) // most), 1)
    starts = range(0, len(values), width)
    places = (max(range(start, min(start + width, len(values))), key=lambda place: sum(values[place])) for start in starts)
    return tuple((place, values[place]) for place in places)


def outlines(values: Sequence[Column], length: float, scale: float) -> tuple[tuple[tuple[float, float], ...], ...]:
    """The outline of each series, the first one lowest, as steps over `length`; y is the height over the ground, `scale` a unit of value.

    >>> outlines([(1, 2), (1, 0)], length=10, scale=1)[1]
    ((0.0, 3), (5.0, 3), (5.0, 1), (10.0, 1), (10.0, 1), (0.0, 1))
    """
    width = length / max(len(values), 1)
    heights = [(0, *itertools.accumulate(column)) for column in values]
    found = []
    for series in range(len(values[0]) if values else 0):
        upper = _steps([column[series + 1] * scale for column in heights], width)
        lower = _steps([column[series] * scale for column in heights], width)
        found.append((*_drop_collinear(upper), *_drop_collinear(lower)[::-1]))
    return tuple(found)


def _steps(heights: Sequence[float], width: float) -> list[tuple[float, float]]:
    return [(width * (place + side), height) for place, height in enumerate(heights) for side in (0, 1)]


def _drop_collinear(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Without the middle points of level lines."""
    corners = [
        point
        for place, point in enumerate(points)
        if place in (0, len(points) - 1) or not points[place - 1][1] == point[1] == points[place + 1][1]
    ]
    return tuple(corners)


# The border of what some points dominate: a staircase, with the region beyond it shaded.


def draw_staircase(points: Iterable[tuple[float, float]], right: float, top: float, colour: str, alpha: float) -> Iterator[Mark]:
    """The border between what these points (pixels, to the left and below is better) dominate and what not, up to the edges `right` and
    `top` of the picture; `alpha` of the shade."""
    border: list[tuple[float, float]] = []
    lowest = top
    for x, y in sorted(points):
        if not border or y > lowest:  # further down: pixels grow downwards
            border += [(x, lowest), (x, y)]
            lowest = y
    border.append((right, lowest))
    yield Area((*border, (right, top)), colour, alpha)
    yield Polyline(tuple(border), colour, 1.5)
