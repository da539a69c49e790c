"""A drawing as a Bokeh figure: a source for each kind of mark, one pixel a unit, the ranges explicit."""

from collections.abc import Iterable
from typing import Any

from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.plotting import figure

from workbench.visualize.draw.drawing_marks import FONT, Area, Disc, Drawing, Label, Polyline, Rectangle
from workbench.visualize.draw.palette import TEXT


def bokeh_figure(drawing: Drawing) -> Any:
    """A new `bokeh.plotting.figure` on a transparent background. A title becomes a tooltip."""
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
    _rectangles(plot, (each for each in drawing.rectangles if not each.title))
    shown.append(_rectangles(plot, (each for each in drawing.rectangles if each.title)))
    if drawing.dots:
        shown.append(_dots(plot, drawing.dots))
    plot.add_tools(HoverTool(renderers=shown, tooltips="@title"))
    _labels(plot, drawing.labels)
    return plot


def _areas(plot: Any, marks: Iterable[Area]) -> Any:
    columns = ("xs", "ys", "fill_color", "fill_alpha", "title")
    rows = [([x for x, _ in each.points], [y for _, y in each.points], each.fill, each.alpha, each.title) for each in marks]
    names = {name: name for name in columns if name != "title"}
    return plot.patches(source=_source(columns, rows), line_color=None, **names)


def _lines(plot: Any, marks: Iterable[Polyline]) -> None:
    columns = ("xs", "ys", "line_color", "line_width", "line_alpha", "line_dash")
    rows = [
        (
            [x for x, _ in each.points],
            [y for _, y in each.points],
            each.colour,
            each.width,
            each.alpha,
            "dashed" if each.dashed else "solid",
        )
        for each in marks
    ]
    plot.multi_line(source=_source(columns, rows), **{name: name for name in columns})


def _dots(plot: Any, marks: Iterable[Disc]) -> Any:
    columns = ("x", "y", "radius", "fill_color", "fill_alpha", "title")
    rows = [(each.x, each.y, each.radius, each.fill, each.alpha, each.title) for each in marks]
    return plot.circle(source=_source(columns, rows), line_color=None, **{name: name for name in columns if name != "title"})


def _rectangles(plot: Any, marks: Iterable[Rectangle]) -> Any:
    columns = ("left", "right", "top", "bottom", "fill_color", "fill_alpha", "line_color", "hatch_pattern", "title")
    rows = [(each.x, each.x + each.width, each.y, each.y + each.height, *_look(each), each.title) for each in marks]
    source = _source(columns, rows)
    names = {name: name for name in columns if name != "title"}
    return plot.quad(source=source, hatch_color=TEXT, hatch_scale=16, hatch_weight=1, **names)


def _look(mark: Rectangle) -> tuple[str | None, float, str | None, str]:
    return mark.fill, mark.alpha, mark.line, "/" if mark.hatched else " "


def _labels(plot: Any, marks: Iterable[Label]) -> None:
    aligned = {"start": "left", "middle": "center", "end": "right"}
    columns = ("x", "y", "text", "text_align", "text_color", "text_font_style")
    rows = [(each.x, each.y, each.text, aligned[each.anchor], each.colour, "bold" if each.bold else "normal") for each in marks]
    names = {name: name for name in columns}
    plot.text(source=_source(columns, rows), text_font=value("monospace"), text_font_size=f"{FONT}px", text_baseline="alphabetic", **names)


def _source(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Any:
    return ColumnDataSource({name: [row[place] for row in rows] for place, name in enumerate(columns)})
