"""What a search found as a picture: step time across, memory upwards, the front as a staircase, and what it dominates shaded.

Both are to be small, so a plan is better than all that is above it and to its right. With several numbers of devices each has its own
staircase: a plan on fewer devices need not be the faster one to be on the front.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workbench.search.candidates import PlanCandidate
from workbench.search.figures import Figures
from workbench.search.requirements import AtMost
from workbench.search.search_result import SearchResult
from workbench.text.search import MOST_ROWS, figures_text, front_text
from workbench.units import format_bytes, format_seconds
from workbench.visualize.draw.axis_scale import AxisScale, scale_of, tick_text
from workbench.visualize.draw.drawing_marks import Disc, Drawing, Label, Mark, Polyline, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import AXES, NEUTRAL, TEXT, WARNING
from workbench.visualize.draw.picture import Picture
from workbench.visualize.draw.staircase import draw_staircase

Planned = tuple[PlanCandidate, Figures]

_WIDE, _HIGH, _HEAD, _TOP = 620, 300, 84, 46  # pixels
_RADIUS, _BEST, _OTHER = 4.5, 7.0, 2.5
_LINE, _LIST = 15, 104  # pixels and characters of a line of the list
_APART = (16, 11)  # pixels between two numbers
_BINARY = 1024.0


@dataclass(frozen=True, slots=True)
class _FrontChart:
    """The scales, and the figures that a plan may have at most."""

    across: AxisScale
    up: AxisScale
    limits: tuple[AtMost, ...]

    @property
    def right(self) -> float:
        return self.across.start + self.across.length

    @property
    def top(self) -> float:
        return self.up.start + self.up.length

    def place(self, figures: Figures) -> tuple[float, float]:
        """Where a plan lies."""
        return self.across(figures.seconds), self.up(figures.memory)


def search_front(result: SearchResult, planned: Iterable[Planned] = ()) -> Picture:
    """The front of a search, numbered as in its table, the best with a larger disc; small discs for `planned`, other plans of the space."""
    others = tuple(planned)
    if not result.front:
        title = _title(result)
        return Picture(fit_drawing((Label(0, 12, title, bold=True),)), title)
    return Picture(_draw(result, others), search_front_text(result, others))


def search_front_text(result: SearchResult, planned: Iterable[Planned] = ()) -> str:
    """The front as a table, and how many of the other plans lie within the limits."""
    if not result.front:
        return _title(result)
    others, limits = _others(result, tuple(planned)), _limits(result)
    lines = [_title(result), "", front_text(result)]
    if others:
        fit = sum(_keeps(limits, figures) for _, figures in others)
        lines += [
            "",
            f"{len(others):,} other plans: {fit:,} within the limits and beaten by the front, {len(others) - fit:,} beyond a limit",
        ]
    return "\n".join(lines)


def _title(result: SearchResult) -> str:
    space, count = result.space, len(result.front)
    *others, last = [f"{size:,}" for _, size in space.hardware]
    devices = f"{', '.join(others)} or {last}" if others else last
    found = f"{count} plan{'s' * (count != 1)} on the front, the best {result.state.status}" if count else result.state.status
    return f"{space.start.program.name} on {devices} device{'s' * (devices != '1')}: {found}"


def _limits(result: SearchResult) -> tuple[AtMost, ...]:
    return tuple(each for each in result.requirements if isinstance(each, AtMost))


def _keeps(limits: Sequence[AtMost], figures: Figures) -> bool:
    return all(each.allows_figures(figures) for each in limits)


def _others(result: SearchResult, planned: Sequence[Planned]) -> tuple[Planned, ...]:
    """Those that are not on the front."""
    front = {candidate for candidate, _ in result.front}
    return tuple((candidate, figures) for candidate, figures in planned if candidate not in front)


def _draw(result: SearchResult, planned: Sequence[Planned]) -> Drawing:
    others, limits = _others(result, planned), _limits(result)
    shown = [figures for _, figures in (*result.front, *others)]
    chart = _FrontChart(
        scale_of([each.seconds for each in shown], _HEAD, _WIDE), scale_of([each.memory for each in shown], _TOP + _HIGH, -_HIGH), limits
    )
    marks: list[Mark] = [Label(0, 12, _title(result), bold=True), *_draw_axes(chart)]
    for colour, entries in _colour_devices(result):
        marks += draw_staircase([chart.place(figures) for _, figures in entries], chart.right, chart.top, colour, alpha=0.1)
    marks += _draw_limits(chart)
    marks += [
        Disc(*chart.place(figures), _OTHER, NEUTRAL, 0.7, _hover(candidate, figures), str(candidate)) for candidate, figures in others
    ]
    marks += _draw_points(chart, result)
    marks += _draw_devices(result)
    marks += _list_plans(result)
    return fit_drawing(tuple(marks))


def _colour_devices(result: SearchResult) -> Iterator[tuple[str, list[Planned]]]:
    """The plans of the front by their number of devices, most devices first, each with its colour."""
    counts = sorted({figures.devices for _, figures in result.front}, reverse=True)
    for place, count in enumerate(counts):
        yield AXES[place % len(AXES)], [(each, figures) for each, figures in result.front if figures.devices == count]


def _draw_axes(chart: _FrontChart) -> Iterator[Mark]:
    """Hair lines at round values."""
    for value in chart.across.ticks():
        x = chart.across(value)
        yield Rectangle(x, chart.top, 1, _HIGH, fill=NEUTRAL, alpha=0.18)
        yield Label(x, chart.up.start + 15, tick_text(format_seconds(value)), anchor="middle")
    unit = _BINARY ** int(len(f"{int(chart.up.high):b}") / 10)
    for value in chart.up.ticks(base=2, unit=unit):
        y = chart.up(value)
        yield Rectangle(_HEAD, y, _WIDE, 1, fill=NEUTRAL, alpha=0.18)
        yield Label(_HEAD - 6, y + 4, tick_text(format_bytes(int(value))), anchor="end")
    yield Rectangle(_HEAD, chart.up.start, _WIDE, 1, fill=NEUTRAL)
    yield Rectangle(_HEAD, chart.top, 1, _HIGH, fill=NEUTRAL)
    log = [name for name, scale in (("time", chart.across), ("memory", chart.up)) if scale.is_log]
    note = f" (logarithmic: {' and '.join(log)})" if log else ""
    yield Label(_HEAD + _WIDE / 2, chart.up.start + 32, f"time of a step{note}", anchor="middle")
    yield Label(0, chart.top - 10, "memory of the fullest device")


def _draw_limits(chart: _FrontChart) -> Iterator[Mark]:
    """A dashed line at each limit of time or memory that lies in the picture."""
    for each in chart.limits:
        if each.figure == "memory" and chart.up.low < each.limit < chart.up.high:
            y = chart.up(each.limit)
            yield Polyline(((_HEAD, y), (chart.right, y)), WARNING, 1.0, dashed=True)
            yield Label(chart.right, y - 5 if y > chart.top + _LINE else y + _LINE, str(each), anchor="end", colour=WARNING)
        if each.figure == "seconds" and chart.across.low < each.limit < chart.across.high:
            x = chart.across(each.limit)
            yield Polyline(((x, chart.up.start), (x, chart.top)), WARNING, 1.0, dashed=True)
            yield Label(x, chart.top - 5, str(each), anchor="middle", colour=WARNING)


def _draw_points(chart: _FrontChart, result: SearchResult) -> Iterator[Mark]:
    """The plans of the front with their numbers, as far as these do not lie upon each other."""
    colours = {candidate: colour for colour, entries in _colour_devices(result) for candidate, _ in entries}
    best = result.state.best
    spots = _NumberSpots()
    for number, (candidate, figures) in enumerate(result.front):
        x, y = chart.place(figures)
        radius = _BEST if best is not None and candidate == best[0] else _RADIUS
        yield Disc(x, y, radius, colours[candidate], 1.0, f"{number}: {_hover(candidate, figures)}", str(candidate))
        yield from spots.draw_number(f"{number}", x, y, radius)


class _NumberSpots:
    """Where numbers stand already. Mutable: it fills as they are drawn."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float]] = []

    def draw_number(self, text: str, x: float, y: float, radius: float) -> Iterator[Mark]:
        """The number of a disc below it to the left, or above it to the right; not at all where both spots are taken."""
        for left, base in ((x - radius - 4 - text_width(text), y + radius + 8), (x + radius + 3, y - radius - 1)):
            if left > _HEAD and all(abs(left - a) >= _APART[0] or abs(base - b) >= _APART[1] for a, b in self._taken):
                self._taken.append((left, base))
                yield Label(left, base, text, colour=TEXT, bold=True)
                return


def _hover(candidate: PlanCandidate, figures: Figures) -> str:
    return f"{figures_text(figures)} on {figures.devices:,} devices: {candidate}"


def _draw_devices(result: SearchResult) -> Iterator[Mark]:
    """A legend, where the front has plans on several numbers of devices."""
    groups = list(_colour_devices(result))
    x = float(_HEAD + _WIDE) - sum(text_width(f"{entries[0][1].devices:,} devices") + 34 for _, entries in groups)
    for colour, entries in groups if len(groups) > 1 else ():
        text = f"{entries[0][1].devices:,} devices"
        yield Rectangle(x, _TOP - 26, 9, 9, fill=colour)
        yield Label(x + 14, _TOP - 18, text)
        x += text_width(text) + 34


def _list_plans(result: SearchResult) -> Iterator[Mark]:
    """The plans of the front by their numbers."""
    y = _TOP + _HIGH + 56.0
    colours = {candidate: colour for colour, entries in _colour_devices(result) for candidate, _ in entries}
    for number, (candidate, figures) in enumerate(result.front[:MOST_ROWS]):
        yield Label(20, y, f"{number}", anchor="end", bold=True)
        yield Rectangle(26, y - 9, 9, 9, fill=colours[candidate])
        for line in textwrap.wrap(
            f"{format_seconds(figures.seconds)}, {format_bytes(int(figures.memory))}: {candidate}", _LIST, break_on_hyphens=False
        ):
            yield Label(42, y, line)
            y += _LINE
    if len(result.front) > MOST_ROWS:
        yield Label(42, y, f"and {len(result.front) - MOST_ROWS} more")
