"""The base figure of all charts: transparent, responsive, readable on light and dark, with Bokeh's own tools.

Ranges are explicit, since Bokeh cannot compute ranges over empty sources. Models that are filled later have names.
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
AXIS_FONTS = "system-ui, sans-serif"  # Bokeh's default is Helvetica alone, which Firefox replaces by a serif font if missing
FONTS = value("ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace")
MARKED = WARNING
"""The outline of the selection."""

_TIP = (
    '<div style="font:12px/1.4 ui-monospace,monospace;max-width:440px;white-space:pre-wrap;overflow-wrap:anywhere;'
    'margin:-5px;padding:5px 8px;background:#fff;color:#111">@title</div>'
)
"""The tooltip, on its own background; `chart_look.js` applies the board's colours."""


def empty_chart(height: int, zoom: Zoom, *, logs: tuple[bool, bool] = (False, False)) -> Any:
    """A figure that pans by dragging and zooms by shift-drag and ctrl + wheel; the wheel alone scrolls the page."""
    types = ["log" if is_log else "linear" for is_log in logs]
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
        min_border_left=2,  # BokehJS never clears a tick drawn at the very edge before there are labels
        min_border_right=12,
        min_border_top=8,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        lod_threshold=None,  # otherwise Bokeh omits marks while panning
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
    """A data source with these columns, empty or with `rows` rows of zeros."""
    return ColumnDataSource({column: [0.0] * rows for column in columns}, name=name)


def react(plot: Any, *renderers: Any) -> None:
    """Add tooltips from the column `title`, and selection by tap, to these glyphs."""
    hover = HoverTool(renderers=list(renderers), tooltips=_TIP, point_policy="follow_mouse", name="hover")
    plot.add_tools(hover, TapTool(renderers=list(renderers)))


def add_text(plot: Any, source: Any, **how: Any) -> Any:
    """Labels from the columns x, y and text."""
    look = {"text_font": FONTS, "text_font_size": FONT, "text_color": TEXT, **how}
    return plot.text(x="x", y="y", text="text", source=source, **look)


# Figures of time spans in lanes: the figure, the idle time in the background, the spans.

AT_EDGES = {each: each for each in EDGES}


def empty_lanes() -> Any:
    """A figure whose y ticks are lane names; the ticker is named `lanes`."""
    plot = empty_chart(200, "width")
    plot.yaxis.ticker = FixedTicker(ticks=[], name="lanes")
    plot.yaxis.axis_line_color = plot.yaxis.major_tick_line_color = None
    plot.yaxis.axis_label = None
    plot.ygrid.visible = False
    return plot


def add_idle(plot: Any) -> None:
    """Add the source `idle`, the full time of each lane; `own` is `right` on the lane's own scale."""
    hatch = {"hatch_color": NEUTRAL, "hatch_alpha": 0.35, "hatch_pattern": "right_diagonal_line", "hatch_scale": 6, "hatch_weight": 1}
    plot.quad(source=add_source("idle", IDLE), fill_color=NEUTRAL, fill_alpha=0.08, line_color=None, **hatch, **AT_EDGES)


def add_tasks(plot: Any, *others: Any) -> None:
    """Add spans with labels and a hatched share; hovering dims the others. `others` are glyphs that react too."""
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
