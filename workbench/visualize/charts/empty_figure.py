"""The figure that every chart begins with: transparent, as wide as its place, its text readable on light and dark, its tools Bokeh's own.

Ranges are explicit: Bokeh cannot set ranges of its own over sources that are still empty. Models that are filled later have names.
"""

from collections.abc import Sequence
from typing import Any, Literal

from bokeh.core.properties import value
from bokeh.models import BasicTickFormatter, BoxZoomTool, ColumnDataSource, HoverTool, PanTool, Range1d, TapTool, WheelZoomTool
from bokeh.plotting import figure

from workbench.visualize.draw.palette import NEUTRAL, TEXT, WARNING

Zoom = Literal["width", "both"]
FONT = "11px"
AXIS_FONTS = "system-ui, sans-serif"  # Bokeh's own, Helvetica alone, is drawn with serifs by a Firefox that lacks it
FONTS = value("ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace")
MARKED = WARNING
"""The outline of what is selected."""

_TIP = (
    '<div style="font:12px/1.4 ui-monospace,monospace;max-width:440px;white-space:pre-wrap;overflow-wrap:anywhere;'
    'margin:-5px;padding:5px 8px;background:#fff;color:#111">@title</div>'
)
"""What is under the pointer, on a ground of its own: `chart_look.js` gives it the board's colours."""


def empty_chart(height: int, zoom: Zoom, *, logs: tuple[bool, bool] = (False, False)) -> Any:
    """A figure without glyphs. Dragging pans it, with shift held it zooms to a box; the wheel zooms with the control key alone, for without
    it the page is scrolled."""
    types = ["log" if each else "linear" for each in logs]
    plot = figure(
        height=height,
        sizing_mode="stretch_width",
        x_range=Range1d(1, 2, name="x"),
        y_range=Range1d(1, 2, name="y"),
        x_axis_type=types[0],
        y_axis_type=types[1],
        toolbar_location=None,
        tools="",
        name="figure",
        min_border_left=2,  # BokehJS never clears what it once drew at the very edge: a tick, before there are labels
        min_border_right=12,
        min_border_top=8,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        lod_threshold=None,  # else Bokeh leaves out marks while it is dragged
    )
    for axis, name in ((plot.xaxis[0], "x axis"), (plot.yaxis[0], "y axis")):
        axis.update(
            name=name,
            formatter=BasicTickFormatter(use_scientific=False),
            axis_line_color=NEUTRAL,
            major_tick_line_color=NEUTRAL,
            minor_tick_line_color=None,
            major_label_text_color=TEXT,
            axis_label_text_color=TEXT,
            major_label_text_font=AXIS_FONTS,
            axis_label_text_font=AXIS_FONTS,
            major_label_text_font_size=FONT,
            axis_label_text_font_size=FONT,
            axis_label_text_font_style="normal",
            axis_label_standoff=4,
        )
    plot.grid.grid_line_color, plot.grid.grid_line_alpha = NEUTRAL, 0.18
    box = "both" if zoom == "both" else "width"
    plot.add_tools(
        PanTool(dimensions=zoom, name="pan"),
        BoxZoomTool(dimensions=box, name="box"),
        WheelZoomTool(dimensions=zoom, modifiers="ctrl", zoom_on_axis=False),
    )
    return plot


def add_source(name: str, columns: Sequence[str], rows: int = 0) -> Any:
    """An empty data source, or one with so many zeros."""
    return ColumnDataSource({each: [0.0] * rows for each in columns}, name=name)


def react(plot: Any, *renderers: Any) -> None:
    """What of these glyphs is under the pointer is named, and can be tapped; the column `title` names it."""
    hover = HoverTool(renderers=list(renderers), tooltips=_TIP, point_policy="follow_mouse", name="hover")
    plot.add_tools(hover, TapTool(renderers=list(renderers)))


def add_text(plot: Any, source: Any, **how: Any) -> Any:
    """Labels from the columns x, y and text."""
    look = {"text_font": FONTS, "text_font_size": FONT, "text_color": TEXT, **how}
    return plot.text(x="x", y="y", text="text", source=source, **look)
