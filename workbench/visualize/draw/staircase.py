"""The border of what some points dominate: a staircase, with the region beyond it shaded."""

from collections.abc import Iterable, Iterator

from workbench.visualize.draw.drawing_marks import Area, Mark, Polyline


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
