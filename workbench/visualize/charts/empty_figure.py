"""The figure that every chart begins with: transparent, as wide as its place, its text readable on light and dark, its tools Bokeh's own.

Ranges are explicit: Bokeh cannot set ranges of its own over sources that are still empty. Models that are filled later have names.
"""

from collections.abc import Sequence
from typing import Any, Literal

from bokeh.core.properties import value
from bokeh.models import BasicTickFormatter, BoxZoomTool, ColumnDataSource, FixedTicker, HoverTool, PanTool, Range1d, TapTool, WheelZoomTool
from bokeh.plotting import figure

from workbench.visualize.charts.packed_spans import BLOCKS, EDGES, IDLE
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


# The parts of a figure of spans of time in lanes: the figure, idle time behind them, and the spans.

AT_EDGES = {each: each for each in EDGES}


def empty_lanes() -> Any:
    """Along y are lanes, whose names are the ticks; `lanes` is their ticker."""
    plot = empty_chart(200, "width")
    plot.yaxis.ticker = FixedTicker(ticks=[], name="lanes")
    plot.yaxis.axis_line_color = plot.yaxis.major_tick_line_color = None
    plot.yaxis.axis_label = None
    plot.ygrid.visible = False
    return plot


def add_idle(plot: Any) -> None:
    """The source `idle` is the whole time of each lane: what no span is drawn over. Its column `own` is `right` on a scale of its own."""
    hatch = {"hatch_color": NEUTRAL, "hatch_alpha": 0.35, "hatch_pattern": "right_diagonal_line", "hatch_scale": 6, "hatch_weight": 1}
    plot.quad(source=add_source("idle", IDLE), fill_color=NEUTRAL, fill_alpha=0.08, line_color=None, **hatch, **AT_EDGES)


def add_tasks(plot: Any, *others: Any) -> None:
    """Spans with a number or a word in their middle, a share of them hatched; while some are pointed at the rest stands back. `others` are
    glyphs that are pointed at too."""
    blocks = add_source("blocks", BLOCKS)
    tasks = plot.quad(source=blocks, fill_color="color", fill_alpha="alpha", line_color=None, **AT_EDGES)
    tasks.hover_glyph = tasks.glyph.clone(line_color=NEUTRAL, line_width=2)
    tasks.nonselection_glyph = tasks.glyph.clone(fill_alpha=0.25)
    hatched = plot.quad(source=blocks, fill_color=None, line_color=None, **{**AT_EDGES, "right": "shared"})
    hatched.glyph.update(hatch_color="#FFFFFF", hatch_alpha=0.5, hatch_pattern="left_diagonal_line", hatch_scale=5, hatch_weight=1.5)
    hatched.nonselection_glyph = hatched.glyph.clone(hatch_alpha=0.15)
    names = add_source("names", ("x", "y", "text", "color"))
    add_text(plot, names, text_color="color", text_baseline="middle", text_align="center")
    react(plot, tasks, *others)
