"""Memory of one device over the step, stacked by role, with the live values at the peak; predicted, then compiled."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

from workbench.core.tensor import Role
from workbench.core.text_tables import table_text, tail_text
from workbench.reports.compiled import Compiled
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.visualize.charts.chart import AxisUnit, Chart, KeyEntry, bytes_unit, columns_of, seconds_unit
from workbench.visualize.charts.still_drawing import LINE, Column, chart_marks, reduce_columns
from workbench.visualize.draw.drawing_marks import Drawing, Label, Mark, fit_drawing, shift_down
from workbench.visualize.draw.palette import NEUTRAL, ROLES, TEXT, WARNING
from workbench.visualize.draw.picture import Picture

LISTED = 8  # live values listed at the peak
_COLUMNS, _CHARACTERS = 370, 64  # at most, in the drawing and in its text equivalent
_LEVELS = " ▁▂▃▄▅▆▇█"
_NEAR = 0.4  # share of the device's memory above which its capacity is shown
PHASE_PREFIXES = {"grad/": "backward", "optimizer/": "optimizer"}  # path prefixes of the phases


@dataclass(frozen=True)
class MemoryTier:
    """Memory at one tier: series, a column for each program position, and the live values at the peak."""

    title: str
    series: tuple[tuple[str, str], ...]
    values: tuple[Column, ...]
    paths: tuple[str, ...]
    alive: tuple[tuple[int, str], ...]
    places: tuple[int, ...] = ()  # position of each column in the curve
    seconds: float = 0.0  # duration of the step if columns are equal time spans, not operations

    def column_of(self, place: int | None) -> int | None:
        """The first column at a position of the curve, else `None`."""
        return self.places.index(place) if place in self.places else None

    @cached_property
    def peak(self) -> int:
        """The index of the column with the largest sum."""
        sums = [sum(column) for column in self.values]
        return sums.index(max(sums))

    @property
    def most(self) -> int:
        return sum(self.values[self.peak])


def memory_tiers(report: Report, compiled: Compiled | None) -> tuple[MemoryTier, ...]:
    curve = report.memory_curve
    held = [(role, curve.by_role[role]) for role in Role if any(curve.by_role.get(role, ()))]
    series = tuple((role.value, ROLES[tuple(Role).index(role)]) for role, _ in held)
    alive = tuple(
        (value.bytes, f"{tail_text(value.path, 60)}{f' ×{value.count}' * (value.count > 1)}, {value.role}") for value in report.alive
    )
    columns = tuple(zip(*(counts for _, counts in held), strict=True))
    places = _places_by_time(curve.starts, [sum(column) for column in columns], report.seconds or 0.0) or tuple(range(len(columns)))
    values, paths = tuple(columns[place] for place in places), tuple(curve.paths[place] for place in places)
    seconds = (report.seconds or 0.0) if curve.starts else 0.0
    charts = [MemoryTier("predicted", series, values, paths, alive, places, seconds)]
    if compiled is not None and compiled.alive:
        charts.append(_compiled_chart(compiled))
    return tuple(chart for chart in charts if chart.values)


def _places_by_time(starts: Sequence[float], heights: Sequence[int], seconds: float) -> tuple[int, ...]:
    """The peak position within each of `_COLUMNS` equal time spans of a step; empty without times."""
    if not starts or not seconds:
        return ()
    peaks, last = [], 0
    for column in range(_COLUMNS):
        begin, end = seconds * column / _COLUMNS, seconds * (column + 1) / _COLUMNS
        while last + 1 < len(starts) and starts[last + 1] <= begin:
            last += 1
        stop = last + 1
        while stop < len(starts) and starts[stop] < end:
            stop += 1
        peaks.append(max(range(last, stop), key=heights.__getitem__))
    return tuple(peaks)


def _compiled_chart(compiled: Compiled) -> MemoryTier:
    stays = compiled.memory.arguments_and_outputs
    values = tuple((stays, count) for _, count in compiled.alive)
    alive = tuple((count, tail_text(path, 60)) for path, count in compiled.alive_at_peak)
    names = tuple(name for name, _ in compiled.alive)
    reserved = "" if compiled.memory.peak <= stays + max(count for _, count in compiled.alive) else ", gaps between buffers included"
    title = f"compiled, {format_bytes(compiled.memory.peak)}{reserved}"
    return MemoryTier(title, (("arguments and results", ROLES[0]), ("temporaries", ROLES[3])), values, names, alive)


def memory_title(report: Report) -> str:
    peak = format_bytes(report.memory.peak)
    return f"{report.title}: what one device holds over the step, {peak} at the peak"


def capacity_near_peak(report: Report, charts: Sequence[MemoryTier]) -> int:
    """Bytes of the device's memory if the peak is near it, else 0."""
    room = report.memory.capacity
    return room if max(chart.most for chart in charts) > _NEAR * room else 0


def memory_text(report: Report, charts: Sequence[MemoryTier], listed: int) -> str:
    """The height of each role in characters, then the live values at the peak."""
    sections = [memory_title(report)]
    for chart in charts:
        shown = reduce_columns(chart.values, _CHARACTERS)
        rows = [
            (
                name,
                "".join(_LEVELS[ceil(8 * column[number] / (chart.most or 1))] for _, column in shown).rstrip(),
                format_bytes(max(column[number] for column in chart.values)),
            )
            for number, (name, _) in enumerate(chart.series)
        ]
        total = "".join(_LEVELS[ceil(8 * sum(column) / (chart.most or 1))] for _, column in shown).rstrip()
        rows.append(("together", total, format_bytes(chart.most)))
        sections.append(f"{headline(chart)}\n\n{table_text(['', 'over the step', 'at most>'], rows)}")
        if alive := chart.alive[:listed]:
            sections.append(
                table_text(["alive there>", ""], [(format_bytes(count), what) for count, what in alive]) + rest_text(chart, listed)
            )
    if room := capacity_near_peak(report, charts):
        sections.append(f"One device has {format_bytes(room)}.")
    return "\n\n".join(sections)


def headline(chart: MemoryTier) -> str:
    path = chart.paths[chart.peak] if chart.peak < len(chart.paths) else ""
    return f"{chart.title}: {format_bytes(chart.most)} live at the peak" + (f", at {path}" if path else "")


def rest_text(chart: MemoryTier, listed: int) -> str:
    rest = chart.alive[listed:]
    return f"\n  and {len(rest)} more, {format_bytes(sum(count for count, _ in rest))}" if rest else ""


# Interactive chart of one device's memory over the step, stacked by role, for each tier (predicted, compiled).


MOST_MOMENTS, _MOST_STILL = 400, 50  # moments that react to the pointer, and moments in a still picture
_HEIGHT = 240  # pixels
_ALONG = ("x", "x0", "x1", "left", "right")  # source columns along the x axis
_ROOM, _HEAD = 1.2, 1.1  # times the maximum: the height of the y axis, and the height of the phase names


def memory_charts(
    report: Report, compiled: Compiled | None = None, chosen: int | None = None, most: int = MOST_MOMENTS
) -> tuple[Chart, ...]:
    """A chart for each tier on a common scale; `most` moments react, and a click makes one the `chosen` moment."""
    tiers = memory_tiers(report, compiled)
    if not tiers:
        return ()
    room = capacity_near_peak(report, tiers)
    top = max(room, *(tier.most for tier in tiers)) or 1
    return tuple(_chart(tier, top, room, None if index else chosen, most, opens=not index) for index, tier in enumerate(tiers))


def memory_over_step(report: Report, compiled: Compiled | None = None, listed: int = LISTED, chosen: int | None = None) -> Picture:
    """An area for each role over the program's operations, with `listed` live values at the peak.

    A loop is shown with its peak; `chosen` is a curve index to mark.
    """
    report = report.shown
    return Picture(
        memory_title(report),
        lambda: _drawing(report, compiled, listed, chosen),
        lambda: memory_text(report, memory_tiers(report, compiled), listed),
    )


def _drawing(report: Report, compiled: Compiled | None, listed: int, chosen: int | None) -> Drawing:
    marks: list[Mark] = [Label(0, 12, memory_title(report), bold=True)]
    y = 2.0 * LINE
    for tier, chart in zip(memory_tiers(report, compiled), memory_charts(report, compiled, chosen, _MOST_STILL), strict=True):
        marks.append(Label(0, y + 12, headline(tier), bold=True))
        drawn = fit_drawing(tuple(shift_down(mark, y + 2 * LINE) for mark in chart_marks(chart)), 0)
        marks += drawn.marks
        alive = [f"{format_bytes(count):>9}  {what}" for count, what in tier.alive[:listed]]
        lines = [*alive, rest_text(tier, listed).strip()] if alive else []
        marks += [Label(0, drawn.height + LINE * number, text) for number, text in enumerate(filter(None, lines), start=1)]
        y = drawn.height + LINE * (len(lines) + 1)
    return fit_drawing(tuple(marks))


def _chart(tier: MemoryTier, top: int, room: int, chosen: int | None, most: int, *, opens: bool) -> Chart:
    unit, count, chosen = bytes_unit(top), len(tier.values), tier.column_of(chosen)
    time = seconds_unit(tier.seconds)
    scale, across = (tier.seconds / (count * time.size), f"{time.name} of the step") if tier.seconds else (1.0, "operations of the step")
    moments = reduce_columns(tier.values, MOST_MOMENTS)
    return Chart(
        empty_memory,
        tuple(colour for _, colour in tier.series),
        {
            name: _stretched(columns, scale)
            for name, columns in {
                "marks": _marks(tier, most, unit, top, opens=opens),
                "areas": _areas(moments, count, unit),
                "lines": _lines(tier, unit, room, count),
                "words": _words(tier, unit, room, top, chosen),
                "places": _places(tier, top / unit.size, chosen),
            }.items()
        },
        {"x": (0.0, count * scale), "y": (0.0, top * _ROOM / unit.size)},
        {"y axis": {"axis_label": unit.name}, "x axis": {"axis_label": f"{across}, {tier.title}"}},
        key=tuple(KeyEntry(colour, name) for name, colour in tier.series),
        across=across if tier.seconds else f"operations of {count}",
    )


def _stretched(columns: dict[str, list[Any]], scale: float) -> dict[str, list[Any]]:
    """Convert column positions along the x axis to its unit."""
    return {name: [position * scale for position in values] if name in _ALONG else values for name, values in columns.items()}


def empty_memory(*colours: str) -> Any:
    """The empty figure: an area per colour, horizontal lines, reactive marks, and vertical lines at moments."""
    from workbench.visualize.charts.empty_figure import MARKED, add_source, add_text, empty_chart, react

    plot = empty_chart(_HEIGHT, "width")
    areas = add_source("areas", ("x", *(f"h{number}" for number in range(len(colours) + 1))), rows=2)  # BokehJS hangs in an empty step area
    for number, colour in enumerate(colours):
        plot.varea_step(x="x", y1=f"h{number}", y2=f"h{number + 1}", step_mode="after", fill_color=colour, source=areas)
    plot.multi_line("xs", "ys", line_color="color", source=add_source("lines", ("xs", "ys", "color")))
    plot.multi_line("xs", "ys", line_color="color", line_width=1.5, source=add_source("places", ("xs", "ys", "color")))
    marks = add_source("marks", ("left", "right", "top", "title", "subject", "opens"))
    drawn = plot.quad(left="left", right="right", bottom=0, top="top", fill_alpha=0, line_color=None, source=marks)
    drawn.hover_glyph = drawn.glyph.clone(fill_color=MARKED, fill_alpha=0.25)
    drawn.selection_glyph, drawn.nonselection_glyph = drawn.hover_glyph, drawn.glyph
    look = {"text_align": "align", "text_color": "color", "y_offset": -3, "x_offset": "dx"}
    add_text(plot, add_source("words", ("x", "y", "text", "color", "align", "dx")), **look)
    react(plot, drawn)
    return plot


def _marks(tier: MemoryTier, most: int, unit: AxisUnit, top: int, *, opens: bool) -> dict[str, list[Any]]:
    moments = reduce_columns(tier.values, most)
    edges = _edges(moments, len(tier.values), most)
    names = list(_titles(tier, moments))
    return {
        "left": edges[:-1],
        "right": edges[1:],
        "top": [top / unit.size] * len(moments),
        "title": [title for _, title in names],
        "subject": [path for path, _ in names],
        "opens": [str(tier.places[place]) if opens else "" for place, _ in moments],
    }


def _edges(moments: Sequence[tuple[int, Column]], count: int, most: int) -> list[float]:
    width = max(-(-count // most), 1)
    return [float(width * number) for number in range(len(moments))] + [float(count)]


def _titles(tier: MemoryTier, moments: Sequence[tuple[int, Column]]) -> Iterator[tuple[str, str]]:
    path, done = "", 0
    for index, column in moments:
        path = next((candidate for candidate in reversed(tier.paths[done : index + 1]) if candidate), path)
        done = index + 1
        parts = "\n".join(f"{format_bytes(count):>9} {name}" for (name, _), count in zip(tier.series, column, strict=True) if count)
        yield path, f"{path or 'the start of the step'}\n{format_bytes(sum(column))} in total\n{parts}"


def _areas(moments: Sequence[tuple[int, Column]], count: int, unit: AxisUnit) -> dict[str, list[float]]:
    heights = [[0, *itertools.accumulate(column)] for _, column in moments]
    heights.append(heights[-1])
    sums = {f"h{place}": [round(stack[place] / unit.size, 6) for stack in heights] for place in range(len(heights[0]))}
    return {"x": _edges(moments, count, MOST_MOMENTS), **sums}


def _lines(tier: MemoryTier, unit: AxisUnit, room: int, count: int) -> dict[str, list[Any]]:
    levels = [(tier.most, TEXT), *([(room, WARNING)] if room else [])]
    return columns_of([([0.0, float(count)], [level / unit.size] * 2, colour) for level, colour in levels], ("xs", "ys", "color"))


def _words(tier: MemoryTier, unit: AxisUnit, room: int, top: int, chosen: int | None) -> dict[str, list[Any]]:
    count = len(tier.values)
    rows: list[tuple[float, float, str, str]] = [(tier.peak + 0.5, tier.most, f"peak {format_bytes(tier.most)}", TEXT)]
    if room:
        rows.append((count, room, f"one device has {format_bytes(room)}", WARNING))
    rows += [(place, top * _HEAD, name, TEXT) for name, place in _phases(tier)]
    if chosen is not None and chosen != tier.peak:
        rows.append((chosen + 0.5, top * _HEAD, "shown", WARNING))
    sides = [("right", -4) if x > 0.75 * count else ("left", 4) for x, *_ in rows]
    labels = [(x, y / unit.size, text, colour, *side) for (x, y, text, colour), side in zip(rows, sides, strict=True)]
    return columns_of(labels, ("x", "y", "text", "color", "align", "dx"))


def _phases(tier: MemoryTier) -> Iterator[tuple[str, int]]:
    for prefix, name in PHASE_PREFIXES.items():
        place = next((number for number, path in enumerate(tier.paths) if path.startswith(prefix)), None)
        if place is not None:
            yield name, place


def _places(tier: MemoryTier, top: float, chosen: int | None) -> dict[str, list[Any]]:
    rows = [(tier.peak + 0.5, top, TEXT), *((float(place), top * _ROOM, NEUTRAL) for _, place in _phases(tier))]
    rows += [(chosen + 0.5, top, WARNING)] if chosen is not None and chosen != tier.peak else []
    return columns_of([([x, x], [0.0, y], colour) for x, y, colour in rows], ("xs", "ys", "color"))
