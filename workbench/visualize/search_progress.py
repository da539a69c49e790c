"""Progress of a proof: the best plan found and the lower bound, until they meet.

The x axis counts the answers of the search, which are the same on every machine, unlike seconds.
"""

from collections.abc import Callable, Iterator, Sequence

from workbench.core.text_tables import table_text
from workbench.search.search_state import SearchState, objective_key
from workbench.units import format_bytes, format_count, format_dollars, format_seconds
from workbench.visualize.draw.axis_scale import AxisScale, axes_marks, byte_ticks, scale_of
from workbench.visualize.draw.drawing_marks import Area, Disc, Drawing, Label, Mark, Polyline, fit_drawing, legend_marks
from workbench.visualize.draw.palette import AXES, NEUTRAL
from workbench.visualize.draw.picture import Picture

MOST_ROWS = 24
_WIDE, _HIGH, _HEAD, _TOP = 620, 220, 84, 46  # pixels
_BEST, _LEAST = AXES[0], AXES[1]
_WRITE: dict[str, Callable[[float], str]] = {
    "seconds": format_seconds,
    "memory": lambda value: format_bytes(int(value)),
    "devices": lambda value: f"{value:,.0f} devices",
    "dollars": format_dollars,
}

Point = tuple[float, float]


def search_progress(states: Sequence[SearchState]) -> Picture:
    """Two lines over the answers of a search: the best plan found and the lower bound, with the gap shaded."""
    text = _text(states)
    if not any(state.best for state in states):
        return Picture.of_title(text)
    return Picture.of(_draw(text.partition("\n")[0], states), text)


def _text(states: Sequence[SearchState]) -> str:
    if not states:
        return "No search has begun."
    last, write = states[-1], _WRITE[states[-1].objective]
    rows = [
        (str(number), f"{state.evaluated:,}", f"{state.bounded:,}", write(state.least), write(_best_value(state)) if state.best else "none")
        for number, state in enumerate(states)
        if number in (0, len(states) - 1) or _lines(state) != _lines(states[number - 1])
    ]
    if len(rows) > MOST_ROWS:
        rows = [*rows[: MOST_ROWS // 2], ("…", "", "", "", ""), *rows[1 - MOST_ROWS // 2 :]]
    table = table_text(["answer>", "planned>", "known by bounds>", "lower bound>", "best found>"], rows)
    return f"least {last.objective} after {len(states) - 1:,} answers: {last.status}\n\n{table}"


def _lines(state: SearchState) -> tuple[float, float]:
    return state.least, _best_value(state) if state.best else 0.0


def _best_value(state: SearchState) -> float:
    return objective_key(state.objective, state.best[1])[0] if state.best else 0.0


def _draw(title: str, states: Sequence[SearchState]) -> Drawing:
    across = AxisScale(0, max(len(states) - 1, 1), _HEAD, _WIDE)
    best_values = [(number, _best_value(state)) for number, state in enumerate(states) if state.best]
    up = scale_of([value for _, value in best_values] + [state.least for state in states if state.least > 0], _TOP + _HIGH, -_HIGH)
    best = tuple(_steps([(across(number), up(value)) for number, value in best_values]))
    least = tuple(_steps([(across(number), up(state.least)) for number, state in enumerate(states)]))
    marks: list[Mark] = [Label(0, 12, title, bold=True), *_draw_axes(across, up, states[-1].objective)]
    below = tuple((x, y) for x, y in least if x >= best[0][0])
    marks.append(Area((*best, *reversed(below)), NEUTRAL, 0.14, "the gap: a plan in it may still be found"))
    marks += [Polyline(best, _BEST, 2.0), Polyline(least, _LEAST, 2.0, dashed=True)]
    marks += [Disc(across(n), up(value), 3.5, _BEST, 1.0, _hover(n, states[n])) for n, value in _changes(best_values)]
    marks += _draw_legend(across, states)
    return fit_drawing(tuple(marks))


def _steps(points: Sequence[Point]) -> Iterator[Point]:
    for before, (x, y) in zip([None, *points], points, strict=False):
        if before is not None:
            yield x, before[1]
        yield x, y


def _changes(found: Sequence[tuple[int, float]]) -> Iterator[tuple[int, float]]:
    for index, (number, value) in enumerate(found):
        if index == 0 or value != found[index - 1][1]:
            yield number, value


def _hover(number: int, state: SearchState) -> str:
    best = f": {state.best[0]}" if state.best else ""
    return f"answer {number}, {state.evaluated:,} planned, {_WRITE[state.objective](_best_value(state))}{best}"


def _draw_axes(across: AxisScale, up: AxisScale, objective: str) -> Iterator[Mark]:
    levels = byte_ticks(up) if objective == "memory" else None
    write = format_count if objective == "devices" else _WRITE[objective]
    yield from axes_marks(across, up, (lambda value: f"{value:,.0f}" if value == int(value) else "", write), levels)
    yield Label(_HEAD + _WIDE / 2, up.start + 32, "answers to the search", anchor="middle")


def _draw_legend(across: AxisScale, states: Sequence[SearchState]) -> Iterator[Mark]:
    yield from legend_marks(((_BEST, "best plan found"), (_LEAST, "lower bound (dashed)")), _HEAD, _TOP - 14)
    proved = next((number for number, state in enumerate(states) if state.is_proved), None)
    if proved is not None:
        x = across(proved)
        yield Polyline(((x, _TOP), (x, _TOP + _HIGH)), NEUTRAL, 1.0, dashed=True)
        is_right = x > _HEAD + _WIDE / 2
        yield Label(x - 5 if is_right else x + 5, _TOP + 12, f"proved with answer {proved:,}", anchor="end" if is_right else "start")
