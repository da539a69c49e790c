"""Timeline of one step of one device: predicted above measured, on one scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.core.mesh import Mesh
from workbench.core.sharding import base_axis
from workbench.core.text_tables import table_text
from workbench.reports.device_trace import Trace
from workbench.reports.kernel import COMPUTE, Event
from workbench.reports.measurement import TaskTime
from workbench.reports.report import Report
from workbench.units import format_seconds
from workbench.visualize.draw.palette import NEUTRAL, axes_colour
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
