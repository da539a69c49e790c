"""Interactive front of a search: step time across, and memory, devices or dollars upwards; lower is better."""

from collections.abc import Iterator, Sequence
from typing import Any

from workbench.search.search_figures import Figures, figures_text
from workbench.visualize.charts.chart import AxisUnit, Chart, KeyEntry, bytes_unit, columns_of, seconds_unit
from workbench.visualize.draw.palette import NEUTRAL, TEXT, WARNING
from workbench.visualize.found_plans import MOST_OTHERS, FoundPlan, FrontOverlays, figure_value, front_scale, plan_tooltip
from workbench.visualize.front_axes import NAMES, FrontChart, Up, colour_devices

_HEIGHT = 320  # pixels
_FRONT, _OTHER, _CHOSEN = 11, 6, 20  # diameters in pixels

Point = tuple[float, float]


def front_chart(found: Sequence[FoundPlan], up: Up = "memory", signs: FrontOverlays | None = None) -> Chart | None:
    """A clickable disc for each plan found; `None` if no plan is on the front."""
    front = [plan for plan in found if plan.is_front and figure_value(plan.figures, up)]
    if not front:
        return None
    signs = signs or FrontOverlays()
    scale = front_scale(found, front, up, signs)
    units = seconds_unit(scale.across.high), bytes_unit(scale.up.high) if up == "memory" else AxisUnit(1.0, "")
    colours = colour_devices([plan.figures for plan in front])
    return Chart(
        empty_front,
        (scale.across.is_log, scale.up.is_log),
        {
            "marks": _marks(found, scale, units, colours),
            "chosen": columns_of([_place(plan.figures, scale, units) for plan in found if plan.key == signs.chosen], ("x", "y")),
            "stairs": columns_of(list(_stairs(front, scale, units, colours)), ("xs", "ys", "color")),
            **_signs(scale, units, signs),
        },
        {"x": _range(scale.across, units[0]), "y": _range(scale.up, units[1], room=0.08)},
        {
            "x axis": {"axis_label": f"step time, {units[0].name}"},
            "y axis": {"axis_label": f"{NAMES[up]}{f', {units[1].name}' * bool(units[1].name)}"},
        },
        key=tuple(KeyEntry(colour, f"{count:,} device{'s' * (count != 1)}") for count, colour in colours.items()),
        across=f"step {units[0].name}",
    )


def empty_front(x_is_log: bool, y_is_log: bool) -> Any:
    """The empty figure: staircases, discs, a ring around the chosen plan, a square for the present plan, dashed limits."""
    from workbench.visualize.charts.empty_figure import MARKED, add_source, add_text, empty_chart, react

    plot = empty_chart(_HEIGHT, "both", logs=(x_is_log, y_is_log))
    plot.multi_line("xs", "ys", line_color="color", line_width=1.5, source=add_source("stairs", ("xs", "ys", "color")))
    limits = add_source("limits", ("xs", "ys", "color"))
    plot.multi_line("xs", "ys", line_color="color", line_dash="dashed", source=limits)
    plot.scatter("x", "y", size=_CHOSEN, fill_color=MARKED, fill_alpha=0.3, line_color=None, source=add_source("chosen", ("x", "y")))
    present = add_source("present", ("x", "y", "title"))
    square = plot.scatter("x", "y", size=14, marker="square", fill_alpha=0, line_color=TEXT, line_width=1.5, source=present)
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


def _marks(
    found: Sequence[FoundPlan], scale: FrontChart, units: tuple[AxisUnit, AxisUnit], colours: dict[int, str]
) -> dict[str, list[Any]]:
    inside = [item for item in found if scale.has(item.figures)]
    others = sorted((item for item in inside if not item.is_front), key=lambda plan: plan.figures.seconds * scale.value(plan.figures))
    shown = [*reversed(others[:MOST_OTHERS]), *(item for item in inside if item.is_front)]
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


def _signs(scale: FrontChart, units: tuple[AxisUnit, AxisUnit], signs: FrontOverlays) -> dict[str, dict[str, list[Any]]]:
    (left, right), (low, high) = _range(scale.across, units[0]), _range(scale.up, units[1])
    lines: list[tuple[list[float], list[float], str]] = []
    words: list[tuple[float, float, str, str, str, int]] = []
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
        outside = " (outside)" * (scale.side(signs.now) != (0, 0))
        words.append((x, y, f"present plan{outside}", TEXT, "right" if is_right else "left", -10 if is_right else 10))
    return {
        "limits": columns_of(lines, ("xs", "ys", "color")),
        "words": columns_of(words, ("x", "y", "text", "color", "align", "dx")),
        "present": columns_of(present, ("x", "y", "title")),
    }
