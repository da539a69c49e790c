"""Timeline of one step of one device: predicted above measured, on one scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.mesh import Mesh
from workbench.core.sharding import base_axis
from workbench.core.text_tables import table_text
from workbench.reports.device_trace import Trace
from workbench.reports.kernel import COMPUTE, Event
from workbench.reports.measurement import TaskTime
from workbench.reports.report import Report
from workbench.units import format_seconds
from workbench.visualize.charts.chart import Chart, KeyEntry, seconds_unit
from workbench.visualize.charts.packed_spans import BLOCKS, Lane, Span, SpanStyle, lane_properties, pack_spans
from workbench.visualize.charts.still_drawing import still_drawing
from workbench.visualize.draw.palette import NEUTRAL, STEP, axes_colour
from workbench.visualize.draw.picture import Picture
from workbench.visualize.draw.timeline_spans import DrawnSpan, rows_of, shares, unroll_loops

_CHARACTERS = 64  # width of the longer timeline
_WAITING, _LIGHT = 0.35, 0.55  # opacity of waiting, and of kernels other than dots
_SHADES = " ░▒▓█"
_PRODUCTS = {"dot", "stablehlo.dot_general", "stablehlo.convolution"}


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """One half of the picture, predicted or measured: title, duration in seconds, spans and rows."""

    title: str
    seconds: float
    spans: tuple[DrawnSpan, ...]
    rows: tuple[str, ...]


def timeline_text(title: str, parts: Sequence[TimelinePart]) -> str:
    """The same rows in characters, darker where a larger share of the time is busy."""
    longest = max((part.seconds for part in parts), default=0.0)
    sections = [title]
    for part in parts:
        cells = max(round(_CHARACTERS * part.seconds / (longest or 1)), 1)
        rows = [(row, _bar(part, row, cells), format_seconds(_busy(part, row))) for row in part.rows]
        sections.append(f"{part.title}\n\n{table_text(['', f'0 to {format_seconds(part.seconds)}', 'busy>'], rows)}")
    return "\n\n".join(sections)


def timeline_parts(report: Report, trace: Trace | None, tasks: Sequence[TaskTime] = ()) -> tuple[TimelinePart, ...]:
    """The predicted and measured parts that exist; for a pipelined plan those of each stage, with its measured tasks."""
    parts = []
    for each in (report,) if report.is_of_devices else report.stages:
        parts += [*_predicted(each), *_measured_tasks(each, tasks)]
    if trace is not None and trace.events:
        device = trace.events[0].device
        measured = [each for part in _measured_spans(trace, device) for each in part]
        parts.append(_part(f"measured, device {device}", trace.seconds, tuple(measured), report.mesh))
    return tuple(parts)


def _predicted(report: Report) -> Iterator[TimelinePart]:
    if (predicted := report.timeline) is not None:
        events = predicted.events
        sources = _sources(report)
        styles = {
            (event.kind, event.path, event.stream): _predicted_style(
                event, sources.get((event.kind, event.path)) or sources.get(("", event.path), "")
            )
            for event in events
        }
        spans = tuple(
            DrawnSpan(event.stream, event.start, event.seconds, *styles[event.kind, event.path, event.stream])
            for event in unroll_loops(events)
        )
        name = "predicted" if report.stage is None else f"stage {report.stage}, predicted"
        yield _part(name, predicted.seconds, spans, report.mesh)


def _measured_tasks(report: Report, tasks: Sequence[TaskTime]) -> Iterator[TimelinePart]:
    stage_tasks = [task for task in tasks if task.device == report.stage]
    if stage_tasks:
        begin, end = min(task.start for task in tasks), max(task.end for task in tasks)
        spans = tuple(DrawnSpan(COMPUTE, task.start - begin, task.seconds, _task_name(task)) for task in stage_tasks)
        yield _part(f"stage {report.stage}, measured", end - begin, spans, report.mesh)


def _task_name(task: TaskTime) -> str:
    kind = task.kind.replace("_", ", ")
    return kind if task.kind == "update" else f"{kind} of micro-batch {task.micro_batch}, virtual stage {task.stage}"


def _sources(report: Report) -> dict[tuple[str, str], str]:
    """The source line of each kernel and collective, by kind and path, and by path alone."""
    sources: dict[tuple[str, str], str] = {}
    sources |= {key: item.source for item in report.collectives for key in ((item.kind, item.path), ("", item.path))}
    sources |= {key: item.source for item in report.kernel_costs for key in ((item.kind, item.path), ("", item.path))}
    return sources


def _predicted_style(event: Event, source: str) -> tuple[str, float, str]:
    return _name(_operation(event.kind), event.path, source), _weight(event.kind, event.stream), event.path


def _part(title: str, seconds: float, spans: tuple[DrawnSpan, ...], mesh: Mesh) -> TimelinePart:
    return TimelinePart(f"{title}: {format_seconds(seconds)}", seconds, spans, rows_of(spans, mesh.names))


def _measured_spans(trace: Trace, device: int) -> Iterator[tuple[DrawnSpan, ...]]:
    """The spans of each event; a collective splits into waiting and the time after the last device arrives."""
    unwaited = {event.name: event.unwaited for event in trace.collectives}
    for event in trace.of_device(device):
        name = _name(f"{event.name} ({event.kind})" if event.kind not in event.name else event.name, event.path, event.source)
        if not event.communicates:
            yield (DrawnSpan(event.stream, event.start, event.seconds, name, _weight(event.kind, event.stream), event.path),)
            continue
        moving = min(unwaited[event.name], event.seconds)
        waiting = DrawnSpan(event.stream, event.start, event.seconds - moving, f"{name}, waiting for other devices", _WAITING, event.path)
        yield (*([waiting] if waiting.seconds else []), DrawnSpan(event.stream, event.stop - moving, moving, name, 1.0, event.path))


def _operation(kind: str) -> str:
    return "the other turns of a loop" if kind == "loop" else kind.removeprefix("stablehlo.")


def _weight(kind: str, stream: str) -> float:
    if stream != COMPUTE or kind in _PRODUCTS:
        return 1.0
    return _WAITING if kind == "loop" else _LIGHT


def _name(*words: str) -> str:
    return " · ".join(filter(None, words))


def timeline_title(report: Report, parts: Sequence[TimelinePart]) -> str:
    what = (
        " and ".join(part.title.partition(":")[0] for part in parts) if report.is_of_devices else f"of each of {len(report.stages)} stages"
    )
    what = what or "neither measured nor predicted, as the plan names no hardware"
    return f"{report.title}: one step of one device, {what}"


def _busy(part: TimelinePart, row: str) -> float:
    return sum(span.seconds for span in part.spans if span.row == row)


def _bar(part: TimelinePart, row: str, cells: int) -> str:
    busy_shares = shares([span for span in part.spans if span.row == row], part.seconds, cells)
    return "".join(_SHADES[min(round(share * 4 + 0.3), 4)] for share in busy_shares).rstrip() or "·"


def row_colour(row: str, mesh: Mesh) -> str:
    """The colour of a row's mesh axis; neutral for computation and for several axes."""
    axes = tuple(row.split("+"))
    return axes_colour(axes, mesh) if {*map(base_axis, axes)} <= {*mesh.names} else NEUTRAL


# Interactive timeline of one step of one device: a lane for computation and for each set of mesh axes.


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
