"""Thumbnail of a layout: a row for each of the largest arguments, with each dimension as a box split by its mesh axes."""

from itertools import islice

from workbench.core.mesh import Mesh
from workbench.core.path_patterns import template
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.visualize.draw.drawing_marks import Drawing, Mark, Rectangle
from workbench.visualize.draw.palette import axis_colour
from workbench.visualize.draw.picture import svg_text

WIDTH, HEIGHT = 240.0, 132.0  # pixels
_ROWS, _GAP = 6, 4.0
_MOST_PARTS = 8  # drawn per dimension
_WHOLE = "#8b949e"


def thumbnail(report: Report) -> str:
    """The thumbnail as an SVG of 240 x 132 pixels, readable on light and dark backgrounds."""
    report = report.shown
    rows = list(islice(_distinct(sorted(report.arguments, key=lambda each: -each.tensor.elements)), _ROWS))
    pitch = HEIGHT / max(len(rows), 1)
    marks = [mark for number, row in enumerate(rows) for mark in _row(row, report.mesh, number * pitch, min(pitch, 40.0) - _GAP)]
    about = f"Layout: {str(report.plan.layout) or 'everything replicated'}"
    return svg_text(Drawing(WIDTH, HEIGHT, tuple(marks)), about)


def _distinct(arguments: list[Placement]) -> list[Placement]:
    """The first of each group of similar arguments, such as layers or the moments of an optimizer."""
    distinct: dict[object, Placement] = {}
    for argument in arguments:
        distinct.setdefault(
            (argument.tensor.dims or template(argument.tensor.path), argument.tensor.shape, str(argument.sharding)), argument
        )
    return list(distinct.values())


def _row(placement: Placement, mesh: Mesh, top: float, height: float) -> list[Mark]:
    """A box for each dimension; widths grow with the number of digits of the sizes."""
    shape = placement.tensor.shape or (1,)
    lengths = [1.0 + len(f"{size}") for size in shape]
    scale = (WIDTH - 2 - _GAP * (len(shape) - 1)) / sum(lengths)  # without the outlines of the first and last box
    marks: list[Mark] = []
    left = 0.0
    names = tuple(placement.tensor.dims) if len(placement.tensor.dims) == len(shape) else ("",) * len(shape)
    dimensions = tuple(placement.sharding.dims) if placement.tensor.shape else ()
    for place, length in enumerate(lengths):
        axes = (dimensions[place] or ()) if place < len(dimensions) else ()
        title = (
            f"{placement.tensor.path}: {names[place] or place} of {shape[place]:,}{', over ' + ' and '.join(axes) if axes else ', whole'}"
        )
        marks += _dimension(axes, placement.sharding.parts(mesh)[place] if axes else 1, mesh, (left, top, length * scale, height), title)
        left += length * scale + _GAP
    return marks


def _dimension(axes: tuple[str, ...], parts: int, mesh: Mesh, box: tuple[float, float, float, float], title: str) -> list[Mark]:
    left, top, width, height = box
    if not axes:
        return [Rectangle(left, top, width, height, fill=_WHOLE, alpha=0.18, line=_WHOLE, title=title, round=2.0)]
    shown = min(parts, _MOST_PARTS)
    colours = [axis_colour(axis, mesh) for axis in axes]
    part = width / shown
    return [
        Rectangle(left + i * part, top, max(part - 1.0, 1.0), height, fill=colours[i % len(colours)], alpha=0.85, title=title, round=1.0)
        for i in range(shown)
    ]
