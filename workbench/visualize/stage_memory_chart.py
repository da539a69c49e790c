"""Pipeline stages side by side: the peak memory of a device of each stage, and the traffic between stages."""

from collections.abc import Iterator, Sequence

from workbench.core.tensor import Role
from workbench.core.text_tables import table_text
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.visualize.draw.bars import stack_bars
from workbench.visualize.draw.drawing_marks import Drawing, Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import AXES, NEUTRAL, ROLES, TEXT, WARNING
from workbench.visualize.draw.picture import Picture

_LENGTH, _HIGH, _LINE, _CHARACTERS = 640, 20, 16, 20  # pixels, and length of the longest bar in characters
_CELL, _CELL_HIGH, _ROW = 92, 30, 92  # pixels: width and height of a matrix cell, width of the row heads
_NEAR = 0.4  # share of the device's memory above which its capacity is shown


def stage_memory(report: Report) -> Picture:
    """A bar for each stage: the peak memory of one of its devices by role, with a line at the capacity."""
    stages = report.stages
    return Picture(_memory_title(report), lambda: _memory_drawing(report, stages), lambda: _memory_text(report))


def _memory_text(report: Report) -> str:
    most = max(stage.memory.peak for stage in report.stages) or 1
    roles = _roles(report.stages)
    rows = [
        (
            f"{stage.stage}",
            format_bytes(stage.memory.peak),
            "█" * round(_CHARACTERS * stage.memory.peak / most) or "▏",
            *(format_bytes(stage.memory.by_role.get(role, 0)) for role in roles),
        )
        for stage in report.stages
    ]
    return f"{_memory_title(report)}\n\n{table_text(['stage', 'peak>', '', *(f'{role.value}>' for role in roles)], rows)}"


def _roles(stages: Sequence[Report]) -> list[Role]:
    return [role for role in Role if any(stage.memory.by_role.get(role, 0) for stage in stages)]


def _memory_title(report: Report) -> str:
    fullest = report.fullest
    return f"{report.title}: stage {fullest.stage} holds the most, {format_bytes(fullest.memory.peak)} on one device at its peak"


def _memory_drawing(report: Report, stages: Sequence[Report]) -> Drawing:
    room = stages[0].memory.capacity
    most = max(stage.memory.peak for stage in stages) or 1
    room = room if most > _NEAR * room else 0
    scale = max(most, room)
    head = text_width(f"stage {len(stages)}") + 14
    marks: list[Mark] = [Label(0, 12, _memory_title(report), bold=True)]
    y = 28.0
    for stage in stages:
        marks += _memory_bar(stage, head, y, scale)
        y += _HIGH + 5
    if room:
        x = head + _LENGTH * room / scale
        marks += [
            Rectangle(x, 24, 1, y - 24, fill=WARNING),
            Label(x, y + 10, f"{format_bytes(room)} a device", anchor="end", colour=WARNING),
        ]
        y += _LINE
    return fit_drawing((*marks, *_legend(_roles(stages), head, y + _LINE)))


def _memory_bar(report: Report, head: float, y: float, scale: int) -> Iterator[Mark]:
    parts = [(role, count) for role in Role if (count := report.memory.by_role.get(role, 0))]
    yield Label(0, y + 14, f"stage {report.stage}", bold=True)
    spans = stack_bars([count for _, count in parts], scale, _LENGTH)
    for (start, stop), (role, count) in zip(spans, parts, strict=True):
        title = f"stage {report.stage}: {role.value} {format_bytes(count)} of {format_bytes(report.memory.peak)}"
        yield Rectangle(head + start, y, max(stop - start, 1), _HIGH, fill=ROLES[tuple(Role).index(role)], title=title)
    end = head + (spans[-1][1] if spans else 0)
    tone = TEXT if report.memory.fits else WARNING
    yield Label(end + 8, y + 14, format_bytes(report.memory.peak), colour=tone, bold=not report.memory.fits)


def _legend(roles: Sequence[Role], x: float, y: float) -> Iterator[Mark]:
    for role in roles:
        yield Rectangle(x, y - 8, 9, 9, fill=ROLES[tuple(Role).index(role)])
        yield Label(x + 14, y, role.value)
        x += text_width(role.value) + 32


def stage_traffic(report: Report) -> Picture:
    """A matrix of bytes per step between stages; the diagonal has collectives within a stage, per device."""
    planned = _require_pipeline(report)
    return Picture(_traffic_title(report, planned), lambda: _traffic_drawing(report, planned), lambda: _traffic_text(report))


def _traffic_text(report: Report) -> str:
    planned = _require_pipeline(report)
    stages = range(planned.spec.stages)
    sent = {(stage, stage): report.stages[stage].sent for stage in stages} | dict(planned.traffic)
    rows = [
        (f"{stage_from}", *(format_bytes(sent[stage_from, other]) if sent.get((stage_from, other)) else "-" for other in stages))
        for stage_from in stages
    ]
    return f"{_traffic_title(report, planned)}\n\n{table_text(['from', *(f'to {other_stage}>' for other_stage in stages)], rows)}"


def _require_pipeline(report: Report) -> PipelineReport:
    planned = report.pipeline
    assert planned is not None, "a view of stages is asked of pipelined plans"
    return planned


def _traffic_title(report: Report, planned: PipelineReport) -> str:
    between = sum(planned.traffic.values())
    inside = max(stage.sent for stage in report.stages)
    return (
        f"{report.title}: {format_bytes(between)} a step between stages; within them at most {format_bytes(inside)} leave each device, "
        "on the diagonal"
    )


def _traffic_drawing(report: Report, planned: PipelineReport) -> Drawing:
    stages = range(planned.spec.stages)
    sent = {(stage, stage): report.stages[stage].sent for stage in stages} | dict(planned.traffic)
    most = max(sent.values(), default=0) or 1
    heads = [Label(_ROW + _CELL * (other + 0.5), 38, f"to stage {other}", anchor="middle") for other in stages]
    marks: list[Mark] = [Label(0, 12, _traffic_title(report, planned), bold=True), *heads]
    for one in stages:
        y = 46 + _CELL_HIGH * one
        marks.append(Label(0, y + 19, f"from stage {one}", bold=True))
        for other in stages:
            marks += _cell(one, other, sent.get((one, other), 0), most, _ROW + _CELL * other, y)
    return fit_drawing(tuple(marks))


def _cell(one: int, other: int, count: int, most: int, x: float, y: float) -> Iterator[Mark]:
    what = f"within stage {one}, in collectives" if one == other else f"from stage {one} to stage {other}"
    fill = NEUTRAL if one == other else AXES[0]
    title = f"{format_bytes(count)} a step {what}"
    yield Rectangle(x + 1, y, _CELL - 2, _CELL_HIGH - 2, fill=fill, alpha=0.08 + 0.4 * count / most if count else 0.04, title=title)
    if count:
        yield Label(x + _CELL / 2, y + 19, format_bytes(count), anchor="middle")
