"""Still drawing of a chart: the sources that Bokeh draws, on the same axes and in the same order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, starmap
from typing import Any, NamedTuple

from workbench.units import format_seconds
from workbench.visualize.charts.chart import Chart, KeyEntry
from workbench.visualize.charts.packed_spans import NUMBER, Lane, PackedSpans, SpanStyle
from workbench.visualize.draw.axis_scale import AxisScale
from workbench.visualize.draw.drawing_marks import (
    Area,
    Disc,
    Drawing,
    Label,
    Mark,
    Point,
    Polyline,
    Rectangle,
    fit_drawing,
    shift_down,
    text_width,
)
from workbench.visualize.draw.palette import NEUTRAL, TASKS, TEXT, WARNING, ink_on
from workbench.visualize.draw.timeline_spans import DrawnSpan, MergedSpan, merge_spans

WIDE, LINE = 760, 16  # pixels: length of the x axis, height of a line of text
AXIS = 3 * LINE  # pixels below the x axis: tick labels, axis label, legend
CHOSEN, PRESENT = 20, 14  # pixels: diameter of the ring around the chosen plan, side of the present plan's square
_HIGH = 240  # pixels, default height
_LEAST_LANE = 10  # pixels, minimum height of a lane with labels
_FAINT, _HAIR = 0.15, 0.18  # opacity of idle time and of grid lines

Row = Mapping[str, Any]
"""One row of a data source, by column."""


def still_drawing(title: str, chart: Chart | None) -> Drawing:
    """A title above the chart; `None` draws the title alone."""
    marks = (shift_down(mark, 2 * LINE) for mark in chart_marks(chart)) if chart else ()
    return fit_drawing((Label(0, 12, title, bold=True), *marks))


def chart_marks(chart: Chart) -> tuple[Mark, ...]:
    """The marks of a chart, from y = 0 at the top."""
    frame = _frame_of(chart)
    drawn = (draw(chart, frame) for draw in (_axes, _under, _areas, _spans, _lines, _signs, _reacting, _words))
    return (*chain(*drawn), *key_marks(chart.key, frame.across.start, frame.ground + AXIS))


@dataclass(frozen=True, slots=True)
class _Frame:
    """The axes of a chart in pixels; `ground` is the y of the x axis."""

    across: AxisScale
    up: AxisScale
    ground: float

    def point(self, x: float, y: float) -> Point:
        return round(self.across(x), 1), round(self.up(y), 1)

    def box(self, row: Row, fill: str | None, alpha: float = 1.0, *, hatched: bool = False) -> Rectangle:
        """A rectangle for a row with `left`, `right`, `top` and `bottom` (default: the x axis)."""
        x, one = self.point(row["left"], row["top"])
        end, other = self.point(row["right"], row["bottom"]) if "bottom" in row else (self.across(row["right"]), self.ground)
        about = {name: row.get(name, "") for name in ("title", "subject", "opens")}
        return Rectangle(x, min(one, other), max(end - x, 0.3), abs(other - one), fill, alpha, hatched=hatched, **about)


def _frame_of(chart: Chart) -> _Frame:
    high = chart.properties["figure"]["height"] - AXIS if chart.lanes else _HIGH
    (low, top), (x_is_log, y_is_log) = chart.ranges["y"], chart.logs
    up = AxisScale(low, top, high, -high, y_is_log)  # lanes are numbered downwards, so their scale begins with the last
    left = max(text_width(name) for _, name in _levels(chart, up)) + 12
    return _Frame(AxisScale(*chart.ranges["x"], left, WIDE, x_is_log), up, high)


def _levels(chart: Chart, up: AxisScale) -> list[tuple[float, str]]:
    return list(chart.lanes.items()) or [(value, f"{value:,.6g}") for value in up.ticks()]


def _axes(chart: Chart, frame: _Frame) -> Iterator[Mark]:
    left, ground = frame.across.start, frame.ground
    for value in frame.across.ticks():
        yield Rectangle(frame.across(value), 0, 1, ground, NEUTRAL, _HAIR)
        yield Label(frame.across(value), ground + 15, f"{value:,.6g}", "middle")
    for value, name in _levels(chart, frame.up):
        yield Label(left - 8, frame.up(value) + 4, name, "end")
        if not chart.lanes:
            yield Rectangle(left, frame.up(value), WIDE, 1, NEUTRAL, _HAIR)
    yield Rectangle(left, ground, WIDE, 1, NEUTRAL)
    across = chart.properties.get("x axis", {}).get("axis_label", chart.across)
    up = chart.properties.get("y axis", {}).get("axis_label", "")
    yield Label(left + WIDE / 2, ground + 2 * LINE, f"{across}; upwards {up}" if up else across, "middle")


def _rows(chart: Chart, *names: str) -> Iterator[Row]:
    for columns in (chart.sources.get(name, {}) for name in names):
        yield from (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _under(chart: Chart, frame: _Frame) -> Iterator[Mark]:
    """Background marks: idle time, time slices, and stage memory of a pipeline."""
    for row in _rows(chart, "idle"):
        yield frame.box(row, NEUTRAL, _FAINT)
    for row in _rows(chart, "slices", "ran slices"):
        yield frame.box(row, row["color"], row["alpha"])
    for row in _rows(chart, "memory"):
        yield Area(drop_collinear(list(map(frame.point, row["xs"], row["ys"]))), TASKS["forward"], 0.6)


def _areas(chart: Chart, frame: _Frame) -> Iterator[Mark]:
    if "areas" in chart.sources:
        edges, *heights = chart.sources["areas"].values()
        levels = [drop_collinear(list(starmap(frame.point, steps(edges, series)))) for series in heights]
        for colour, (lower, upper) in zip(chart.settings, pairwise(levels), strict=True):
            yield Area((*upper, *lower[::-1]), colour)


class _Block(NamedTuple):
    """Merged spans of a lane, in axis units; hatched from `left` to `shared`."""

    left: float
    right: float
    bottom: float
    top: float
    shared: float
    title: str
    subject: str
    label: str
    colour: str
    weight: float


def _spans(chart: Chart, frame: _Frame) -> Iterator[Mark]:
    for packed in chart.spans:
        for block in _merged_blocks(packed, chart.spans[0].styles, frame.across.high * packed.unit):
            row = block._asdict()
            box = frame.box(row, block.colour, block.weight)
            yield box
            if block.shared > block.left:
                yield frame.box({**row, "right": block.shared}, None, hatched=True)
            start = frame.across(block.shared)
            room = box.x + box.width - start
            ink = ink_on(block.colour) if block.weight > 0.5 else TEXT
            if box.height >= _LEAST_LANE and text_width(block.label) + 2 <= room:
                yield Label(start + room / 2, box.y + box.height / 2 + 4, block.label, "middle", ink)


def _merged_blocks(packed: PackedSpans, styles: Sequence[SpanStyle], longest: float) -> Iterator[_Block]:
    for lane, first, last in zip(packed.lanes, packed.firsts, packed.firsts[1:], strict=False):
        spans = [DrawnSpan("", packed.starts[index], packed.seconds[index], str(index)) for index in range(first, last)]
        for block in merge_spans(spans, longest, WIDE):
            yield _block(packed, styles, lane, block, longest / packed.unit / WIDE)


def _block(packed: PackedSpans, styles: Sequence[SpanStyle], lane: Lane, block: MergedSpan, pixel: float) -> _Block:
    index = int(block.longest.name)
    style, number = styles[packed.kinds[index]], str(packed.numbers[index]) if packed.numbers else ""
    left, right = block.left * pixel, block.right * pixel
    shared = left + (packed.shares[index] if packed.shares else 0.0) * (right - left)
    title = f"{format_seconds(block.longest.seconds)}: {style.title.replace(NUMBER, number)}"
    if block.count > 1:
        title = f"{block.count} in {format_seconds(block.seconds)}, the longest {title}"
    label = style.label.replace(NUMBER, number) if block.count == 1 else ""
    colour = style.colour or lane.colour or NEUTRAL
    return _Block(left, right, lane.bottom, lane.top, shared, title, style.subject, label, colour, style.weight * lane.weight)


def _lines(chart: Chart, frame: _Frame) -> Iterator[Mark]:
    """Lines in the colours of their rows; limits are dashed."""
    for name in ("stairs", "lines", "places", "roofs", "bound", "limits"):
        for row in _rows(chart, name):
            is_dashed = name == "limits" or "color" not in row or row.get("dash") == "dashed"
            yield Polyline(tuple(map(frame.point, row["xs"], row["ys"])), row.get("color", WARNING), dashed=is_dashed)


def _signs(chart: Chart, frame: _Frame) -> Iterator[Mark]:
    """A ring around the chosen plan, and a square for the present one."""
    for row in _rows(chart, "chosen"):
        yield Disc(*frame.point(row["x"], row["y"]), CHOSEN / 2, NEUTRAL, 0.35)
    for row in _rows(chart, "present"):
        x, y = frame.point(row["x"], row["y"])
        yield Rectangle(x - PRESENT / 2, y - PRESENT / 2, PRESENT, PRESENT, line=TEXT, title=row["title"])


def _reacting(chart: Chart, frame: _Frame) -> Iterator[Mark]:
    for row in _rows(chart, "marks"):
        if "size" in row:
            about = {name: row.get(name, "") for name in ("title", "subject", "opens")}
            yield Disc(*frame.point(row["x"], row["y"]), row["size"] / 2, row["color"], row.get("alpha", 0.62), **about)
        else:
            yield frame.box(row, NEUTRAL, 0.001)


def _words(chart: Chart, frame: _Frame) -> Iterator[Mark]:
    for row in _rows(chart, "words"):
        x, y = frame.point(row["x"], row["y"])
        below = 11 if row.get("base") == "top" else -3
        yield Label(x + row["dx"], y + row.get("dy", 0) + below, row["text"], "end" if row["align"] == "right" else "start", row["color"])


def key_marks(key: Sequence[KeyEntry], left: float, top: float) -> Iterator[Mark]:
    """Legend entries, wrapped to the chart's width."""
    x, y = left, top
    for entry in key:
        wide = text_width(entry.name) + 16 * bool(entry.colour)
        if x > left and x + wide > left + WIDE:
            x, y = left, y + LINE
        if entry.colour:
            is_idle = entry.hatched and entry.colour == NEUTRAL
            yield Rectangle(x, y - 9, 10, 10, entry.colour, _FAINT if is_idle else 1.0, hatched=entry.hatched and not is_idle)
        yield Label(x + 16 * bool(entry.colour), y, entry.name)
        x += wide + 16


# Outlines of charts: reduced series and step lines.


Column = tuple[int, ...]
"""One value of each series at one position."""


def reduce_columns(values: Sequence[Column], most: int) -> tuple[tuple[int, Column], ...]:
    """Reduce a sequence to at most `most` columns, with their indices.

    Of merged neighbours the column with the largest sum is kept, so the peak stays.

    >>> reduce_columns([(1, 0), (5, 1), (2, 2), (2, 0)], 2)
    ((1, (5, 1)), (2, (2, 2)))
    """
    width = max(-(-len(values) // most), 1)
    starts = range(0, len(values), width)
    indices = (max(range(start, min(start + width, len(values))), key=lambda place: sum(values[place])) for start in starts)
    return tuple((place, values[place]) for place in indices)


def steps(edges: Sequence[float], heights: Sequence[float]) -> Iterator[Point]:
    """The points of a step line with a height between each two edges.

    >>> list(steps((0, 1, 3), (5, 2, 2)))
    [(0, 5), (1, 5), (1, 2), (3, 2)]
    """
    for ends, height in zip(pairwise(edges), heights, strict=False):
        yield from ((edge, height) for edge in ends)


def drop_collinear(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points without the middle points of horizontal lines.

    >>> drop_collinear([(0, 3), (5, 3), (10, 3), (10, 1)])
    ((0, 3), (10, 3), (10, 1))
    """
    corners = [
        point
        for index, point in enumerate(points)
        if index in (0, len(points) - 1) or not points[index - 1][1] == point[1] == points[index + 1][1]
    ]
    return tuple(corners)
