"""Memory of one device over the step, stacked by role, with the live values at the peak; predicted, then compiled."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from workbench.core.tensor import Role
from workbench.core.text_tables import table_text, tail_text
from workbench.reports.compiled import Compiled
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.visualize.draw.palette import ROLES
from workbench.visualize.draw.stacked_area import Column, reduce_columns

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
