"""Treemap of one device's memory by role and named scope, at the peak of a step or another moment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.core.path_patterns import template
from workbench.core.tensor import Role
from workbench.core.text_tables import table_text, tail_text
from workbench.reports.device_memory import Alive
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.visualize.draw.bars import Bar, bars_picture
from workbench.visualize.draw.drawing_marks import Drawing, Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import NEUTRAL, ROLES, TEXT, WARNING, ink_on
from workbench.visualize.draw.picture import Picture

MOST_TILES = 48
_WIDE, _HIGH, _LINE, _CAPTION = 800, 300, 16, 16  # pixels
_LISTED = 16


class Tile(NamedTuple):
    """A rectangle by top left corner and size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class _Cell:
    """Values of one role and scope; repeated layers are merged."""

    role: Role
    path: str
    bytes: int
    count: int
    subject: str


def memory_map(report: Report, place: int | None = None, size: tuple[int, int] | None = None) -> Picture:
    """A field for each role with a tile for each scope, sized by bytes.

    `place` is an index into `report.memory_curve` (default: the peak). With `size` in pixels, only the tiles are drawn.
    """
    report = report.shown
    title, cells = _title(report, place), _cells(report, place)
    return Picture(title, lambda: _drawing(report, title, cells, size), lambda: _text(title, cells))


def _alive(report: Report, place: int | None) -> tuple[Alive, ...]:
    return report.alive if place is None else report.alive_at(place)


def _title(report: Report, place: int | None) -> str:
    alive, curve = sum(value.bytes for value in _alive(report, place)), report.memory_curve
    held = report.memory.peak if place is None else sum(counts[place] for counts in curve.by_role.values())
    moment = "the peak of a step" if place is None else curve.operation_near(place)
    beside = f", and {format_bytes(alive - held)} on the chip" if alive - held > 0.001 * held else ""
    return f"{report.title}: what one device holds at {moment}, {format_bytes(held)}{beside}"


def _cells(report: Report, place: int | None) -> tuple[_Cell, ...]:
    merged: dict[tuple[Role, str], list[Alive]] = {}
    for each in _alive(report, place):
        merged.setdefault((each.role, template(each.path)), []).append(each)
    cells = [
        _Cell(role, path, sum(each.bytes for each in group), sum(each.count for each in group), path)
        for (role, alike), group in merged.items()
        if (path := alike if len(group) > 1 else group[0].path)
    ]
    cells.sort(key=lambda each: -each.bytes)
    shown_cells, rest = cells[:MOST_TILES], cells[MOST_TILES:]
    for role in Role:
        if small := [each for each in rest if each.role is role]:
            shown_cells.append(
                _Cell(role, f"{len(small)} smaller", sum(each.bytes for each in small), sum(each.count for each in small), "")
            )
    return tuple(sorted(shown_cells, key=lambda each: (tuple(Role).index(each.role), not each.subject, -each.bytes)))


def _text(title: str, cells: Sequence[_Cell]) -> str:
    total = sum(each.bytes for each in cells) or 1
    ranked = sorted(cells, key=lambda each: -each.bytes)
    rows = [
        (format_bytes(each.bytes), f"{each.bytes / total:.0%}", each.role.value, _with_count(each, tail_text(each.path, 64)))
        for each in ranked[:_LISTED]
    ]
    if not rows:
        return title
    rest = ranked[_LISTED:]
    more = f"\n  and {len(rest)} more, {format_bytes(sum(each.bytes for each in rest))}" if rest else ""
    return f"{title}\n\n{table_text(['held>', 'share>', 'role', 'what'], rows)}{more}"


def _with_count(cell: _Cell, text: str) -> str:
    return f"{text} ×{cell.count}" if cell.count > 1 else text


def _drawing(report: Report, title: str, cells: Sequence[_Cell], size: tuple[int, int] | None) -> Drawing:
    whole = Tile(0, 0, *size) if size else Tile(0, 24, _WIDE, _HIGH)
    marks: list[Mark] = [] if size else [Label(0, 12, title, bold=True)]
    roles = [(role, [cell for cell in cells if cell.role is role and cell.bytes]) for role in Role]
    roles = [(role, group) for role, group in roles if group]
    roles.sort(key=lambda entry: -sum(cell.bytes for cell in entry[1]))
    held = sum(cell.bytes for _, group in roles for cell in group)
    fields = squarify([sum(cell.bytes for cell in group) for _, group in roles], whole)
    for (role, group), field in zip(roles, fields, strict=True):
        marks += _field(role, group, field, held)
    marks += () if size else _capacity_marks(report, held, 24 + _HIGH + 12)
    return fit_drawing(tuple(marks))


def _field(role: Role, group: Sequence[_Cell], field: Tile, held: int) -> Iterator[Mark]:
    total = sum(item.bytes for item in group)
    text = f"{role} {format_bytes(total)}" if text_width(f"{role} {format_bytes(total)}") < field.width else f"{role}"
    caption = _CAPTION if field.height > 3 * _CAPTION and field.width > 50 else 0
    if caption:
        most = int(field.width / text_width("x"))
        yield Label(field.x + 1, field.y + 12, text if len(text) <= most else f"{text[: most - 1]}…", bold=True)
    inner = Tile(field.x, field.y + caption, field.width, field.height - caption)
    for cell, tile in zip(group, squarify([item.bytes for item in group], inner), strict=True):
        yield from _tile(role, cell, tile, held)


def _tile(role: Role, cell: _Cell, tile: Tile, held: int) -> Iterator[Mark]:
    place = tuple(Role).index(role)
    title = f"{_with_count(cell, cell.path)}: {role}, {cell.bytes:,} bytes ({format_bytes(cell.bytes)}), {cell.bytes / held:.1%}"
    width, height = max(tile.width - 1, 0.5), max(tile.height - 1, 0.5)
    yield Rectangle(tile.x, tile.y, width, height, fill=ROLES[place], title=title, subject=cell.subject)
    size = format_bytes(cell.bytes)
    if height > 16 and width > 40:
        yield Label(tile.x + 5, tile.y + 14, _clip_text(_with_count(cell, cell.path), width - 8), colour=ink_on(ROLES[place]), bold=True)
        if height > 32 and text_width(size) < width - 8:
            yield Label(tile.x + 5, tile.y + 28, size, colour=ink_on(ROLES[place]))


def _clip_text(text: str, width: float) -> str:
    most = int(width / text_width("x"))
    return text if len(text) <= most else tail_text(text, most) if most > 3 else ""


def _capacity_marks(report: Report, held: int, y: float) -> Iterator[Mark]:
    capacity = report.memory.capacity
    if not capacity:
        return
    whole = max(capacity, held)
    yield Rectangle(0, y, _WIDE * held / whole, 10, fill=NEUTRAL if held <= capacity else WARNING)
    yield Rectangle(0, y, _WIDE * capacity / whole, 10, line=TEXT)
    verdict = "free" if held <= capacity else "too much"
    yield Label(0, y + 25, f"{format_bytes(held)} of {format_bytes(capacity)}: {format_bytes(abs(capacity - held))} {verdict}")


# Bytes on a device at the peak of a step, by tensor role.

_COLUMNS = ("role", "bytes", "")


def memory(report: Report) -> Picture:
    """A bar for each role with memory; for a pipelined plan on its fullest stage."""
    return bars_picture(_bars_title(report.shown), _COLUMNS, _bars(report.shown))


def _bars_title(report: Report) -> str:
    return f"{report.title}: each device holds {format_bytes(report.memory.peak)} at the peak of a step"


def _bars(report: Report) -> tuple[Bar, ...]:
    return tuple(Bar(role.value, NEUTRAL, (("", count),)) for role, count in report.memory.by_role.items() if count)


# Squarified treemaps (Bruls, Huizing, van Wijk 2000).


def squarify(sizes: Sequence[float], whole: Tile) -> tuple[Tile, ...]:
    """A tile for each size, in order, which together fill `whole`; descending sizes look best.

    >>> squarify([2, 1, 1], Tile(0.0, 0.0, 4.0, 2.0))[1:]
    (Tile(x=2.0, y=0.0, width=2.0, height=1.0), Tile(x=2.0, y=1.0, width=2.0, height=1.0))
    """
    total = sum(sizes)
    if total <= 0:
        return tuple(Tile(whole.x, whole.y, 0.0, 0.0) for _ in sizes)
    areas = [size * whole.width * whole.height / total for size in sizes]
    placed: list[Tile] = []
    left, row = whole, list[float]()
    for area in areas:
        side = min(left.width, left.height)
        if row and _worst_ratio([*row, area], side) > _worst_ratio(row, side):
            tiles, left = _lay_row(row, left)
            placed += tiles
            row = []
        row.append(area)
    return (*placed, *_lay_row(row, left)[0])


def _worst_ratio(row: Sequence[float], side: float) -> float:
    total, least, most = sum(row), min(row), max(row)
    if not least or not side:
        return float("inf")
    return max(side * side * most / total**2, total**2 / (side * side * least))


def _lay_row(row: Sequence[float], left: Tile) -> tuple[list[Tile], Tile]:
    total = sum(row)
    tiles = []
    if left.width >= left.height:
        width, y = total / (left.height or 1.0), left.y
        for area in row:
            tiles.append(Tile(left.x, y, width, area / width if width else 0.0))
            y += tiles[-1].height
        return tiles, Tile(left.x + width, left.y, max(left.width - width, 0.0), left.height)
    height, x = total / (left.width or 1.0), left.x
    for area in row:
        tiles.append(Tile(x, left.y, area / height if height else 0.0, height))
        x += tiles[-1].width
    return tiles, Tile(left.x, left.y + height, left.width, max(left.height - height, 0.0))
