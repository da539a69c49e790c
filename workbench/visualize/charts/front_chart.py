"""The plans found so far by a running search: step time across; memory, devices or dollars upwards.

Lower is better. Clicking a plan opens it, and each number of devices on the front has its own staircase, as in
`search_front`, which draws a finished search. This chart shows the front with a margin and only counts much worse plans.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.text_tables import table_text
from workbench.search.requirements import AtMost
from workbench.search.search_figures import Figures, figures_text
from workbench.units import format_seconds
from workbench.visualize.charts.chart import AxisUnit, Chart, KeyEntry, bytes_unit, columns_of, seconds_unit
from workbench.visualize.charts.still_drawing import CHOSEN, PRESENT, chart_marks
from workbench.visualize.draw.drawing_marks import fit_drawing
from workbench.visualize.draw.palette import NEUTRAL, TEXT, WARNING
from workbench.visualize.draw.picture import Picture
from workbench.visualize.front_axes import NAMES, REACH, FrontChart, Up, colour_devices, is_near, make_chart, outside_text, write_value

MOST_OTHERS = 300
MOST_ROWS = 16
_NEAR = 2.0  # multiple of the front's maximum up to which other plans are shown
_HEIGHT = 320  # pixels
_FRONT, _OTHER = 11, 6  # diameters in pixels

_APART = 0.02, 0.04  # least distance of two numbers, as a share of the axes

Point = tuple[float, float]
Word = tuple[float, float, str, str, str, int]
"""x, y, text, colour, alignment, and the offset in pixels."""


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """A plan found by the search; a click opens `key`, `more` lines extend the tooltip, and a `number` stands beside its disc."""

    key: str
    label: str
    figures: Figures
    is_front: bool = False
    more: str = ""
    number: str = ""


@dataclass(frozen=True, slots=True)
class FrontOverlays:
    """Additional marks of the picture.

    - `chosen`: the key of the highlighted plan;
    - `now`: figures of the present plan; `against_best` compares it with the best plan in words;
    - `limits`: limits of the search; `least`: the proven lower bound on the step time in seconds;
    - `all_plans`: whether the scales cover every plan, not only those near the front.
    """

    chosen: str = ""
    now: Figures | None = None
    against_best: str = ""
    limits: tuple[AtMost, ...] = ()
    least: float | None = None
    all_plans: bool = False


def found_plans(found: Sequence[FoundPlan], up: Up = "memory", signs: FrontOverlays | None = None) -> Picture:
    """The plans found, with a staircase and a colour for each number of devices.

    >>> found_plans([FoundPlan("0", "data:2, replicated", Figures(1.0, 1 << 20, 2), is_front=True)]).about
    'The front: 1 of 1 plan found, step time against memory of the fullest device'
    """
    title = front_title(found, up)
    if (chart := front_chart(found, up, signs)) is None:
        return Picture.of_title(title)
    return Picture(title, lambda: fit_drawing(chart_marks(chart)), lambda: found_plans_text(found, up))


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


def front_chart(found: Sequence[FoundPlan], up: Up = "memory", signs: FrontOverlays | None = None) -> Chart | None:
    """A clickable disc for each plan found; `None` if no plan is on the front."""
    front = [plan for plan in found if plan.is_front and figure_value(plan.figures, up)]
    if not front:
        return None
    signs = signs or FrontOverlays()
    scale = _scale(found, front, up, signs)
    units = seconds_unit(scale.across.high), bytes_unit(scale.up.high) if up == "memory" else AxisUnit(1.0, "")
    colours = colour_devices([plan.figures for plan in front])
    return Chart(
        empty_front,
        (scale.across.is_log, scale.up.is_log),
        {
            "marks": _marks(found, scale, units, colours),
            "chosen": columns_of([_place(plan.figures, scale, units) for plan in found if plan.key == signs.chosen], ("x", "y")),
            "stairs": columns_of(list(_stairs(front, scale, units, colours)), ("xs", "ys", "color")),
            **_signs(scale, units, signs, _numbers(front, scale, units)),
        },
        {"x": _range(scale.across, units[0]), "y": _range(scale.up, units[1], room=0.08)},
        {
            "x axis": {"axis_label": f"step time, {units[0].name}"},
            "y axis": {"axis_label": f"{NAMES[up]}{f', {units[1].name}' * bool(units[1].name)}"},
        },
        key=(*_key(colours), *_outside(len(found) - sum(scale.has(plan.figures) for plan in found))),
        across=f"step {units[0].name}",
        logs=(scale.across.is_log, scale.up.is_log),
    )


def _key(colours: dict[int, str]) -> Iterator[KeyEntry]:
    return (KeyEntry(colour, f"{count:,} device{'s' * (count != 1)}") for count, colour in colours.items())


def _outside(count: int) -> Iterator[KeyEntry]:
    if count:
        yield KeyEntry("", f"{count:,} worse one{'s' * (count != 1)} lie{'s' * (count == 1)} outside")


def empty_front(x_is_log: bool, y_is_log: bool) -> Any:
    """The empty figure: staircases, discs, a ring around the chosen plan, a square for the present plan, dashed limits."""
    from workbench.visualize.charts.empty_figure import MARKED, add_source, add_text, empty_chart, react

    plot = empty_chart(_HEIGHT, "both", logs=(x_is_log, y_is_log))
    plot.multi_line("xs", "ys", line_color="color", line_width=1.5, source=add_source("stairs", ("xs", "ys", "color")))
    limits = add_source("limits", ("xs", "ys", "color"))
    plot.multi_line("xs", "ys", line_color="color", line_dash="dashed", source=limits)
    plot.scatter("x", "y", size=CHOSEN, fill_color=MARKED, fill_alpha=0.3, line_color=None, source=add_source("chosen", ("x", "y")))
    present = add_source("present", ("x", "y", "title"))
    square = plot.scatter("x", "y", size=PRESENT, marker="square", fill_alpha=0, line_color=TEXT, line_width=1.5, source=present)
    marks = add_source("marks", ("x", "y", "size", "color", "alpha", "title", "opens"))
    drawn = plot.scatter("x", "y", size="size", fill_color="color", fill_alpha="alpha", line_color=None, source=marks)
    drawn.hover_glyph = drawn.glyph.clone(line_color=MARKED, line_width=2)
    drawn.selection_glyph = drawn.nonselection_glyph = drawn.glyph
    square.selection_glyph = square.nonselection_glyph = square.glyph
    look = {"text_color": "color", "text_align": "align", "y_offset": -9, "x_offset": "dx"}
    add_text(plot, add_source("words", ("x", "y", "text", "color", "align", "dx")), **look)
    react(plot, drawn, square)
    return plot


def _range(scale: Any, unit: AxisUnit, room: float = 0.0) -> Point:
    low, high = scale.low / unit.size, scale.high / unit.size
    return low, high * (high / low) ** room if scale.is_log else high + room * (high - low)


def _place(figures: Figures, scale: FrontChart, units: tuple[AxisUnit, AxisUnit]) -> Point:
    across, up = scale.across, scale.up
    x, y = min(max(figures.seconds, across.low), across.high), min(max(scale.value(figures), up.low), up.high)
    return x / units[0].size, y / units[1].size


def _scale(found: Sequence[FoundPlan], front: Sequence[FoundPlan], up: Up, signs: FrontOverlays) -> FrontChart:
    """Scales of unit length that cover the front, plans near it, and nearby limits."""
    slowest, largest = max(item.figures.seconds for item in front), max(figure_value(item.figures, up) for item in front)
    reach = float("inf") if signs.all_plans else _NEAR
    near = [item for item in found if item.figures.seconds <= reach * slowest and 0 < figure_value(item.figures, up) <= reach * largest]
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
    return make_chart(seconds, values, up)


def _marks(
    found: Sequence[FoundPlan], scale: FrontChart, units: tuple[AxisUnit, AxisUnit], colours: dict[int, str]
) -> dict[str, list[Any]]:
    inside = [item for item in found if scale.has(item.figures)]
    others = sorted((item for item in inside if not item.is_front), key=lambda plan: plan.figures.seconds * scale.value(plan.figures))
    drawn = {item.key for item in others[:MOST_OTHERS]}
    shown = [*(item for item in inside if item.key in drawn), *(item for item in inside if item.is_front)]
    rows = [
        (
            *_place(item.figures, scale, units),
            _FRONT if item.is_front else _OTHER,
            colours[item.figures.devices] if item.is_front else NEUTRAL,
            1.0 if item.is_front else 0.6,
            plan_tooltip(item),
            item.key,
        )
        for item in shown
    ]
    return columns_of(rows, ("x", "y", "size", "color", "alpha", "title", "opens"))


def plan_tooltip(each: FoundPlan) -> str:
    return "\n".join([figures_text(each.figures), each.label, *([each.more] if each.more else [])])


def _stairs(
    front: Sequence[FoundPlan], scale: FrontChart, units: tuple[AxisUnit, AxisUnit], colours: dict[int, str]
) -> Iterator[tuple[list[float], list[float], str]]:
    (_, right), (_, top) = _range(scale.across, units[0]), _range(scale.up, units[1])
    for devices, colour in colours.items():
        border: list[Point] = []
        lowest = top
        for x, y in sorted(_place(plan.figures, scale, units) for plan in front if plan.figures.devices == devices):
            if not border or y < lowest:
                border += [(x, lowest), (x, y)]
                lowest = y
        border.append((right, lowest))
        yield [x for x, _ in border], [y for _, y in border], colour


def _numbers(front: Sequence[FoundPlan], scale: FrontChart, units: tuple[AxisUnit, AxisUnit]) -> Iterator[Word]:
    """The numbers beside their discs, without those that would cover another one."""
    taken: list[Point] = []
    for plan in filter(lambda plan: plan.number, front):
        place = scale.across(plan.figures.seconds), scale.up(scale.value(plan.figures))
        if all(abs(place[0] - x) >= _APART[0] or abs(place[1] - y) >= _APART[1] for x, y in taken):
            taken.append(place)
            yield *_place(plan.figures, scale, units), plan.number, TEXT, "left", 8


def _signs(
    scale: FrontChart, units: tuple[AxisUnit, AxisUnit], signs: FrontOverlays, numbers: Iterable[Word]
) -> dict[str, dict[str, list[Any]]]:
    (left, right), (low, high) = _range(scale.across, units[0]), _range(scale.up, units[1])
    lines: list[tuple[list[float], list[float], str]] = []
    words: list[Word] = [*numbers]
    for limit in signs.limits:
        if limit.figure == scale.figure and scale.up.low < limit.limit < scale.up.high:
            y = limit.limit / units[1].size
            lines.append(([left, right], [y, y], WARNING))
            words.append((right, y, str(limit), WARNING, "right", -4))
        if limit.figure == "seconds" and scale.across.low < limit.limit < scale.across.high:
            x = limit.limit / units[0].size
            lines.append(([x, x], [low, high], WARNING))
            words.append((x, low, str(limit), WARNING, "left", 4))
    if signs.least and scale.across.low <= signs.least <= scale.across.high:
        x = signs.least / units[0].size
        lines.append(([x, x], [low, high], TEXT))
        words.append((x, low, "no plan is faster", TEXT, "left", 4))
    present: list[tuple[float, float, str]] = []
    if signs.now is not None and scale.value(signs.now):
        x, y = _place(signs.now, scale, units)
        about = f"The present plan: {figures_text(signs.now)}{f': {signs.against_best}' * bool(signs.against_best)}"
        present.append((x, y, about))
        is_right = scale.across(signs.now.seconds) > scale.across.start + scale.across.length / 2
        words.append(
            (x, y, f"present plan{outside_text(scale, signs.now)}", TEXT, "right" if is_right else "left", -10 if is_right else 10)
        )
    return {
        "limits": columns_of(lines, ("xs", "ys", "color")),
        "words": columns_of(words, ("x", "y", "text", "color", "align", "dx")),
        "present": columns_of(present, ("x", "y", "title")),
    }
