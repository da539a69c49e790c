"""The front of a finished search: step time across, memory upwards, dominated regions shaded.

Lower is better, so a plan beats all plans above it and to its right. Each number of devices has its own staircase,
since a plan on fewer devices can be on the front without being faster.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import AtMost, against_best_text, present_text
from workbench.search.search_figures import Figures, figures_text
from workbench.search.search_result import MOST_ROWS, SearchResult, front_text
from workbench.units import format_bytes, format_seconds
from workbench.visualize.charts.chart import Chart
from workbench.visualize.charts.front_chart import FoundPlan, FrontOverlays, front_chart
from workbench.visualize.charts.still_drawing import LINE, chart_marks
from workbench.visualize.draw.drawing_marks import Area, Disc, Drawing, Label, Mark, Polyline, Rectangle, fit_drawing, shift_down
from workbench.visualize.draw.picture import Picture
from workbench.visualize.front_axes import colour_devices

Planned = tuple[PlanCandidate, Figures]

_BEST = 7.0  # pixels, radius of the best plan
_LINE, _LIST = 15, 104  # pixels per line and characters per line of the list


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
    """The chart of the plans found, each dominated region shaded, above a list of the front."""
    chart = _chart(result, planned)
    best, numbers = result.state.best, {str(candidate): number for number, (candidate, _) in enumerate(result.front)}
    titles = {str(candidate): _hover(candidate, figures) for candidate, figures in (*result.front, *planned)}
    marks: list[Mark] = [Label(0, 12, result.title, bold=True)]
    for mark in chart_marks(chart):
        shown = shift_down(mark, 2 * LINE)
        if isinstance(shown, Disc):
            name = shown.opens
            title = f"{numbers[name]}: {titles[name]}" if name in numbers else titles[name]
            is_best = best is not None and name == str(best[0])
            shown = replace(shown, title=title, subject=name, opens="", radius=_BEST if is_best else shown.radius)
        elif isinstance(shown, Polyline) and not shown.dashed:
            corner = max(x for x, _ in shown.points), shown.points[0][1]
            marks.append(Area((*shown.points, corner), shown.colour, 0.1))
        marks.append(
            replace(shown, bold=True) if isinstance(shown, Label) and shown.anchor == "start" and shown.text.isdecimal() else shown
        )
    drawn = fit_drawing(tuple(marks))
    return fit_drawing((*drawn.marks, *_list_plans(result, drawn.height + LINE)))


def _chart(result: SearchResult, planned: Sequence[Planned]) -> Chart:
    limits, present = _limits(result), result.present
    front = [FoundPlan(str(plan), str(plan), figures, True, number=str(number)) for number, (plan, figures) in enumerate(result.front)]
    others = [FoundPlan(str(plan), str(plan), figures) for plan, figures in _others(result, planned)]
    best, now = result.state.best and result.state.best[1], present.figures if present else None
    against_best = against_best_text(now, best, result.state.objective, limits) if now else ""
    chart = front_chart([*front, *others], "memory", FrontOverlays("", now, against_best, limits, all_plans=True))
    assert chart is not None, "there is a front"
    return replace(chart, key=chart.key if len(_colours(result)) > 1 else ())


def _colours(result: SearchResult) -> dict[int, str]:
    return colour_devices([figures for _, figures in result.front])


def _hover(candidate: PlanCandidate, figures: Figures) -> str:
    return f"{figures_text(figures)} on {figures.devices:,} devices: {candidate}"


def _list_plans(result: SearchResult, y: float) -> Iterator[Mark]:
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
