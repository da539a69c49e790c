"""Bytes sent per device and step by mesh axis and kind of collective; with hardware also time and exposed time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.core.sharding import base_axis
from workbench.core.text_tables import axes_text, table_text
from workbench.reports.collective import KINDS
from workbench.reports.kernel import COMPUTE
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds
from workbench.visualize.draw.bars import Bar, bars_drawing, bars_text
from workbench.visualize.draw.drawing_marks import Drawing, Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import axes_colour
from workbench.visualize.draw.picture import Picture

_COLUMNS = ("mesh axis", "sent", "of it")
_TO_STAGES = "to other stages"
_KINDS = (*KINDS, _TO_STAGES)
_LENGTH, _HIGH, _LINE = 360, 18, 16  # pixels


@dataclass(frozen=True, slots=True)
class _Time:
    """Seconds per step over one set of mesh axes: exposed, and overlapped with computation."""

    axes: tuple[str, ...]
    exposed: float
    hidden: float

    @property
    def seconds(self) -> float:
        return self.exposed + self.hidden


def communication(report: Report) -> Picture:
    """A bar for each set of mesh axes, a segment for each kind of collective; with hardware also a bar of times."""
    report = report.shown
    return Picture(_title(report), lambda: _drawing(report), lambda: _text(report))


def _drawing(report: Report) -> Drawing:
    drawing, times = bars_drawing(_title(report), _bars(report)), _times(report)
    return _with_times(drawing, report, times) if times else drawing


def _text(report: Report) -> str:
    text, times = bars_text(_title(report), _COLUMNS, _bars(report)), _times(report)
    if not times:
        return text
    rows = [(axes_text(item.axes), *map(_seconds, (item.seconds, item.exposed, item.hidden))) for item in times]
    return f"{text}\n\n{table_text(['mesh axis', 'time a step>', 'waited for>', 'hidden>'], rows)}"


def _title(report: Report) -> str:
    amount = f"sends {format_bytes(report.sent)} in a step" if report.sent else "sends nothing"
    if passed := _sent_to_stages(report):
        amount = f"sends {format_bytes(report.sent)} a step within its stage, and {format_bytes(passed)} to other stages"
    return f"{report.title}: each device {amount}"


def _axis_order(report: Report, axes: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    return tuple(report.mesh.names.index(base_axis(axis)) for axis in axes), axes


def _bars(report: Report) -> tuple[Bar, ...]:
    sent: dict[tuple[str, ...], dict[str, int]] = {}
    for collective in report.collectives:
        kinds = sent.setdefault(collective.axes, {})
        kinds[collective.kind] = kinds.get(collective.kind, 0) + collective.total_sent
    if passed := _sent_to_stages(report):
        axis = report.plan.pipeline.axis if report.plan.pipeline else ""
        sent.setdefault((axis,), {})[_TO_STAGES] = passed
    return tuple(
        Bar(axes_text(axes), axes_colour(axes, report.mesh), tuple((kind, sent[axes][kind]) for kind in _KINDS if kind in sent[axes]))
        for axes in sorted(sent, key=lambda axes: _axis_order(report, axes))
    )


def _sent_to_stages(report: Report) -> int:
    """Bytes per step that each device of a stage sends to other stages."""
    planned = report.pipeline if report.stage is not None else None
    return sum(count for (one, _), count in planned.traffic.items() if one == report.stage) if planned else 0


def _times(report: Report) -> tuple[_Time, ...]:
    sums: dict[str, tuple[float, float]] = {}
    for event in report.timeline.events if report.timeline else ():
        if event.stream != COMPUTE:
            exposed, seconds = sums.get(event.stream, (0.0, 0.0))
            sums[event.stream] = exposed + event.exposed * event.count, seconds + event.seconds * event.count
    found = [_Time(tuple(stream.split("+")), exposed, max(seconds - exposed, 0.0)) for stream, (exposed, seconds) in sums.items()]
    return tuple(sorted(found, key=lambda each: _axis_order(report, each.axes)))


def _seconds(seconds: float) -> str:
    return format_seconds(seconds) if seconds > 1e-9 else "–"


def _with_times(drawing: Drawing, report: Report, times: Sequence[_Time]) -> Drawing:
    y = drawing.height + 14
    head = max(text_width(axes_text(item.axes)) for item in times) + 12
    longest = max(item.seconds for item in times) or 1.0
    whole = f"{format_seconds(sum(item.seconds for item in times))} a step, {format_seconds(sum(item.exposed for item in times))} of it"
    marks: list[Mark] = [*drawing.marks, Label(0, y, f"Time: {whole} exposed; hatched: overlapped with computation", bold=True)]
    for item in times:
        y += _HIGH + 10
        marks += _time(item, report, head, y - 14, longest)
    return fit_drawing(tuple(marks))


def _time(time: _Time, report: Report, head: float, y: float, longest: float) -> Iterator[Mark]:
    colour, name = axes_colour(time.axes, report.mesh), axes_text(time.axes)
    yield Label(0, y + 13, name, colour=colour, bold=True)
    exposed, hidden = (_LENGTH * seconds / longest for seconds in (time.exposed, time.hidden))
    if time.exposed:
        title = f"{name}: {format_seconds(time.exposed)} exposed: the device is idle"
        yield Rectangle(head, y, max(exposed, 1), _HIGH, fill=colour, title=title)
    if time.hidden > 0.001 * time.seconds:
        title = f"{name}: {format_seconds(time.hidden)} overlapped with computation"
        yield Rectangle(head + exposed, y, max(hidden, 1), _HIGH, fill=colour, alpha=0.35, hatched=True, title=title)
    yield Label(head + exposed + hidden + 8, y + 13, f"{format_seconds(time.seconds)}, {time.exposed / (time.seconds or 1):.0%} waited for")
