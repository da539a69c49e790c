"""The plans that a search has found so far, to choose from: step time across, and memory, devices or dollars upwards.

Both are to be small. A plan of the front is a disc that a click opens, and each number of devices has its staircase, as in `search_front`,
which draws a search that is over; here the front is shown with some room around it, and plans that are much worse are counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.core.text_tables import table_text
from workbench.search.requirements import AtMost
from workbench.search.search_figures import Figures, figures_text
from workbench.units import format_seconds
from workbench.visualize.draw.drawing_marks import Disc, Drawing, Label, Mark, Polyline, fit_drawing
from workbench.visualize.draw.palette import NEUTRAL, TEXT
from workbench.visualize.draw.picture import Picture
from workbench.visualize.draw.stacked_area import draw_staircase
from workbench.visualize.front_axes import (
    NAMES,
    REACH,
    FrontChart,
    Up,
    colour_devices,
    draw_axes,
    draw_device_legend,
    draw_limits,
    draw_present,
    is_near,
    make_chart,
    write_value,
)

MOST_OTHERS = 300
MOST_ROWS = 16
_WIDE, _HIGH, _TOP = 640, 250, 34  # pixels
_NEAR = 2.0  # times the greatest of the front, up to which other plans are shown
_RADIUS, _OTHER, _TARGET = 5, 3, 11  # pixels: of a plan of the front, of another, of what takes the click


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

    - `chosen`: the key of one that is marked; `now`: figures of the present plan, `against_best` where it stands in words;
    - `limits` that a plan must keep to; `least`: no plan of the space has a shorter step, in seconds.
    """

    chosen: str = ""
    now: Figures | None = None
    against_best: str = ""
    limits: tuple[AtMost, ...] = ()
    least: float | None = None


def found_plans(found: Sequence[FoundPlan], up: Up = "memory", signs: FrontSigns | None = None) -> Picture:
    """The plans found; of several numbers of devices each has a staircase and a colour of its own.

    >>> found_plans([FoundPlan("0", "data:2, replicated", Figures(1.0, 1 << 20, 2), is_front=True)]).about
    'The front: 1 of 1 plan found, step time against memory of the fullest device'
    """
    title = front_title(found, up)
    front = [each for each in found if each.is_front and figure_value(each.figures, up)]
    if not front:
        return Picture.of_title(title)
    return Picture(title, lambda: _draw(found, front, up, signs or FrontSigns()), lambda: found_plans_text(found, up))


def found_plans_text(found: Sequence[FoundPlan], up: Up = "memory") -> str:
    """The front as a table, the fastest first."""
    front = [each for each in found if each.is_front]
    rows = [(format_seconds(each.figures.seconds), write_value(figure_value(each.figures, up), up), each.label) for each in front]
    more = f"\n  and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return f"{front_title(found, up)}\n\n{table_text(['step>', f'{up}>', 'plan~'], rows[:MOST_ROWS])}{more}"


def front_title(found: Sequence[FoundPlan], up: Up) -> str:
    count = sum(each.is_front for each in found)
    return f"The front: {count:,} of {len(found):,} plan{'s' * (len(found) != 1)} found, step time against {NAMES[up]}"


def figure_value(figures: Figures, up: Up) -> float:
    return float(getattr(figures, up) or 0.0)


def _draw(found: Sequence[FoundPlan], front: Sequence[FoundPlan], up: Up, signs: FrontSigns) -> Drawing:
    chart = front_scale(found, front, up, signs)
    inside = [each for each in found if chart.has(each.figures)]
    colours = colour_devices([each.figures for each in front])
    marks: list[Mark] = [*draw_axes(chart)]
    for devices, colour in colours.items():
        places = [chart.place(each.figures) for each in front if each.figures.devices == devices]
        marks += draw_staircase(places, chart.right, chart.top, colour, alpha=0.08)
    marks += draw_limits(chart, signs.limits)
    marks += _draw_least(chart, signs.least)
    if signs.now is not None and chart.value(signs.now):  # under the others: it takes no click from them
        marks += draw_present(chart, signs.now, signs.against_best)
    marks += _draw_others(chart, [each for each in inside if not each.is_front], signs.chosen)
    marks += _draw_front(chart, front, signs.chosen, colours)
    marks += draw_device_legend(chart, colours)
    marks += _count_outside(chart, len(found) - len(inside))
    return fit_drawing(tuple(marks))


def front_scale(found: Sequence[FoundPlan], front: Sequence[FoundPlan], up: Up, signs: FrontSigns) -> FrontChart:
    """Scales over the front, and over what lies near it."""
    slowest, largest = max(each.figures.seconds for each in front), max(figure_value(each.figures, up) for each in front)
    near = [each for each in found if each.figures.seconds <= _NEAR * slowest and 0 < figure_value(each.figures, up) <= _NEAR * largest]
    seconds, values = [each.figures.seconds for each in near], [figure_value(each.figures, up) for each in near]
    if signs.now and is_near(signs.now, up, slowest, largest):
        seconds, values = [*seconds, signs.now.seconds], [*values, figure_value(signs.now, up)]
    for each in signs.limits:
        if each.figure == up and min(values) <= each.limit <= REACH * largest:
            values = [*values, each.limit]
        if each.figure == "seconds" and min(seconds) <= each.limit <= REACH * slowest:
            seconds = [*seconds, each.limit]
    if signs.least and signs.least >= min(seconds) / REACH:
        seconds = [*seconds, signs.least]
    return make_chart(seconds, values, (_WIDE, _HIGH), _TOP, up)


def _draw_least(chart: FrontChart, least: float | None) -> Iterator[Mark]:
    """What no plan beats."""
    if least and chart.across.low <= least <= chart.across.high:
        x = chart.across(least)
        yield Polyline(((x, _TOP), (x, chart.up.start)), TEXT, 1.0, dashed=True, title="No plan of the search space has a shorter step.")
        yield Label(x + 5, chart.up.start - 6, "no plan is faster")


def _draw_others(chart: FrontChart, found: Sequence[FoundPlan], chosen: str) -> Iterator[Mark]:
    """Plans that others beat; the nearest ones of many, and the chosen one."""
    yield from (Disc(*chart.place(each.figures), 2 * _RADIUS, NEUTRAL, 0.35) for each in found if each.key == chosen)
    for each in sorted(found, key=lambda each: each.figures.seconds * chart.value(each.figures))[:MOST_OTHERS]:
        yield Disc(*chart.place(each.figures), _OTHER, NEUTRAL, 0.6, found_hover(each), opens=each.key)


def _draw_front(chart: FrontChart, front: Sequence[FoundPlan], chosen: str, colours: dict[int, str]) -> Iterator[Mark]:
    """The plans of the front; a wider disc that is not seen takes the click."""
    for each in front:
        colour = colours[each.figures.devices]
        if each.key == chosen:
            yield Disc(*chart.place(each.figures), 2 * _RADIUS, colour, 0.3)
        yield Disc(*chart.place(each.figures), _RADIUS, colour)
    for each in front:
        yield Disc(*chart.place(each.figures), _TARGET, colours[each.figures.devices], 0.001, found_hover(each), opens=each.key)


def found_hover(each: FoundPlan) -> str:
    return "\n".join([figures_text(each.figures), each.label, *([each.more] if each.more else [])])


def _count_outside(chart: FrontChart, outside: int) -> Iterator[Mark]:
    """How many plans are not in the picture."""
    if outside:
        text = f"{outside:,} worse one{'s' * (outside != 1)} lie{'s' * (outside == 1)} outside"
        yield Label(chart.right, _TOP - 18, text, anchor="end")
