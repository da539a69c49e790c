"""One step of one device over time: predicted above measured, on one scale."""

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

_CHARACTERS = 64  # of the longer timeline
_WAITING, _LIGHT = 0.35, 0.55  # opacity of waiting, and of a kernel that is no dot
_SHADES = " ░▒▓█"
_PRODUCTS = {"dot", "stablehlo.dot_general", "stablehlo.convolution"}


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """One half of the picture: its title, its duration, and its events."""

    title: str
    seconds: float
    spans: tuple[DrawnSpan, ...]
    rows: tuple[str, ...]


def timeline_text(title: str, parts: Sequence[TimelinePart]) -> str:
    """The same rows in characters, darker where more of the time is busy."""
    longest = max((part.seconds for part in parts), default=0.0)
    sections = [title]
    for part in parts:
        cells = max(round(_CHARACTERS * part.seconds / (longest or 1)), 1)
        rows = [(row, _bar(part, row, cells), format_seconds(_busy(part, row))) for row in part.rows]
        sections.append(f"{part.title}\n\n{table_text(['', f'0 to {format_seconds(part.seconds)}', 'busy>'], rows)}")
    return "\n\n".join(sections)


def timeline_parts(report: Report, trace: Trace | None, tasks: Sequence[TaskTime] = ()) -> tuple[TimelinePart, ...]:
    """The predicted and the measured half, whichever there are; of a pipelined plan both for each stage, with its measured tasks."""
    found = []
    for each in (report,) if report.is_of_devices else report.stages:
        found += [*_predicted(each), *_measured_tasks(each, tasks)]
    if trace is not None and trace.events:
        device = trace.events[0].device
        measured = [each for part in _measured_spans(trace, device) for each in part]
        found.append(_part(f"measured, device {device}", trace.seconds, tuple(measured), report.mesh))
    return tuple(found)


def _predicted(report: Report) -> Iterator[TimelinePart]:
    if (predicted := report.timeline) is not None:
        events = predicted.events
        sources = _sources(report)
        styles = {
            (each.kind, each.path, each.stream): _predicted_style(
                each, sources.get((each.kind, each.path)) or sources.get(("", each.path), "")
            )
            for each in events
        }
        spans = tuple(
            DrawnSpan(each.stream, each.start, each.seconds, *styles[each.kind, each.path, each.stream]) for each in unroll_loops(events)
        )
        name = "predicted" if report.stage is None else f"stage {report.stage}, predicted"
        yield _part(name, predicted.seconds, spans, report.mesh)


def _measured_tasks(report: Report, tasks: Sequence[TaskTime]) -> Iterator[TimelinePart]:
    """The tasks of one stage as a run measured them, from the start of the first of all."""
    mine = [each for each in tasks if each.device == report.stage]
    if mine:
        begin, end = min(each.start for each in tasks), max(each.end for each in tasks)
        spans = tuple(DrawnSpan(COMPUTE, each.start - begin, each.seconds, _task_name(each)) for each in mine)
        yield _part(f"stage {report.stage}, measured", end - begin, spans, report.mesh)


def _task_name(task: TaskTime) -> str:
    kind = task.kind.replace("_", ", ")
    return kind if task.kind == "update" else f"{kind} of micro-batch {task.micro_batch}, virtual stage {task.stage}"


def _sources(report: Report) -> dict[tuple[str, str], str]:
    """The user's line of each kernel and collective, by kind and path, and by path alone."""
    found: dict[tuple[str, str], str] = {}
    found |= {key: each.source for each in report.collectives for key in ((each.kind, each.path), ("", each.path))}
    found |= {key: each.source for each in report.kernel_costs for key in ((each.kind, each.path), ("", each.path))}
    return found


def _predicted_style(event: Event, source: str) -> tuple[str, float, str]:
    """The name of a span, how strongly it is shown, and the path that it selects."""
    return _name(_operation(event.kind), event.path, source), _weight(event.kind, event.stream), event.path


def _part(title: str, seconds: float, spans: tuple[DrawnSpan, ...], mesh: Mesh) -> TimelinePart:
    return TimelinePart(f"{title}: {format_seconds(seconds)}", seconds, spans, rows_of(spans, mesh.names))


def _measured_spans(trace: Trace, device: int) -> Iterator[tuple[DrawnSpan, ...]]:
    """A collective in two parts: waiting, and the time once the last device has arrived."""
    unwaited = {each.name: each.unwaited for each in trace.collectives}
    for each in trace.of_device(device):
        name = _name(f"{each.name} ({each.kind})" if each.kind not in each.name else each.name, each.path, each.source)
        if not each.communicates:
            yield (DrawnSpan(each.stream, each.start, each.seconds, name, _weight(each.kind, each.stream), each.path),)
            continue
        moving = min(unwaited[each.name], each.seconds)
        waiting = DrawnSpan(each.stream, each.start, each.seconds - moving, f"{name}, waiting for other devices", _WAITING, each.path)
        yield (*([waiting] if waiting.seconds else []), DrawnSpan(each.stream, each.stop - moving, moving, name, 1.0, each.path))


def _operation(kind: str) -> str:
    """`dot_general`, or for a loop what its block stands for."""
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
    found = shares([span for span in part.spans if span.row == row], part.seconds, cells)
    return "".join(_SHADES[min(round(share * 4 + 0.3), 4)] for share in found).rstrip() or "·"


def row_colour(row: str, mesh: Mesh) -> str:
    """The colour of its mesh axis; neutral for computation, and for several axes."""
    axes = tuple(row.split("+"))
    return axes_colour(axes, mesh) if {*map(base_axis, axes)} <= {*mesh.names} else NEUTRAL
