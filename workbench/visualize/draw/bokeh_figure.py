"""Conversion of a drawing to a Bokeh figure: one data source per kind of mark, one pixel per unit."""

from collections.abc import Iterable
from typing import Any

from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.plotting import figure

from workbench.visualize.draw.drawing_marks import FONT, Area, Disc, Drawing, Label, Polyline, Rectangle
from workbench.visualize.draw.palette import TEXT


def bokeh_figure(drawing: Drawing) -> Any:
    """A new `bokeh.plotting.figure` with a transparent background; mark titles become tooltips."""
    plot = figure(
        width=round(drawing.width),
        height=round(drawing.height),
        x_range=Range1d(-1, drawing.width - 1),
        y_range=Range1d(drawing.height, 0),  # y grows downwards, as in the drawing
        toolbar_location=None,
        tools="",
        min_border=0,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
    )
    plot.axis.visible = False
    plot.grid.visible = False
    shown = [_areas(plot, drawing.areas)] if drawing.areas else []
    if drawing.lines:
        _lines(plot, drawing.lines)
    _rectangles(plot, (rectangle for rectangle in drawing.rectangles if not rectangle.title))
    shown.append(_rectangles(plot, (rectangle for rectangle in drawing.rectangles if rectangle.title)))
    if drawing.dots:
        shown.append(_dots(plot, drawing.dots))
    plot.add_tools(HoverTool(renderers=shown, tooltips="@title"))
    _labels(plot, drawing.labels)
    return plot


def _areas(plot: Any, marks: Iterable[Area]) -> Any:
    columns = ("xs", "ys", "fill_color", "fill_alpha", "title")
    rows = [([x for x, _ in area.points], [y for _, y in area.points], area.fill, area.alpha, area.title) for area in marks]
    names = {name: name for name in columns if name != "title"}
    return plot.patches(source=_source(columns, rows), line_color=None, **names)


def _lines(plot: Any, marks: Iterable[Polyline]) -> None:
    columns = ("xs", "ys", "line_color", "line_width", "line_alpha", "line_dash")
    rows = [
        (
            [x for x, _ in line.points],
            [y for _, y in line.points],
            line.colour,
            line.width,
            line.alpha,
            "dashed" if line.dashed else "solid",
        )
        for line in marks
    ]
    plot.multi_line(source=_source(columns, rows), **{name: name for name in columns})


def _dots(plot: Any, marks: Iterable[Disc]) -> Any:
    columns = ("x", "y", "radius", "fill_color", "fill_alpha", "title")
    rows = [(disc.x, disc.y, disc.radius, disc.fill, disc.alpha, disc.title) for disc in marks]
    return plot.circle(source=_source(columns, rows), line_color=None, **{name: name for name in columns if name != "title"})


def _rectangles(plot: Any, marks: Iterable[Rectangle]) -> Any:
    columns = ("left", "right", "top", "bottom", "fill_color", "fill_alpha", "line_color", "hatch_pattern", "title")
    rows = [
        (rectangle.x, rectangle.x + rectangle.width, rectangle.y, rectangle.y + rectangle.height, *_look(rectangle), rectangle.title)
        for rectangle in marks
    ]
    source = _source(columns, rows)
    names = {name: name for name in columns if name != "title"}
    return plot.quad(source=source, hatch_color=TEXT, hatch_scale=16, hatch_weight=1, **names)


def _look(mark: Rectangle) -> tuple[str | None, float, str | None, str]:
    return mark.fill, mark.alpha, mark.line, "/" if mark.hatched else " "


def _labels(plot: Any, marks: Iterable[Label]) -> None:
    aligned = {"start": "left", "middle": "center", "end": "right"}
    columns = ("x", "y", "text", "text_align", "text_color", "text_font_style")
    rows = [(label.x, label.y, label.text, aligned[label.anchor], label.colour, "bold" if label.bold else "normal") for label in marks]
    names = {name: name for name in columns}
    plot.text(source=_source(columns, rows), text_font=value("monospace"), text_font_size=f"{FONT}px", text_baseline="alphabetic", **names)


def _source(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Any:
    return ColumnDataSource({name: [row[index] for row in rows] for index, name in enumerate(columns)})
