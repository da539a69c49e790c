"""Interactive timeline of one step of one device: a lane for computation and for each set of mesh axes."""

from collections.abc import Sequence
from typing import Any

from workbench.core.mesh import Mesh
from workbench.reports.device_trace import Trace
from workbench.reports.kernel import COMPUTE
from workbench.reports.measurement import TaskTime
from workbench.reports.report import Report
from workbench.visualize.charts.chart import Chart, KeyEntry, seconds_unit
from workbench.visualize.charts.packed_spans import BLOCKS, Lane, Span, SpanStyle, lane_properties, pack_spans
from workbench.visualize.charts.still_drawing import still_drawing
from workbench.visualize.draw.palette import STEP
from workbench.visualize.draw.picture import Picture
from workbench.visualize.draw.timeline_spans import DrawnSpan
from workbench.visualize.step_timeline import TimelinePart, row_colour, timeline_parts, timeline_text, timeline_title

_ROW, _AXIS = 26, 52  # pixels of a row and of the x axis
_HIGH = 0.8  # share of a row covered by its lane


def timeline_chart(report: Report, trace: Trace | None = None, parts: tuple[TimelinePart, ...] | None = None) -> Chart | None:
    """The events of a step, from `parts` if computed already; `None` if there are none."""
    parts = timeline_parts(report, trace) if parts is None else parts
    longest = max((part.seconds for part in parts), default=0.0)
    if not longest:
        return None
    unit, (lanes, spans, ticks) = seconds_unit(longest), _rows(parts, report.mesh)
    packed = pack_spans([[Span(span.start, span.seconds, kind) for span, kind in lane] for lane in spans], lanes, _styles(parts), unit.size)
    rows = len(lanes) + len(parts)
    return Chart(
        empty_timeline,
        (),
        {},
        {"x": (0.0, longest / unit.size), "y": (float(rows), 0.0)},
        lane_properties(rows * _ROW + _AXIS, f"{unit.name} of the step", ticks),
        key=(
            KeyEntry(STEP[0], "strong: matrix products, data in flight"),
            KeyEntry(STEP[1], "light: other kernels, waiting for other devices"),
        ),
        across=f"timeline {unit.name}",
        spans=(packed,),
    )


def timeline(
    report: Report, trace: Trace | None = None, parts: tuple[TimelinePart, ...] | None = None, *, tasks: Sequence[TaskTime] = ()
) -> Picture:
    """A row for computation and one for each set of mesh axes with communication.

    Dots are opaque, other kernels and the waiting part of measured collectives lighter. `tasks` are the measured tasks
    of a pipelined run; `parts` is the result of `timeline_parts`, if computed already.
    """
    shown_parts = timeline_parts(report, trace, tasks) if parts is None else parts
    title = timeline_title(report, shown_parts)
    return Picture(
        title, lambda: still_drawing(title, timeline_chart(report, parts=shown_parts)), lambda: timeline_text(title, shown_parts)
    )


def empty_timeline() -> Any:
    """The empty figure: time spans, and labels where they fit."""
    from workbench.visualize.charts.empty_figure import AT_EDGES, MARKED, add_source, add_text, empty_lanes, react

    plot = empty_lanes()
    drawn = plot.quad(source=add_source("blocks", BLOCKS), fill_color="color", fill_alpha="alpha", line_color=None, **AT_EDGES)
    drawn.selection_glyph = drawn.glyph.clone(line_color=MARKED, line_width=2)
    drawn.nonselection_glyph = drawn.glyph
    add_text(plot, add_source("names", ("x", "y", "text", "color")), text_color="color", text_baseline="middle", x_offset=4)
    react(plot, drawn)
    return plot


def _rows(parts: Sequence[TimelinePart], mesh: Mesh) -> tuple[tuple[Lane, ...], list[list[tuple[DrawnSpan, int]]], dict[float, str]]:
    """The lanes, their spans with style indices, and the y labels."""
    lanes, spans, ticks = [], [], {}
    style_indices = {style: index for index, style in enumerate(_names(parts))}
    row = 0
    for part in parts:
        ticks[row + 0.5] = part.title
        for name in part.rows:
            row += 1
            colour = STEP[0] if name == COMPUTE else row_colour(name, mesh)
            lanes.append(Lane(name, colour, row + 0.5 + _HIGH / 2, row + 0.5 - _HIGH / 2))
            spans.append([(span, style_indices[span.name, span.path, span.weight]) for span in part.spans if span.row == name])
            ticks[row + 0.5] = name
        row += 1
    return tuple(lanes), spans, ticks


def _names(parts: Sequence[TimelinePart]) -> dict[tuple[str, str, float], None]:
    return dict.fromkeys((span.name, span.path, span.weight) for part in parts for span in part.spans)


def _styles(parts: Sequence[TimelinePart]) -> tuple[SpanStyle, ...]:
    return tuple(SpanStyle("/".join(path.split("/")[-2:]) or name, name, path, weight) for name, path, weight in _names(parts))
