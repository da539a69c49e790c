"""Outlines of charts: reduced series and step lines."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from workbench.visualize.draw.drawing_marks import Point

Column = tuple[int, ...]
"""One value of each series at one position."""


def reduce_columns(values: Sequence[Column], most: int) -> tuple[tuple[int, Column], ...]:
    """Reduce a sequence to at most `most` columns, with their indices.

    Of merged neighbours the column with the largest sum is kept, so the peak stays.

    >>> reduce_columns([(1, 0), (5, 1), (2, 2), (2, 0)], 2)
    ((1, (5, 1)), (2, (2, 2)))
    """
    width = max(-(-len(values) // most), 1)
    starts = range(0, len(values), width)
    indices = (max(range(start, min(start + width, len(values))), key=lambda place: sum(values[place])) for start in starts)
    return tuple((place, values[place]) for place in indices)


def steps(edges: Sequence[float], heights: Sequence[float]) -> Iterator[Point]:
    """The points of a step line with a height between each two edges.

    >>> list(steps((0, 1, 3), (5, 2, 2)))
    [(0, 5), (1, 5), (1, 2), (3, 2)]
    """
    for ends, height in zip(pairwise(edges), heights, strict=False):
        yield from ((edge, height) for edge in ends)


def drop_collinear(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points without the middle points of horizontal lines.

    >>> drop_collinear([(0, 3), (5, 3), (10, 3), (10, 1)])
    ((0, 3), (10, 3), (10, 1))
    """
    corners = [
        point
        for index, point in enumerate(points)
        if index in (0, len(points) - 1) or not points[index - 1][1] == point[1] == points[index + 1][1]
    ]
    return tuple(corners)
