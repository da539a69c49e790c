"""Stacked horizontal bars, as a picture and as text."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.core.text_tables import table_text
from workbench.units import format_bytes
from workbench.visualize.draw.drawing_marks import Drawing, Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.picture import Picture

_LENGTH, _CHARACTERS = 360, 30  # of the longest bar: in pixels and in characters
_HIGH, _LINE = 18, 16  # pixels
SHADES = (1.0, 0.6, 0.35, 0.8, 0.5)  # opacity of consecutive segments


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of the chart; `segments` are (name, bytes)."""

    name: str
    colour: str
    segments: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        return sum(count for _, count in self.segments)

    @property
    def parts(self) -> str:
        """The named segments, as in `all-reduce 1.00 MiB · all-gather 64.0 KiB`."""
        return " · ".join(f"{name} {format_bytes(count)}" for name, count in self.segments if name)


def bars_picture(title: str, columns: tuple[str, str, str], bars: Sequence[Bar]) -> Picture:
    """A titled picture with one row per bar, all on one scale."""
    return Picture(title, lambda: bars_drawing(title, bars), lambda: bars_text(title, columns, bars))


def bars_text(title: str, columns: tuple[str, str, str], bars: Sequence[Bar]) -> str:
    """The same bars as a text table; `columns` are the headings of the rows, the totals and the segments."""
    longest = max((bar.total for bar in bars), default=0)
    if not longest:
        return title
    name, figure, parts = columns
    rows = []
    for bar in bars:
        length = round(_CHARACTERS * bar.total / longest)
        rows.append((bar.name, f"{format_bytes(bar.total)}", "█" * length or "▏", *([bar.parts] if parts else [])))
    return f"{title}\n\n{table_text([name, f'{figure}>', '', *([f'{parts}~'] if parts else [])], rows)}"


def bars_drawing(title: str, bars: Sequence[Bar]) -> Drawing:
    """The drawing of `bars_picture`, which callers may extend below."""
    head = max((text_width(bar.name) for bar in bars), default=0) + 12
    longest = max((bar.total for bar in bars), default=0)
    marks: list[Mark] = [Label(0, 12, title, bold=True)]
    y = 26.0
    for bar in bars if longest else ():
        marks += _bar(bar, longest, head, y)
        y += _HIGH + _LINE * bool(bar.parts) + 8
    return fit_drawing(tuple(marks))


def _bar(bar: Bar, longest: int, head: float, y: float) -> Iterator[Mark]:
    yield Label(0, y + 13, bar.name, colour=bar.colour, bold=True)
    spans = stack_bars([count for _, count in bar.segments], longest, _LENGTH)
    for shade, (start, stop), (name, count) in zip(SHADES * len(spans), spans, bar.segments, strict=False):
        title = f"{bar.name}: {name} {format_bytes(count)}".replace(":  ", ": ")
        yield Rectangle(head + start, y, max(stop - start, 1), _HIGH, fill=bar.colour, alpha=shade, title=title)
    yield Label(head + max(spans[-1][1], 1) + 8, y + 13, format_bytes(bar.total))
    if bar.parts:
        yield Label(head, y + _HIGH + 12, bar.parts)


def stack_bars(values: Sequence[float], whole: float, length: float) -> tuple[tuple[float, float], ...]:
    """Start and end of each value in a stacked bar, where `whole` spans `length`.

    >>> stack_bars((1, 3), whole=8, length=80)
    ((0.0, 10.0), (10.0, 40.0))
    """
    ends = [length * sum(values[:count]) / (whole or 1) for count in range(len(values) + 1)]
    return tuple(itertools.pairwise(ends))
