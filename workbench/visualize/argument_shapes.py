"""Table of the program's arguments: global and local shapes, bytes per device, and padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from workbench.core.path_patterns import template
from workbench.core.tensor import Role, itemsize
from workbench.core.text_tables import dims_text, group_items, shape_text, table_text, tail_text
from workbench.cost.tile_padding import tiled_bytes
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.visualize.draw.drawing_marks import Drawing, Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import ROLES, TEXT, axis_colour
from workbench.visualize.draw.picture import Picture

MOST = 40
_LENGTH, _LINE = 160, 20  # pixels
_LONG = 40  # characters of a path


@dataclass(frozen=True, slots=True)
class _ArgumentRow:
    """Equal arguments with the same sharding; `bytes` and `padding` are totals on one device."""

    first: Placement
    path: str
    count: int
    bytes: int
    padding: int


def padding(placement: Placement, tile: tuple[int, ...] = ()) -> int:
    """Average bytes of padding per device, from uneven splits and from memory tiles (`array_tile`)."""
    tensor, parts = placement.tensor, prod(placement.sharding.parts(placement.mesh))
    allocated = tiled_bytes(placement.local_shape, tensor.dtype, tile)
    return max(allocated - round(tensor.elements * itemsize(tensor.dtype) / parts), 0)


def shapes(report: Report) -> Picture:
    """A row for each group of equal arguments, the largest first, with a bar of its bytes."""
    report = report.shown
    rows = _rows(report)
    return Picture.of(_drawing(report, rows), _text(report, rows))


def _rows(report: Report) -> tuple[_ArgumentRow, ...]:
    tile = report.plan.hardware.chip.array_tile if report.plan.hardware else ()
    groups = group_items(
        report.arguments, lambda each: (template(each.tensor.path), each.tensor.shape, each.tensor.dtype, each.tensor.dims, each.sharding)
    )
    found = []
    for group in groups:
        first = group[0]
        path = template(first.tensor.path) if len(group) > 1 else first.tensor.path
        held = tiled_bytes(first.local_shape, first.tensor.dtype, tile)
        found.append(_ArgumentRow(first, path, len(group), held * len(group), padding(first, tile) * len(group)))
    return tuple(sorted(found, key=lambda each: -each.bytes))


def _title(report: Report, rows: Sequence[_ArgumentRow]) -> str:
    allocated, empty = sum(row.bytes for row in rows), sum(row.padding for row in rows)
    beside = f", {format_bytes(empty)} of it padding" if empty else ""
    return f"{report.title}: arguments take {format_bytes(allocated)} on each device{beside}"


def _text(report: Report, rows: Sequence[_ArgumentRow]) -> str:
    table = [
        (
            _name(row),
            dims_text(row.first.tensor.dims, row.first.tensor.shape),
            str(row.first.sharding),
            shape_text(row.first.local_shape),
            format_bytes(row.bytes),
            format_bytes(row.padding) if row.padding else "",
        )
        for row in rows[:MOST]
    ]
    if not table:
        return _title(report, rows)
    columns = ["argument", "dimensions~", "on", "per device", "bytes>", "padding>"]
    return f"{_title(report, rows)}\n\n{table_text(columns, table)}{_more(rows)}"


def _more(rows: Sequence[_ArgumentRow]) -> str:
    rest = rows[MOST:]
    return f"\n  and {len(rest)} more, {format_bytes(sum(row.bytes for row in rest))}" if rest else ""


def _name(row: _ArgumentRow) -> str:
    return tail_text(row.path, _LONG) + (f" ×{row.count}" if row.count > 1 else "")


def _drawing(report: Report, rows: Sequence[_ArgumentRow]) -> Drawing:
    marks: list[Mark] = [Label(0, 12, _title(report, rows), bold=True)]
    shown = rows[:MOST]
    if not shown:
        return fit_drawing(tuple(marks))
    dims = [text_width(dims_text(row.first.tensor.dims, row.first.tensor.shape)) for row in shown]
    locals_ = [text_width(shape_text(row.first.local_shape)) for row in shown]
    starts = [0.0, max(text_width(_name(row)) for row in shown) + 16]
    starts += [starts[1] + max(dims) + 16]
    starts += [starts[2] + max(*locals_, text_width("per device")) + 16]
    for x, word in zip(starts, ("argument", "dimensions", "per device", "bytes on each device"), strict=True):
        marks.append(Label(x, 34, word, bold=True))
    most = max(row.bytes for row in shown) or 1
    for number, row in enumerate(shown):
        marks += _row(report, row, starts, 34.0 + _LINE * (number + 1), most)
    if more := _more(rows):
        marks.append(Label(0, 34.0 + _LINE * (len(shown) + 1), more.strip()))
    return fit_drawing(tuple(marks))


def _row(report: Report, row: _ArgumentRow, starts: Sequence[float], y: float, most: int) -> Iterator[Mark]:
    tensor, sharding = row.first.tensor, row.first.sharding
    yield Label(starts[0], y, _name(row))
    x = starts[1]
    for name, size, axes in zip(tensor.dims, tensor.shape, sharding.dims, strict=True):
        text = f"{name}={size}"
        yield Label(x, y, text, colour=axis_colour(axes[0], report.mesh) if axes else TEXT, bold=bool(axes))
        x += text_width(f"{text} ")
    yield Label(starts[2], y, shape_text(row.first.local_shape))
    empty = f", {format_bytes(row.padding)} of it padding" if row.padding else ""
    title = f"{row.path}: {tensor} on {sharding}, {row.bytes:,} bytes on each device{empty}"
    length = max(_LENGTH * row.bytes / most, 1)
    colour = ROLES[tuple(Role).index(tensor.role)]
    yield Rectangle(starts[3], y - 10, length, 12, fill=colour, title=title, subject=row.path)
    if row.padding:
        wasted = length * min(row.padding / (row.bytes or 1), 1.0)
        yield Rectangle(starts[3] + length - wasted, y - 10, wasted, 12, fill=colour, alpha=0.4, hatched=True)
    yield Label(starts[3] + length + 6, y, format_bytes(row.bytes))
