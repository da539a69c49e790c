"""Outlines, in numbers: series over the same positions reduced to as few columns as can be seen, their steps, and the staircase around what
some points dominate."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from workbench.visualize.draw.drawing_marks import Area, Mark, Point, Polyline

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


def steps(edges: Sequence[float], heights: Sequence[float]) -> Iterator[Point]:
    """Each height from its edge to the next one; the last only ends the one before.

    >>> list(steps((0, 1, 3), (5, 2, 2)))
    [(0, 5), (1, 5), (1, 2), (3, 2)]
    """
    for ends, height in zip(pairwise(edges), heights, strict=False):
        yield from ((edge, height) for edge in ends)


def drop_collinear(points: Sequence[Point]) -> tuple[Point, ...]:
    """Without the middle points of level lines.

    >>> drop_collinear([(0, 3), (5, 3), (10, 3), (10, 1)])
    ((0, 3), (10, 3), (10, 1))
    """
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
