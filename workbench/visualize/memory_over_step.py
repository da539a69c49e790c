"""The memory of one device over the step, stacked by role, with the peak and what is alive there; predicted, and below it compiled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil

from workbench.core.tensor import Role
from workbench.core.text_tables import table_text, tail_text
from workbench.reports.compiled import Compiled
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.visualize.draw.drawing_marks import Area, Drawing, Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import AXES, NEUTRAL, ROLES, TEXT, WARNING
from workbench.visualize.draw.picture import Picture
from workbench.visualize.draw.stacked_area import Column, outlines, reduce_columns

LISTED = 8  # of what is live at the peak
_LENGTH, _HEIGHT, _LINE = 740, 150, 16  # pixels
_COLUMNS, _MOMENTS, _CHARACTERS = 370, 50, 64  # at most, in the drawing, under the pointer, and in its twin
_LEVELS = " ▁▂▃▄▅▆▇█"
_NEAR = 0.4  # share of the device's memory from which on its limit is shown
PHASE_PREFIXES = {"grad/": "backward", "optimizer/": "optimizer"}  # how the paths of a phase begin


@dataclass(frozen=True)
class MemoryTier:
    """One tier: its series by name and colour, a column for each position in the program, and what is live at the peak: (bytes, what)."""

    title: str
    series: tuple[tuple[str, str], ...]
    values: tuple[Column, ...]
    paths: tuple[str, ...]
    alive: tuple[tuple[int, str], ...]
    places: tuple[int, ...] = ()  # of each column its position in the curve
    seconds: float = 0.0  # of the step, where columns are equal spans of it and not operations

    def column_of(self, place: int | None) -> int | None:
        """The first column at a position of the curve; `None` if none is."""
        return self.places.index(place) if place in self.places else None

    @cached_property
    def peak(self) -> int:
        """The position of the peak."""
        sums = [sum(column) for column in self.values]
        return sums.index(max(sums))

    @property
    def most(self) -> int:
        return sum(self.values[self.peak])


def memory_over_step(report: Report, compiled: Compiled | None = None, listed: int = LISTED, chosen: int | None = None) -> Picture:
    """An area for each role over the operations of the program, a loop with its peak; `listed` of what is live at the peak.

    The tooltip shows what is held at each moment; `chosen` is an index of the curve to mark.
    """
    report = report.shown
    tiers = cache(lambda: memory_tiers(report, compiled))
    return Picture(_title(report), lambda: _drawing(report, tiers(), listed, chosen), lambda: _text(report, tiers(), listed))


def memory_over_step_text(report: Report, compiled: Compiled | None = None, listed: int = LISTED) -> str:
    """The height of each role in characters, then what is live at the peak."""
    return _text(report.shown, memory_tiers(report.shown, compiled), listed)


def memory_tiers(report: Report, compiled: Compiled | None) -> tuple[MemoryTier, ...]:
    curve = report.memory_curve
    held = [(role, curve.by_role[role]) for role in Role if any(curve.by_role.get(role, ()))]
    series = tuple((role.value, ROLES[tuple(Role).index(role)]) for role, _ in held)
    alive = tuple((each.bytes, f"{tail_text(each.path, 60)}{f' ×{each.count}' * (each.count > 1)}, {each.role}") for each in report.alive)
    columns = tuple(zip(*(counts for _, counts in held), strict=True))
    places = _places_by_time(curve.starts, [sum(column) for column in columns], report.seconds or 0.0) or tuple(range(len(columns)))
    values, paths = tuple(columns[place] for place in places), tuple(curve.paths[place] for place in places)
    seconds = (report.seconds or 0.0) if curve.starts else 0.0
    charts = [MemoryTier("predicted", series, values, paths, alive, places, seconds)]
    if compiled is not None and compiled.alive:
        charts.append(_compiled_chart(compiled))
    return tuple(chart for chart in charts if chart.values)


def _places_by_time(starts: Sequence[float], heights: Sequence[int], seconds: float) -> tuple[int, ...]:
    """For each of many equal spans of a step the highest moment in it; none where moments have no times."""
    if not starts or not seconds:
        return ()
    found, last = [], 0
    for column in range(_COLUMNS):
        begin, end = seconds * column / _COLUMNS, seconds * (column + 1) / _COLUMNS
        while last + 1 < len(starts) and starts[last + 1] <= begin:
            last += 1
        stop = last + 1
        while stop < len(starts) and starts[stop] < end:
            stop += 1
        found.append(max(range(last, stop), key=heights.__getitem__))
    return tuple(found)


def _compiled_chart(compiled: Compiled) -> MemoryTier:
    """Arguments and results stay; the compiler's temporaries change."""
    stays = compiled.memory.arguments_and_outputs
    values = tuple((stays, count) for _, count in compiled.alive)
    alive = tuple((count, tail_text(path, 60)) for path, count in compiled.alive_at_peak)
    names = tuple(name for name, _ in compiled.alive)
    reserved = "" if compiled.memory.peak <= stays + max(count for _, count in compiled.alive) else ", gaps between buffers included"
    title = f"compiled, {format_bytes(compiled.memory.peak)}{reserved}"
    return MemoryTier(title, (("arguments and results", ROLES[0]), ("temporaries", ROLES[3])), values, names, alive)


def _title(report: Report) -> str:
    peak = format_bytes(report.memory.peak)
    return f"{report.title}: what one device holds over the step, {peak} at the peak"


def shown_capacity(report: Report, charts: Sequence[MemoryTier]) -> int:
    """Bytes of the device's memory, if the peak comes near; else 0."""
    room = report.memory.capacity
    return room if max(chart.most for chart in charts) > _NEAR * room else 0


def _text(report: Report, charts: Sequence[MemoryTier], listed: int) -> str:
    sections = [_title(report)]
    for chart in charts:
        shown = reduce_columns(chart.values, _CHARACTERS)
        rows = [
            (
                name,
                "".join(_LEVELS[ceil(8 * column[number] / (chart.most or 1))] for _, column in shown).rstrip(),
                _peak_text(chart, number),
            )
            for number, (name, _) in enumerate(chart.series)
        ]
        total = "".join(_LEVELS[ceil(8 * sum(column) / (chart.most or 1))] for _, column in shown).rstrip()
        rows.append(("together", total, format_bytes(chart.most)))
        sections.append(f"{_headline(chart)}\n\n{table_text(['', 'over the step', 'at most>'], rows)}")
        if alive := chart.alive[:listed]:
            sections.append(
                table_text(["alive there>", ""], [(format_bytes(count), what) for count, what in alive]) + _rest_text(chart, listed)
            )
    if room := shown_capacity(report, charts):
        sections.append(f"One device has {format_bytes(room)}.")
    return "\n\n".join(sections)


def _peak_text(chart: MemoryTier, number: int) -> str:
    return format_bytes(max(column[number] for column in chart.values))


def _headline(chart: MemoryTier) -> str:
    path = chart.paths[chart.peak] if chart.peak < len(chart.paths) else ""
    return f"{chart.title}: {format_bytes(chart.most)} live at the peak" + (f", at {path}" if path else "")


def _rest_text(chart: MemoryTier, listed: int) -> str:
    rest = chart.alive[listed:]
    return f"\n  and {len(rest)} more, {format_bytes(sum(count for count, _ in rest))}" if rest else ""


def _drawing(report: Report, charts: Sequence[MemoryTier], listed: int, chosen: int | None) -> Drawing:
    marks: list[Mark] = [Label(0, 12, _title(report), bold=True)]
    if not charts:
        return fit_drawing(tuple(marks))
    room = shown_capacity(report, charts)
    top = max(room, *(chart.most for chart in charts)) or 1
    head = text_width("1023 MiB") + 8
    y = 26.0
    for chart in charts:
        marks += _chart(chart, head, y + _LINE, _HEIGHT / (top * 1.04), room)
        marks += _moments(chart, head, y + _LINE, chosen if chart is charts[0] else None, opens=chart is charts[0])
        y += _LINE + _HEIGHT + 2 * _LINE + 12
        marks += _alive(chart, head, y, listed)
        y += _LINE * (min(len(chart.alive), listed) + 1) if listed and chart.alive else 6
    return fit_drawing(tuple(marks))


def _chart(chart: MemoryTier, head: float, top: float, scale: float, room: int) -> Iterator[Mark]:
    shown = reduce_columns(chart.values, _COLUMNS)
    ground = top + _HEIGHT
    yield Label(head, top - 5, _headline(chart), bold=True)
    for number, (line, (name, colour)) in enumerate(zip(outlines([each for _, each in shown], _LENGTH, scale), chart.series, strict=True)):
        yield Area(tuple((head + x, ground - height) for x, height in line), colour, title=f"{name}: at most {_peak_text(chart, number)}")
    yield Rectangle(head, ground, _LENGTH, 1, fill=NEUTRAL)
    yield from _height(chart.most, head, ground, scale, TEXT)
    if room:
        yield from _height(room, head, ground, scale, WARNING)
    place = next(number for number, (place, _) in enumerate(shown) if place == chart.peak)
    x = head + _LENGTH * (place + 0.5) / len(shown)
    yield Rectangle(x, ground - chart.most * scale, 1, chart.most * scale + 5, fill=TEXT, title=_headline(chart))
    yield Label(x, ground + 15, "peak", anchor="middle", bold=True)
    yield from _phases(chart, head, ground, x)
    yield from _legend(chart, head, ground + 2 * _LINE)


def _moments(chart: MemoryTier, head: float, top: float, chosen: int | None, *, opens: bool) -> Iterator[Mark]:
    """Over each section of the chart, an invisible mark with its highest moment as tooltip; and a line at the chosen one."""
    shown = reduce_columns(chart.values, _MOMENTS)
    width = _LENGTH / len(shown)
    for number, (place, column) in enumerate(shown):
        parts = ", ".join(f"{name} {format_bytes(count)}" for (name, _), count in zip(chart.series, column, strict=True) if count)
        where = next((f"{path}: " for path in reversed(chart.paths[: place + 1]) if path), "")
        title = f"{where}{format_bytes(sum(column))} ({parts})"
        opened = str(chart.places[place]) if opens else ""
        yield Rectangle(head + width * number, top, width, _HEIGHT, fill=NEUTRAL, alpha=0.001, title=title, opens=opened)
    if (shown_column := chart.column_of(chosen)) is not None and shown_column != chart.peak:
        x = head + _LENGTH * (shown_column + 0.5) / len(chart.values)
        yield Rectangle(x, top, 1, _HEIGHT, fill=AXES[3])
        yield Label(x + 4, top + 11, "shown", colour=AXES[3], bold=True)


def _height(count: int, head: float, ground: float, scale: float, colour: str) -> Iterator[Mark]:
    """A level line with its bytes before it."""
    yield Rectangle(head, ground - count * scale, _LENGTH, 1, fill=colour, alpha=0.6)
    yield Label(head - 6, ground - count * scale + 4, format_bytes(count), anchor="end", colour=colour)


def _phases(chart: MemoryTier, head: float, ground: float, peak: float) -> Iterator[Mark]:
    """Where the backward pass and the optimizer begin, where there is room beside the peak's mark."""
    yield Label(head, ground + 15, "start of the step")
    label_spans = [(head, head + text_width("start of the step")), (peak - 18, peak + 18)]
    for beginning, name in PHASE_PREFIXES.items():
        place = next((number for number, path in enumerate(chart.paths) if path.startswith(beginning)), None)
        if place is None:
            continue
        x = head + _LENGTH * place / len(chart.values)
        if all(x > right + 6 or x + text_width(name) < left - 6 for left, right in label_spans):
            yield Rectangle(x, ground, 1, 5, fill=NEUTRAL)
            yield Label(x, ground + 15, name)
            label_spans.append((x, x + text_width(name)))


def _legend(chart: MemoryTier, x: float, y: float) -> Iterator[Mark]:
    for name, colour in chart.series:
        yield Rectangle(x, y - 8, 9, 9, fill=colour)
        yield Label(x + 14, y, name)
        x += text_width(name) + 32


def _alive(chart: MemoryTier, head: float, y: float, listed: int) -> Iterator[Mark]:
    for number, (count, what) in enumerate(chart.alive[:listed]):
        yield Label(head - 6, y + _LINE * number, format_bytes(count), anchor="end")
        yield Label(head, y + _LINE * number, what)
    if listed and len(chart.alive) > listed:
        yield Label(head, y + _LINE * listed, _rest_text(chart, listed).strip())
