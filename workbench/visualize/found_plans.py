"""The plans that a search found, in a picture of step time against memory, chips or money: a dot for each, a stair for the front.

What lies to the right of a stair and above it is beaten by a plan upon it. Both scales are logarithmic. The picture shows the front with
some room around it; plans that are much worse are counted, and left out.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.search.figures import Figures
from workbench.text.search import figures_text
from workbench.text.tables import table_text
from workbench.units import format_bytes, format_dollars, format_seconds
from workbench.visualize.draw.drawing_marks import Disc, Drawing, Label, Mark, Polyline, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import AXES, NEUTRAL, ROLES, TEXT, WARNING
from workbench.visualize.draw.picture import Picture

Across = Literal["memory", "devices", "dollars"]

MOST_DOTS = 300
MOST_ROWS = 16
_WIDE, _HIGH, _HEAD, _TOP = 640, 250, 84, 34  # pixels
_ROOM = 1.12  # times the last value of the front that the scales go on
_REACH = 4.0  # times the front's last value up to which a limit or the present plan is shown
_FRONT = ROLES[0]
_NAMES = {"memory": "peak memory of the fullest device", "devices": "devices", "dollars": "dollars for 1,000 steps"}


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
    - `limit` on what goes across, in its own unit; `least`: no plan of the space has a shorter step, in seconds.
    """

    chosen: str = ""
    now: Figures | None = None
    limit: float | None = None
    least: float | None = None


@dataclass(frozen=True, slots=True)
class _LogScale:
    """Logarithms from `low` to `high` on `length` pixels from `start`; it may run backwards."""

    low: float
    high: float
    start: float
    length: float

    def __call__(self, value: float) -> float:
        return self.start + self.length * (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))

    def has(self, value: float) -> bool:
        return self.low <= value <= self.high


def found_plans(found: Sequence[FoundPlan], across: Across = "memory", signs: FrontSigns | None = None) -> Picture:
    """The plans found, step time upwards; of several numbers of devices each has a stair and a colour of its own.

    >>> found = [FoundPlan("0", "data:2, replicated", Figures(1.0, 1 << 20, 2), is_front=True)]
    >>> found_plans(found).about
    'The front: 1 of 1 plan found, step time against peak memory of the fullest device'
    """
    title = _title(found, across)
    front = [each for each in found if each.is_front and _value(each.figures, across)]
    if not front:
        return Picture(fit_drawing((Label(0, 12, title, bold=True),)), title)
    return Picture(_drawing(found, front, across, signs or FrontSigns()), found_plans_text(found, across))


def found_plans_text(found: Sequence[FoundPlan], across: Across = "memory") -> str:
    """The front as a table, the fastest first."""
    front = [each for each in found if each.is_front]
    rows = [(format_seconds(each.figures.seconds), _shown(_value(each.figures, across), across), each.label) for each in front]
    more = f"\n  and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return f"{_title(found, across)}\n\n{table_text(['step>', f'{across}>', 'plan~'], rows[:MOST_ROWS])}{more}"


def _title(found: Sequence[FoundPlan], across: Across) -> str:
    count = sum(each.is_front for each in found)
    return f"The front: {count:,} of {len(found):,} plan{'s' * (len(found) != 1)} found, step time against {_NAMES[across]}"


def _value(figures: Figures, across: Across) -> float:
    return float(getattr(figures, across) or 0.0)


def _shown(value: float, across: Across) -> str:
    show: Callable[[float], str] = {"memory": format_bytes, "devices": lambda count: f"{count:,.0f}", "dollars": format_dollars}[across]
    return show(value)


def _drawing(found: Sequence[FoundPlan], front: Sequence[FoundPlan], across: Across, signs: FrontSigns) -> Drawing:
    known = [signs.now] if signs.now else []
    limits = [signs.limit] if signs.limit else []
    sideways = [_value(each.figures, across) for each in front]
    level = _fit(sideways, [*limits, *(_value(each, across) for each in known)], _HEAD, _WIDE)
    upright = _fit([each.figures.seconds for each in front], [*(each.seconds for each in known), *_near(signs.least)], _TOP + _HIGH, -_HIGH)
    colours = _colours(front)
    inside = [each for each in found if level.has(_value(each.figures, across) or math.inf) and upright.has(each.figures.seconds)]
    marks: list[Mark] = [*_axes(level, upright, across), *_signs(level, upright, across, signs)]
    marks += _dots([each for each in inside if not each.is_front], level, upright, across)
    for devices, colour in colours.items():
        marks += _stair([each for each in front if each.figures.devices == devices], level, upright, across, colour)
    marks += _front_dots(front, level, upright, across, signs, colours)
    marks += _legend(colours, len(found) - len(inside))
    return fit_drawing(tuple(marks))


def _near(least: float | None) -> list[float]:
    return [least] if least else []


def _fit(front: Sequence[float], others: Sequence[float], start: float, length: float) -> _LogScale:
    """A scale over the front, and over what lies near it."""
    low, high = min(front), max(front)
    near = [each for each in others if low / _REACH <= each <= high * _REACH and each > 0]
    low, high = min([low, *near]), max([high, *near])
    room = max((high / low) ** 0.1, _ROOM)
    return _LogScale(low / room, high * room, start, length)


def _colours(front: Sequence[FoundPlan]) -> dict[int, str]:
    """A colour for each number of devices, in their order."""
    counts = sorted({each.figures.devices for each in front})
    return {counts[0]: _FRONT} if len(counts) == 1 else {count: AXES[place % len(AXES)] for place, count in enumerate(counts)}


def _axes(level: _LogScale, upright: _LogScale, across: Across) -> Iterator[Mark]:
    ground = _TOP + _HIGH
    for value in _ticks(level, _base(across)):
        yield Rectangle(level(value), _TOP, 1, _HIGH, fill=NEUTRAL, alpha=0.18)
        yield Label(level(value), ground + 15, _tick_text(_shown(value, across)), anchor="middle")
    for value in _ticks(upright, 10.0):
        yield Rectangle(_HEAD, upright(value), _WIDE, 1, fill=NEUTRAL, alpha=0.18)
        yield Label(_HEAD - 6, upright(value) + 4, _tick_text(format_seconds(value)), anchor="end")
    yield Rectangle(_HEAD, ground, _WIDE, 1, fill=NEUTRAL)
    yield Rectangle(_HEAD, _TOP, 1, _HIGH, fill=NEUTRAL)
    yield Label(_HEAD + _WIDE / 2, ground + 33, _NAMES[across], anchor="middle")
    yield Label(0, _TOP - 10, "step time")


def _base(across: Across) -> float:
    return 10.0 if across == "dollars" else 2.0


def _ticks(scale: _LogScale, base: float) -> list[float]:
    """Some six round values: powers of two, or 1, 2 and 5 times powers of ten; on a short scale values that are equally far apart."""
    if scale.high / scale.low < _SHORT:
        return _even_ticks(scale, base)
    first, last = math.floor(math.log(scale.low, base)) - 1, math.ceil(math.log(scale.high, base)) + 1
    found: list[float] = []
    for factors in _FACTORS[base]:
        found = sorted(factor * base**power for power in range(first, last) for factor in factors)
        found = [each for each in found if scale.has(each)]
        if len(found) >= _FEWEST_TICKS:
            break
    return found[:: max(1, -(-len(found) // _MOST_TICKS))]


def _even_ticks(scale: _LogScale, base: float) -> list[float]:
    """Multiples of a power of two, or of 1, 2 or 5 times a power of ten."""
    wanted = (scale.high - scale.low) / _MOST_TICKS
    power = base ** math.floor(math.log(wanted, base))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= wanted)
    return [place * step for place in range(math.ceil(scale.low / step), math.floor(scale.high / step) + 1)]


_SHORT = 4.0
_FEWEST_TICKS, _MOST_TICKS = 4, 7
_FACTORS = {10.0: ((1.0,), (1.0, 2.0, 5.0)), 2.0: ((1.0,), (1.0, 1.5))}


def _tick_text(text: str) -> str:
    """A round number without the zeros behind its point."""
    number, space, unit = text.partition(" ")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + space + unit


def _signs(level: _LogScale, upright: _LogScale, across: Across, signs: FrontSigns) -> Iterator[Mark]:
    """The limit, what no plan beats, and the present plan."""
    if signs.limit and level.has(signs.limit):
        x = level(signs.limit)
        yield Polyline(((x, _TOP), (x, _TOP + _HIGH)), WARNING, 1.5, dashed=True, title=f"At most {_shown(signs.limit, across)}.")
        yield Label(x - 5, _TOP + 12, f"limit {_shown(signs.limit, across)}", anchor="end", colour=WARNING)
    if signs.least and upright.has(signs.least):
        y = upright(signs.least)
        yield Polyline(((_HEAD, y), (_HEAD + _WIDE, y)), TEXT, 1.0, dashed=True, title="No plan of the space has a shorter step.")
        yield Label(_HEAD + _WIDE - 4, y - 5, "no plan is faster", anchor="end")
    if signs.now and level.has(_value(signs.now, across) or math.inf) and upright.has(signs.now.seconds):
        x, y = level(_value(signs.now, across)), upright(signs.now.seconds)
        yield Rectangle(x - 5, y - 5, 10, 10, line=TEXT, title=f"The present plan: {figures_text(signs.now)}")
        is_right = x > _HEAD + _WIDE / 2
        yield Label(x - 9 if is_right else x + 9, y - 8, "present plan", anchor="end" if is_right else "start")


def _dots(found: Sequence[FoundPlan], level: _LogScale, upright: _LogScale, across: Across) -> Iterator[Mark]:
    """Plans that others beat; the nearest ones of many."""
    nearest = sorted(found, key=lambda each: each.figures.seconds * each.figures.memory)[:MOST_DOTS]
    for each in nearest:
        yield Disc(level(_value(each.figures, across)), upright(each.figures.seconds), 3, NEUTRAL, 0.45, _hover_text(each), opens=each.key)


def _stair(front: Sequence[FoundPlan], level: _LogScale, upright: _LogScale, across: Across, colour: str) -> Iterator[Mark]:
    """The stair through plans that no other of as many devices beats; to its right and above it everything is beaten."""
    corners: list[tuple[float, float]] = []
    for each in sorted(front, key=lambda each: (_value(each.figures, across), each.figures.seconds)):
        x, y = level(_value(each.figures, across)), upright(each.figures.seconds)
        if corners and y <= corners[-1][1]:
            continue  # not faster than one that needs less
        corners += [(x, corners[-1][1] if corners else _TOP), (x, y)]
    if corners:
        yield Polyline((*corners, (_HEAD + _WIDE, corners[-1][1])), colour, 1.5, alpha=0.7)


def _front_dots(
    front: Sequence[FoundPlan], level: _LogScale, upright: _LogScale, across: Across, signs: FrontSigns, colours: dict[int, str]
) -> Iterator[Mark]:
    """The plans of the front; a wider disc that is not seen takes the click."""
    for each in front:
        x, y = level(_value(each.figures, across)), upright(each.figures.seconds)
        colour = colours[each.figures.devices]
        if each.key == signs.chosen:
            yield Disc(x, y, 10, colour, 0.3)
        yield Disc(x, y, 5, colour)
    for each in front:
        x, y = level(_value(each.figures, across)), upright(each.figures.seconds)
        yield Disc(x, y, 11, colours[each.figures.devices], 0.001, _hover_text(each), opens=each.key)


def _hover_text(each: FoundPlan) -> str:
    return "\n".join([figures_text(each.figures), each.label, *([each.more] if each.more else [])])


def _legend(colours: dict[int, str], outside: int) -> Iterator[Mark]:
    x = float(_HEAD + 90)
    if len(colours) > 1:
        for count, colour in colours.items():
            text = f"{count:,} devices"
            yield Disc(x + 4, _TOP - 14, 4, colour)
            yield Label(x + 14, _TOP - 10, text)
            x += text_width(text) + 30
    if outside:
        text = f"{outside:,} worse one{'s' * (outside != 1)} lie{'s' * (outside == 1)} outside"
        yield Label(_HEAD + _WIDE, _TOP - 10, text, anchor="end")
