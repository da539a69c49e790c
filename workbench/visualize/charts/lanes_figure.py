"""The parts of a figure of spans of time in lanes: the figure, idle time behind them, and the spans."""

from typing import Any

from bokeh.models import FixedTicker

from workbench.visualize.charts.empty_figure import add_source, add_text, empty_chart, react
from workbench.visualize.charts.packed_spans import BLOCKS, EDGES, IDLE
from workbench.visualize.draw.palette import NEUTRAL

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
