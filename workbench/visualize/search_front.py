"""The front of a finished search: step time across, memory upwards, dominated regions shaded.

Lower is better, so a plan beats all plans above it and to its right. Each number of devices has its own staircase,
since a plan on fewer devices can be on the front without being faster.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import AtMost, against_best_text, present_text
from workbench.search.search_figures import Figures, figures_text
from workbench.search.search_result import MOST_ROWS, SearchResult, front_text
from workbench.units import format_bytes, format_seconds
from workbench.visualize.draw.drawing_marks import Disc, Drawing, Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import NEUTRAL, TEXT
from workbench.visualize.draw.picture import Picture
from workbench.visualize.draw.stacked_area import draw_staircase
from workbench.visualize.front_axes import (
    HEAD,
    FrontChart,
    colour_devices,
    draw_axes,
    draw_current_plan,
    draw_device_legend,
    draw_limits,
    is_near,
    make_chart,
)

Planned = tuple[PlanCandidate, Figures]

_WIDE, _HIGH, _TOP = 620, 300, 52  # pixels
_RADIUS, _BEST, _OTHER = 4.5, 7.0, 2.5
_LINE, _LIST = 15, 104  # pixels per line and characters per line of the list
_APART = (16, 11)  # minimum distance of two numbers in pixels, across and down


def search_front(result: SearchResult, planned: Iterable[Planned] = ()) -> Picture:
    """The numbered front of a search, with the best plan as a larger disc and other `planned` plans as small discs."""
    others = tuple(planned)
    if not result.front:
        return Picture.of_title(result.title)
    return Picture(result.title, lambda: _draw(result, others), lambda: search_front_text(result, others))


def search_front_text(result: SearchResult, planned: Iterable[Planned] = ()) -> str:
    """The front as a table, the present plan compared with the best, and a count of the other plans."""
    if not result.front:
        return result.title
    others, limits = _others(result, tuple(planned)), _limits(result)
    lines = [result.title, "", front_text(result)]
    if result.present is not None:
        best = result.state.best and result.state.best[1]
        lines += ["", f"the present plan: {present_text(result.present.figures, best, result.state.objective, result.requirements)}"]
    if others:
        fit = sum(all(limit.allows_figures(figures) for limit in limits) for _, figures in others)
        lines += [
            "",
            f"{len(others):,} other plans: {fit:,} within the limits and beaten by the front, {len(others) - fit:,} beyond a limit",
        ]
    return "\n".join(lines)


def _limits(result: SearchResult) -> tuple[AtMost, ...]:
    return tuple(requirement for requirement in result.requirements if isinstance(requirement, AtMost))


def _others(result: SearchResult, planned: Sequence[Planned]) -> tuple[Planned, ...]:
    """Plans that are neither on the front nor the present plan."""
    front = {candidate for candidate, _ in result.front} | {result.present and result.present.candidate}
    return tuple((candidate, figures) for candidate, figures in planned if candidate not in front)


def _draw(result: SearchResult, planned: Sequence[Planned]) -> Drawing:
    others, limits, present = _others(result, planned), _limits(result), result.present
    chart = _scale(result, [figures for _, figures in others])
    marks: list[Mark] = [Label(0, 12, result.title, bold=True), *draw_axes(chart)]
    for count, colour in _colours(result).items():
        places = [chart.place(figures) for _, figures in result.front if figures.devices == count]
        marks += draw_staircase(places, chart.right, chart.top, colour, alpha=0.1)
    marks += draw_limits(chart, limits)
    marks += [
        Disc(*chart.place(figures), _OTHER, NEUTRAL, 0.7, _hover(candidate, figures), str(candidate)) for candidate, figures in others
    ]
    marks += _draw_points(chart, result)
    if present is not None:
        best = result.state.best and result.state.best[1]
        marks += draw_current_plan(chart, present.figures, against_best_text(present.figures, best, result.state.objective, limits))
    marks += draw_device_legend(chart, _colours(result))
    marks += _list_plans(result)
    return fit_drawing(tuple(marks))


def _scale(result: SearchResult, others: Sequence[Figures]) -> FrontChart:
    shown = [*(figures for _, figures in result.front), *others]
    if result.present is not None:
        near = is_near(result.present.figures, "memory", max(plan.seconds for plan in shown), max(plan.memory for plan in shown))
        shown += [result.present.figures] * near
    return make_chart([point.seconds for point in shown], [point.memory for point in shown], (_WIDE, _HIGH), _TOP, "memory")


def _colours(result: SearchResult) -> dict[int, str]:
    return colour_devices([figures for _, figures in result.front])


def _draw_points(chart: FrontChart, result: SearchResult) -> Iterator[Mark]:
    colours = _colours(result)
    best = result.state.best
    spots = _NumberPositions()
    for number, (candidate, figures) in enumerate(result.front):
        x, y = chart.place(figures)
        radius = _BEST if best is not None and candidate == best[0] else _RADIUS
        yield Disc(x, y, radius, colours[figures.devices], 1.0, f"{number}: {_hover(candidate, figures)}", str(candidate))
        yield from spots.draw_number(f"{number}", x, y, radius)


class _NumberPositions:
    """Occupied positions of numbers; mutable, filled during drawing."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float]] = []

    def draw_number(self, text: str, x: float, y: float, radius: float) -> Iterator[Mark]:
        """The number of a disc, below left or above right of it; nothing if both positions are occupied."""
        for left, base in ((x - radius - 4 - text_width(text), y + radius + 8), (x + radius + 3, y - radius - 1)):
            if left > HEAD and all(abs(left - a) >= _APART[0] or abs(base - b) >= _APART[1] for a, b in self._taken):
                self._taken.append((left, base))
                yield Label(left, base, text, colour=TEXT, bold=True)
                return


def _hover(candidate: PlanCandidate, figures: Figures) -> str:
    return f"{figures_text(figures)} on {figures.devices:,} devices: {candidate}"


def _list_plans(result: SearchResult) -> Iterator[Mark]:
    y = _TOP + _HIGH + 56.0
    colours = _colours(result)
    for number, (candidate, figures) in enumerate(result.front[:MOST_ROWS]):
        yield Label(20, y, f"{number}", anchor="end", bold=True)
        yield Rectangle(26, y - 9, 9, 9, fill=colours[figures.devices])
        for line in textwrap.wrap(
            f"{format_seconds(figures.seconds)}, {format_bytes(int(figures.memory))}: {candidate}", _LIST, break_on_hyphens=False
        ):
            yield Label(42, y, line)
            y += _LINE
    if len(result.front) > MOST_ROWS:
        yield Label(42, y, f"and {len(result.front) - MOST_ROWS} more")
