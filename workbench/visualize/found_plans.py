"""The plans that a search has found so far, to choose from: step time across, and memory, devices or dollars upwards.

Both are to be small. A plan of the front is a disc that a click opens, and each number of devices has its staircase, as in `search_front`,
which draws a search that is over; here the front is shown with some room around it, and plans that are much worse are counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.search.figures import Figures
from workbench.text.search import figures_text
from workbench.text.tables import table_text
from workbench.units import format_bytes, format_dollars, format_seconds
from workbench.visualize.draw.axis_scale import AxisScale, scale_of, tick_text
from workbench.visualize.draw.drawing_marks import Disc, Drawing, Label, Mark, Polyline, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import AXES, NEUTRAL, TEXT, WARNING
from workbench.visualize.draw.picture import Picture
from workbench.visualize.draw.staircase import draw_staircase

Up = Literal["memory", "devices", "dollars"]

MOST_DOTS = 300
MOST_ROWS = 16
_WIDE, _HIGH, _HEAD, _TOP = 640, 250, 84, 34  # pixels
_NEAR = 2.0  # times the greatest of the front, up to which other plans are shown
_REACH = 4.0  # the same of a limit and of the present plan
_RADIUS, _OTHER, _TARGET = 5, 3, 11  # pixels: of a plan of the front, of another, of what takes the click
_NAMES = {"memory": "memory of the fullest device", "devices": "devices", "dollars": "dollars for 1,000 steps"}


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """A plan that was found: its figures, the `key` that a click on it opens, what it is in a line, and whether it is on the front;
    `more` lines are shown under the pointer."""

    key: str
    label: str
    figures: Figures
    is_front: bool = False
    more: str = ""


@dataclass(frozen=True, slots=True)
class FrontSigns:
    """What stands in the picture beside the plans found.

    - `chosen`: the key of one that is marked; `now`: figures of the present plan;
    - `limit` on what goes upwards, in its own unit; `least`: no plan of the space has a shorter step, in seconds.
    """

    chosen: str = ""
    now: Figures | None = None
    limit: float | None = None
    least: float | None = None


@dataclass(frozen=True, slots=True)
class _FoundChart:
    """The scales of the picture, and which figure goes upwards."""

    across: AxisScale
    up: AxisScale
    figure: Up

    @property
    def right(self) -> float:
        return self.across.start + self.across.length

    def place(self, figures: Figures) -> tuple[float, float]:
        """Where a plan lies."""
        return self.across(figures.seconds), self.up(_value(figures, self.figure))

    def has(self, figures: Figures) -> bool:
        """Whether it lies in the picture; what has no price has no place."""
        value = _value(figures, self.figure)
        return self.across.low <= figures.seconds <= self.across.high and bool(value) and self.up.low <= value <= self.up.high


def found_plans(found: Sequence[FoundPlan], up: Up = "memory", signs: FrontSigns | None = None) -> Picture:
    """The plans found; of several numbers of devices each has a staircase and a colour of its own.

    >>> found_plans([FoundPlan("0", "data:2, replicated", Figures(1.0, 1 << 20, 2), is_front=True)]).about
    'The front: 1 of 1 plan found, step time against memory of the fullest device'
    """
    title = _title(found, up)
    front = [each for each in found if each.is_front and _value(each.figures, up)]
    if not front:
        return Picture(fit_drawing((Label(0, 12, title, bold=True),)), title)
    return Picture(_draw(found, front, up, signs or FrontSigns()), found_plans_text(found, up))


def found_plans_text(found: Sequence[FoundPlan], up: Up = "memory") -> str:
    """The front as a table, the fastest first."""
    front = [each for each in found if each.is_front]
    rows = [(format_seconds(each.figures.seconds), _shown(_value(each.figures, up), up), each.label) for each in front]
    more = f"\n  and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return f"{_title(found, up)}\n\n{table_text(['step>', f'{up}>', 'plan~'], rows[:MOST_ROWS])}{more}"


def _title(found: Sequence[FoundPlan], up: Up) -> str:
    count = sum(each.is_front for each in found)
    return f"The front: {count:,} of {len(found):,} plan{'s' * (len(found) != 1)} found, step time against {_NAMES[up]}"


def _value(figures: Figures, up: Up) -> float:
    return float(getattr(figures, up) or 0.0)


def _shown(value: float, up: Up) -> str:
    show: Callable[[float], str] = {"memory": format_bytes, "devices": lambda count: f"{count:,.0f}", "dollars": format_dollars}[up]
    return show(value)


def _draw(found: Sequence[FoundPlan], front: Sequence[FoundPlan], up: Up, signs: FrontSigns) -> Drawing:
    chart = _make_chart(found, front, up, signs)
    inside = [each for each in found if chart.has(each.figures)]
    colours = _colours(front)
    marks: list[Mark] = [*_draw_axes(chart)]
    for devices, colour in colours.items():
        places = [chart.place(each.figures) for each in front if each.figures.devices == devices]
        marks += draw_staircase(places, chart.right, float(_TOP), colour, alpha=0.08)
    marks += _draw_signs(chart, signs)
    marks += _draw_others(chart, [each for each in inside if not each.is_front], signs.chosen)
    marks += _draw_front(chart, front, signs.chosen, colours)
    marks += _draw_legend(chart, colours, len(found) - len(inside))
    return fit_drawing(tuple(marks))


def _make_chart(found: Sequence[FoundPlan], front: Sequence[FoundPlan], up: Up, signs: FrontSigns) -> _FoundChart:
    """Scales over the front, and over what lies near it."""
    slowest, largest = max(each.figures.seconds for each in front), max(_value(each.figures, up) for each in front)
    near = [each for each in found if each.figures.seconds <= _NEAR * slowest and 0 < _value(each.figures, up) <= _NEAR * largest]
    seconds, values = [each.figures.seconds for each in near], [_value(each.figures, up) for each in near]
    if signs.now and signs.now.seconds <= _REACH * slowest and 0 < _value(signs.now, up) <= _REACH * largest:
        seconds, values = [*seconds, signs.now.seconds], [*values, _value(signs.now, up)]
    if signs.limit and min(values) <= signs.limit <= _REACH * largest:
        values = [*values, signs.limit]
    if signs.least and signs.least >= min(seconds) / _REACH:
        seconds = [*seconds, signs.least]
    return _FoundChart(scale_of(seconds, _HEAD, _WIDE), scale_of(values, _TOP + _HIGH, -_HIGH), up)


def _colours(front: Sequence[FoundPlan]) -> dict[int, str]:
    """A colour for each number of devices, most devices first."""
    counts = sorted({each.figures.devices for each in front}, reverse=True)
    return {count: AXES[place % len(AXES)] for place, count in enumerate(counts)}


def _draw_axes(chart: _FoundChart) -> Iterator[Mark]:
    """Hair lines at round values."""
    for value in chart.across.ticks():
        yield Rectangle(chart.across(value), _TOP, 1, _HIGH, fill=NEUTRAL, alpha=0.18)
        yield Label(chart.across(value), chart.up.start + 15, tick_text(format_seconds(value)), anchor="middle")
    bytes_unit = 1024.0 ** ((int(chart.up.high).bit_length() - 1) // 10)
    ticks = chart.up.ticks(base=2, unit=bytes_unit) if chart.figure == "memory" else chart.up.ticks()
    for value in ticks:
        yield Rectangle(_HEAD, chart.up(value), _WIDE, 1, fill=NEUTRAL, alpha=0.18)
        yield Label(_HEAD - 6, chart.up(value) + 4, tick_text(_shown(value, chart.figure)), anchor="end")
    yield Rectangle(_HEAD, chart.up.start, _WIDE, 1, fill=NEUTRAL)
    yield Rectangle(_HEAD, _TOP, 1, _HIGH, fill=NEUTRAL)
    log = [name for name, scale in (("time", chart.across), (chart.figure, chart.up)) if scale.is_log]
    note = f" (logarithmic: {' and '.join(log)})" if log else ""
    yield Label(_HEAD + _WIDE / 2, chart.up.start + 33, f"time of a step{note}", anchor="middle")
    yield Label(0, _TOP - 12, _NAMES[chart.figure])


def _draw_signs(chart: _FoundChart, signs: FrontSigns) -> Iterator[Mark]:
    """The limit, what no plan beats, and the present plan."""
    if signs.limit and chart.up.low <= signs.limit <= chart.up.high:
        y, text = chart.up(signs.limit), f"at most {_shown(signs.limit, chart.figure)}"
        yield Polyline(((_HEAD, y), (chart.right, y)), WARNING, 1.0, dashed=True)
        yield Label(chart.right, y - 5, text, anchor="end", colour=WARNING)
    if signs.least and chart.across.low <= signs.least <= chart.across.high:
        x = chart.across(signs.least)
        yield Polyline(((x, _TOP), (x, chart.up.start)), TEXT, 1.0, dashed=True, title="No plan of the space has a shorter step.")
        yield Label(x + 5, chart.up.start - 6, "no plan is faster")
    if signs.now and chart.has(signs.now):
        x, y = chart.place(signs.now)
        is_right = x > _HEAD + _WIDE / 2
        yield Rectangle(x - 5, y - 5, 10, 10, line=TEXT, title=f"The present plan: {figures_text(signs.now)}")
        yield Label(x - 10 if is_right else x + 10, y - 7, "present plan", anchor="end" if is_right else "start")


def _draw_others(chart: _FoundChart, found: Sequence[FoundPlan], chosen: str) -> Iterator[Mark]:
    """Plans that others beat; the nearest ones of many, and the chosen one."""
    yield from (Disc(*chart.place(each.figures), 2 * _RADIUS, NEUTRAL, 0.35) for each in found if each.key == chosen)
    for each in sorted(found, key=lambda each: each.figures.seconds * _value(each.figures, chart.figure))[:MOST_DOTS]:
        yield Disc(*chart.place(each.figures), _OTHER, NEUTRAL, 0.6, _hover_text(each), opens=each.key)


def _draw_front(chart: _FoundChart, front: Sequence[FoundPlan], chosen: str, colours: dict[int, str]) -> Iterator[Mark]:
    """The plans of the front; a wider disc that is not seen takes the click."""
    for each in front:
        colour = colours[each.figures.devices]
        if each.key == chosen:
            yield Disc(*chart.place(each.figures), 2 * _RADIUS, colour, 0.3)
        yield Disc(*chart.place(each.figures), _RADIUS, colour)
    for each in front:
        yield Disc(*chart.place(each.figures), _TARGET, colours[each.figures.devices], 0.001, _hover_text(each), opens=each.key)


def _hover_text(each: FoundPlan) -> str:
    return "\n".join([figures_text(each.figures), each.label, *([each.more] if each.more else [])])


def _draw_legend(chart: _FoundChart, colours: dict[int, str], outside: int) -> Iterator[Mark]:
    """The colours, where there are several numbers of devices, and how many plans are not in the picture."""
    x = _HEAD + text_width(_NAMES[chart.figure])
    for count, colour in colours.items() if len(colours) > 1 else ():
        text = f"{count:,} devices"
        yield Rectangle(x, _TOP - 20, 9, 9, fill=colour)
        yield Label(x + 14, _TOP - 12, text)
        x += text_width(text) + 30
    if outside:
        text = f"{outside:,} worse one{'s' * (outside != 1)} lie{'s' * (outside == 1)} outside"
        yield Label(chart.right, _TOP - 12, text, anchor="end")
