"""The board as a picture: the plan, its key figures, and the dimensions on each mesh axis."""

from collections.abc import Iterator
from typing import NamedTuple

from workbench.core.text_tables import count_text, sizes_text, table_text
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize.draw.drawing_marks import Drawing, Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import NEUTRAL, axis_colour
from workbench.visualize.draw.picture import Picture

_WIDE, _GAP, _LINE, _CHIP, _PAD, _EDGE = 760, 10, 16, 22, 10, 12  # pixels; `_EDGE` is the margin


class _Zone(NamedTuple):
    """The dimensions on a mesh axis, or unsharded ones, with their sizes on one device."""

    title: str
    colour: str
    chips: tuple[str, ...]


def board_picture(report: Report) -> Picture:
    """The board of a report."""
    figures, zones = list(_figures(report)), list(_zones(report.plan))
    return Picture.of(_drawing(report, figures, zones), _text(report, figures, zones))


def _figures(report: Report) -> Iterator[tuple[str, str]]:
    if report.seconds is not None:
        yield "step, predicted", format_seconds(report.seconds)
    planned = report.staged_pipeline
    yield "memory per device", format_bytes(report.peak)
    if report.memory.capacity:
        yield "of a device's", format_bytes(report.memory.capacity)
    if planned is not None:
        yield "between stages", format_bytes(sum(planned.traffic.values()))
    yield "sent per device", format_bytes(report.most(lambda each: each.sent).sent)
    yield "FLOP per device", format_count(report.most(lambda each: each.flops.per_device).flops.per_device)


def _zones(plan: Plan) -> Iterator[_Zone]:
    whole = tuple(f"{dim} {sizes_text(sizes)}" for dim, sizes in plan.program.dims.items() if not plan.layout.rule(dim))
    yield _Zone("unsharded", NEUTRAL, whole)
    for axis, size in plan.mesh.axes:
        dims = [dim for dim in plan.program.dims if axis in plan.layout.rule(dim)]
        title = f"{axis} × {size}" + (", the stages" if plan.pipeline and plan.pipeline.axis == axis else "")
        yield _Zone(title, axis_colour(axis, plan.mesh), tuple(_split_chip(plan, dim) for dim in dims))


def _split_chip(plan: Plan, dim: str) -> str:
    parts = 1
    for axis in plan.layout.rule(dim):
        parts *= plan.mesh[axis]
    sizes = plan.program.dims[dim]
    return f"{dim} {sizes_text(sizes)} → {sizes_text(tuple(-(-size // parts) for size in sizes))}"


def _heading(report: Report) -> str:
    where = f", planned for {report.hardware}" if report.hardware else ""
    return f"{report.title} ({count_text(report.mesh.size, 'device')}){where}"


def _laid_out(plan: Plan) -> str:
    pipelined = [f"pipeline {plan.pipeline}"] if plan.pipeline else []
    return "; ".join([str(plan.layout) or "everything replicated", *pipelined])


def _drawing(report: Report, figures: list[tuple[str, str]], zones: list[_Zone]) -> Drawing:
    y = _EDGE + 12.0
    marks: list[Mark] = [Label(_EDGE, y, _heading(report), bold=True)]
    y += _LINE + 2
    for line in _wrap(_laid_out(report.plan), _WIDE):
        marks.append(Label(_EDGE, y, line))
        y += _LINE
    x = float(_EDGE)
    for label, value in figures:
        marks += [Label(x, y + 12, label, colour=NEUTRAL), Label(x, y + 12 + _LINE, value, bold=True)]
        x += max(text_width(label), text_width(value)) + 2 * _GAP
    y += 2 * _LINE + 2 * _GAP
    for zone in zones:
        y = _draw_zone(marks, zone, y) + _GAP
    return fit_drawing(tuple(marks), _EDGE)


def _draw_zone(marks: list[Mark], zone: _Zone, top: float) -> float:
    """Add a box with a title and chips; returns the y of its end."""
    left = float(_EDGE + _PAD)
    inside: list[Mark] = [Label(left, top + 18, zone.title, bold=True, colour=zone.colour)]
    x, y = left, top + 28
    for chip in zone.chips or ("nothing",):
        wide = text_width(chip) + 2 * _PAD
        if x > left and x + wide > _EDGE + _WIDE - _PAD:
            x, y = left, y + _CHIP + 6
        if zone.chips:
            inside.append(Rectangle(x, y, wide, _CHIP, zone.colour, 0.14, zone.colour, round=4))
        inside.append(Label(x + _PAD * bool(zone.chips), y + 15, chip))
        x += wide + 6
    end = y + _CHIP + _PAD
    marks += [Rectangle(_EDGE, top, _WIDE, end - top, None, line=NEUTRAL), Rectangle(_EDGE, top, _WIDE, 3, zone.colour), *inside]
    return end


def _wrap(text: str, width: float) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        if line and text_width(f"{line} {word}") > width:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


def _text(report: Report, figures: list[tuple[str, str]], zones: list[_Zone]) -> str:
    rows = [(zone.title, " · ".join(zone.chips) or "nothing") for zone in zones]
    shown = " · ".join(f"{label} {value}" for label, value in figures)
    table = table_text(["mesh axis", "dimensions"], rows)
    return f"{_heading(report)}\n{_laid_out(report.plan)}\n{shown}\n\n{table}"
