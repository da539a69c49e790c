"""The plans found so far by a running search: step time across; memory, devices or dollars upwards.

Lower is better. Clicking a plan of the front opens it, and each number of devices has its own staircase, as in
`search_front`, which draws a finished search. This view shows the front with a margin and only counts much worse plans.
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
    draw_current_plan,
    draw_device_legend,
    draw_limits,
    is_near,
    make_chart,
    write_value,
)

MOST_OTHERS = 300
MOST_ROWS = 16
_WIDE, _HIGH, _TOP = 640, 250, 34  # pixels
_NEAR = 2.0  # multiple of the front's maximum up to which other plans are shown
_RADIUS, _OTHER, _TARGET = 5, 3, 11  # pixels: a plan on the front, another plan, the click target


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """A plan found by the search; a click opens `key`, and `more` lines extend the tooltip."""

    key: str
    label: str
    figures: Figures
    is_front: bool = False
    more: str = ""


@dataclass(frozen=True, slots=True)
class FrontOverlays:
    """Additional marks of the picture.

    - `chosen`: the key of the highlighted plan;
    - `now`: figures of the present plan; `against_best` compares it with the best plan in words;
    - `limits`: limits of the search; `least`: the proven lower bound on the step time in seconds.
    """

    chosen: str = ""
    now: Figures | None = None
    against_best: str = ""
    limits: tuple[AtMost, ...] = ()
    least: float | None = None


def found_plans(found: Sequence[FoundPlan], up: Up = "memory", signs: FrontOverlays | None = None) -> Picture:
    """The plans found, with a staircase and a colour for each number of devices.

    >>> found_plans([FoundPlan("0", "data:2, replicated", Figures(1.0, 1 << 20, 2), is_front=True)]).about
    'The front: 1 of 1 plan found, step time against memory of the fullest device'
    """
    title = front_title(found, up)
    front = [plan for plan in found if plan.is_front and figure_value(plan.figures, up)]
    if not front:
        return Picture.of_title(title)
    return Picture(title, lambda: _draw(found, front, up, signs or FrontOverlays()), lambda: found_plans_text(found, up))


def found_plans_text(found: Sequence[FoundPlan], up: Up = "memory") -> str:
    """The front as a table, the fastest first."""
    front = [plan for plan in found if plan.is_front]
    rows = [(format_seconds(plan.figures.seconds), write_value(figure_value(plan.figures, up), up), plan.label) for plan in front]
    more = f"\n  and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return f"{front_title(found, up)}\n\n{table_text(['step>', f'{up}>', 'plan~'], rows[:MOST_ROWS])}{more}"


def front_title(found: Sequence[FoundPlan], up: Up) -> str:
    count = sum(plan.is_front for plan in found)
    return f"The front: {count:,} of {len(found):,} plan{'s' * (len(found) != 1)} found, step time against {NAMES[up]}"


def figure_value(figures: Figures, up: Up) -> float:
    return float(getattr(figures, up) or 0.0)


def _draw(found: Sequence[FoundPlan], front: Sequence[FoundPlan], up: Up, signs: FrontOverlays) -> Drawing:
    chart = front_scale(found, front, up, signs)
    inside = [plan for plan in found if chart.has(plan.figures)]
    colours = colour_devices([plan.figures for plan in front])
    marks: list[Mark] = [*draw_axes(chart)]
    for devices, colour in colours.items():
        places = [chart.place(plan.figures) for plan in front if plan.figures.devices == devices]
        marks += draw_staircase(places, chart.right, chart.top, colour, alpha=0.08)
    marks += draw_limits(chart, signs.limits)
    marks += _draw_least(chart, signs.least)
    if signs.now is not None and chart.value(signs.now):  # drawn below the others, so that it takes none of their clicks
        marks += draw_current_plan(chart, signs.now, signs.against_best)
    marks += _draw_others(chart, [plan for plan in inside if not plan.is_front], signs.chosen)
    marks += _draw_front(chart, front, signs.chosen, colours)
    marks += draw_device_legend(chart, colours)
    marks += _count_outside(chart, len(found) - len(inside))
    return fit_drawing(tuple(marks))


def front_scale(found: Sequence[FoundPlan], front: Sequence[FoundPlan], up: Up, signs: FrontOverlays) -> FrontChart:
    """Scales that cover the front, plans near it, and nearby limits."""
    slowest, largest = max(item.figures.seconds for item in front), max(figure_value(item.figures, up) for item in front)
    near = [item for item in found if item.figures.seconds <= _NEAR * slowest and 0 < figure_value(item.figures, up) <= _NEAR * largest]
    seconds, values = [item.figures.seconds for item in near], [figure_value(item.figures, up) for item in near]
    if signs.now and is_near(signs.now, up, slowest, largest):
        seconds, values = [*seconds, signs.now.seconds], [*values, figure_value(signs.now, up)]
    for item in signs.limits:
        if item.figure == up and min(values) <= item.limit <= REACH * largest:
            values = [*values, item.limit]
        if item.figure == "seconds" and min(seconds) <= item.limit <= REACH * slowest:
            seconds = [*seconds, item.limit]
    if signs.least and signs.least >= min(seconds) / REACH:
        seconds = [*seconds, signs.least]
    return make_chart(seconds, values, (_WIDE, _HIGH), _TOP, up)


def _draw_least(chart: FrontChart, least: float | None) -> Iterator[Mark]:
    if least and chart.across.low <= least <= chart.across.high:
        x = chart.across(least)
        yield Polyline(((x, _TOP), (x, chart.up.start)), TEXT, 1.0, dashed=True, title="No plan of the search space has a shorter step.")
        yield Label(x + 5, chart.up.start - 6, "no plan is faster")


def _draw_others(chart: FrontChart, found: Sequence[FoundPlan], chosen: str) -> Iterator[Mark]:
    yield from (Disc(*chart.place(other.figures), 2 * _RADIUS, NEUTRAL, 0.35) for other in found if other.key == chosen)
    for other in sorted(found, key=lambda plan: plan.figures.seconds * chart.value(plan.figures))[:MOST_OTHERS]:
        yield Disc(*chart.place(other.figures), _OTHER, NEUTRAL, 0.6, plan_tooltip(other), opens=other.key)


def _draw_front(chart: FrontChart, front: Sequence[FoundPlan], chosen: str, colours: dict[int, str]) -> Iterator[Mark]:
    for plan in front:
        colour = colours[plan.figures.devices]
        if plan.key == chosen:
            yield Disc(*chart.place(plan.figures), 2 * _RADIUS, colour, 0.3)
        yield Disc(*chart.place(plan.figures), _RADIUS, colour)
    for plan in front:
        yield Disc(*chart.place(plan.figures), _TARGET, colours[plan.figures.devices], 0.001, plan_tooltip(plan), opens=plan.key)


def plan_tooltip(each: FoundPlan) -> str:
    return "\n".join([figures_text(each.figures), each.label, *([each.more] if each.more else [])])


def _count_outside(chart: FrontChart, outside: int) -> Iterator[Mark]:
    if outside:
        text = f"{outside:,} worse one{'s' * (outside != 1)} lie{'s' * (outside == 1)} outside"
        yield Label(chart.right, _TOP - 18, text, anchor="end")
