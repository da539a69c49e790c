"""SVG charts of compared plans. They use classes of the page's style sheet instead of colours, so that they follow its
theme.

A point is labelled with its plan's letter. Whether it is on the front, off it, or does not fit is shown by shape as
well as colour.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from workbench.units import format_bytes, format_seconds

# Chart scales: map values to pixels, and choose round tick values.
#
# A scale is linear from 0, or logarithmic if the maximum exceeds 20 times the minimum.

MOST_LINEAR = 20.0
_TICKS = 4  # approximate number
_ROOM = 1.12  # margin above the maximum


@dataclass(frozen=True, slots=True)
class ChartScale:
    """Maps `low..high` to pixels from `start` over `length`, which is negative for an upward axis.

    **Invariants**

    - `low < high`, and `0 < low` if it is logarithmic.
    """

    low: float
    high: float
    start: float
    length: float
    is_log: bool

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(number) for number in (self.low, self.high, value)) if self.is_log else (self.low, self.high, value)
        return self.start + self.length * (value - low) / (high - low)

    def ticks(self, units: Sequence[float]) -> list[float]:
        """Return 1, 2 or 5 times powers of ten of the largest of the ascending `units` that the maximum reaches."""
        if self.is_log:
            return self._log_ticks(units)
        unit = _unit_of(self.high / _TICKS, units)
        step = _round_up(self.high / _TICKS / unit) * unit
        return [step * index for index in range(int(self.high / step * (1 + 1e-9)) + 1)]

    def _log_ticks(self, units: Sequence[float]) -> list[float]:
        values = []
        for unit, beyond in zip(units, (*(0.9 * larger for larger in units[1:]), math.inf), strict=True):  # omits 1000 MiB next to 1 GiB
            powers = (unit * 10**exponent for exponent in range(15))
            values += [value for value in powers if value < min(beyond, self.high * (1 + 1e-9)) and value >= self.low]
        return values[:: max(1, math.ceil(len(values) / (_TICKS + 1)))]


def scale_over(values: Sequence[float], start: float, length: float) -> ChartScale:
    """Return a scale for positive values.

    >>> scale_over([1.0, 4.0], 0, 100).is_log, scale_over([1.0, 40.0], 0, 100).is_log
    (False, True)
    """
    least, greatest = min(values), max(values)
    if greatest > MOST_LINEAR * least:
        return ChartScale(least / 1.6, greatest * 1.8, start, length, is_log=True)
    return ChartScale(0.0, greatest * _ROOM, start, length, is_log=False)


def _unit_of(value: float, units: Sequence[float]) -> float:
    return max((unit for unit in units if unit <= value), default=units[0])


def _round_up(value: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten.

    >>> _round_up(3.0), _round_up(0.12)
    (5.0, 0.2)
    """
    power = 10.0 ** math.floor(math.log10(value))
    return next(round(digit * power, 12) for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= value * (1 - 1e-9))


BYTES = tuple(1024.0**power for power in range(6))
SECONDS = (1e-6, 1e-3, 1.0)
_WIDTH, _HEIGHT = 400.0, 280.0  # of the picture, in SVG units
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 12.0, 24.0, 40.0
_PLACES = ((0, -8), (10, 4), (-10, 4), (0, 16), (9, -7), (-9, -7), (9, 13), (-9, 13))  # label offsets from the point
_NAME = 12.0  # approximate label size in pixels
_CHART = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}{}</svg>')
_CURVE = Markup('<svg class="chart" viewBox="0 0 400 64" role="img" aria-label="{}"><path class="curve" d="M{}"/></svg>')


@dataclass(frozen=True, slots=True)
class ChartPoint:
    letter: str
    name: str
    across: float
    up: float
    fits: bool = True


@dataclass(frozen=True, slots=True)
class ChartAxis:
    name: str
    write: Callable[[float], str]
    units: tuple[float, ...]


STEP = ChartAxis("step time", format_seconds, SECONDS)
PEAK = ChartAxis("peak memory per device", format_bytes, BYTES)
PREDICTED = ChartAxis("predicted step", format_seconds, SECONDS)
MEASURED = ChartAxis("measured step", format_seconds, SECONDS)


def front_of(points: Sequence[ChartPoint]) -> list[ChartPoint]:
    """Return the Pareto front of the points that fit, from left to right.

    >>> a, b, c = ChartPoint("A", "", 1, 3), ChartPoint("B", "", 2, 2), ChartPoint("C", "", 3, 3)
    >>> [each.letter for each in front_of([c, b, a])]
    ['A', 'B']
    """
    front: list[ChartPoint] = []
    for point in sorted((point for point in points if point.fits), key=lambda point: (point.across, point.up)):
        if not front or point.up < front[-1].up or (point.across, point.up) == (front[-1].across, front[-1].up):
            front.append(point)
    return front


def draw_memory_by_time(points: Sequence[ChartPoint]) -> Markup:
    """Draw peak memory over step time with the Pareto front; empty for fewer than two points."""
    if len(points) < 2:
        return Markup()
    across = scale_over([point.across for point in points], _LEFT, _WIDTH - _LEFT - _RIGHT)
    up = scale_over([point.up for point in points], _HEIGHT - _BOTTOM, -(_HEIGHT - _TOP - _BOTTOM))
    front = front_of(points)
    steps = [(across(point.across), up(point.up)) for point in front]
    line = Markup('<path class="front-line" d="{}"/>').format(_staircase(steps)) if len(steps) > 1 else Markup()
    letters = ", ".join(point.letter for point in front) or "none, because none fits"
    about = f"{PEAK.name} against {STEP.name} of {len(points)} plans; on the front: {letters}"
    return _picture(about, (STEP, across), (PEAK, up), line, points, front)


def draw_predicted_by_measured(points: Sequence[ChartPoint]) -> Markup:
    """Draw measured over predicted step time on one scale, with the line of equality; empty without points."""
    if not points:
        return Markup()
    values = [value for point in points for value in (point.across, point.up)]
    across = scale_over(values, _LEFT, _WIDTH - _LEFT - _RIGHT)
    up = scale_over(values, _HEIGHT - _BOTTOM, -(_HEIGHT - _TOP - _BOTTOM))
    ends = (across(across.low), up(up.low), across(across.high), up(up.high))
    line = Markup('<path class="equal-line" d="M{} {}L{} {}"/>').format(*map(_pixel, ends))
    about = f"measured against predicted step of {len(points)} plan{'s' * (len(points) != 1)}; on the line, both are equal"
    return _picture(about, (PREDICTED, across), (MEASURED, up), line, points, list(points))


def draw_curve(values: Sequence[float], about: str) -> Markup:
    """Draw one curve over steps without axes, such as losses; empty for fewer than two values."""
    if len(values) < 2:
        return Markup()
    low, high = min(values), max(values)
    x = ChartScale(0, len(values) - 1, 1, 398, is_log=False)
    y = ChartScale(low, high if high > low else low + 1, 62, -60, is_log=False)
    path = "L".join(f"{_pixel(x(place))} {_pixel(y(value))}" for place, value in enumerate(values))
    return _CURVE.format(about, path)


def _picture(
    about: str,
    across: tuple[ChartAxis, ChartScale],
    up: tuple[ChartAxis, ChartScale],
    line: Markup,
    points: Sequence[ChartPoint],
    front: Sequence[ChartPoint],
) -> Markup:
    marks = Markup().join(_mark(point, across[1](point.across), up[1](point.up), point in front) for point in points)
    names = Markup().join(_names(points, across[1], up[1]))
    ground = Markup().join((*_across_axis(*across), *_up_axis(*up)))
    return _CHART.format(f"{_WIDTH:g}", f"{_HEIGHT:g}", about, ground, line, marks, names)


def _across_axis(axis: ChartAxis, scale: ChartScale) -> Iterator[Markup]:
    bottom = _HEIGHT - _BOTTOM
    for value in scale.ticks(axis.units):
        x = _pixel(scale(value))
        yield Markup('<path class="tick-line" d="M{} {}V{}"/>').format(x, _TOP, bottom)
        yield Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(x, bottom + 15, _tick_text(value, axis))
    yield Markup('<path class="axis-line" d="M{} {}H{}"/>').format(_LEFT, bottom, _WIDTH - _RIGHT)
    name = axis.name + (" (logarithmic)" if scale.is_log else "")
    yield Markup('<text class="axis-name" x="{}" y="{}" text-anchor="end">{} →</text>').format(_WIDTH - _RIGHT, _HEIGHT - 4, name)


def _up_axis(axis: ChartAxis, scale: ChartScale) -> Iterator[Markup]:
    for value in scale.ticks(axis.units):
        y = _pixel(scale(value))
        yield Markup('<path class="tick-line" d="M{} {}H{}"/>').format(_LEFT, y, _WIDTH - _RIGHT)
        yield Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(
            _LEFT - 8, _pixel(scale(value) + 3.5), _tick_text(value, axis)
        )
    yield Markup('<path class="axis-line" d="M{} {}V{}"/>').format(_LEFT, _TOP, _HEIGHT - _BOTTOM)
    name = axis.name + (" (logarithmic)" if scale.is_log else "")
    yield Markup('<text class="axis-name" x="0" y="11">↑ {}</text>').format(name)


def _tick_text(value: float, axis: ChartAxis) -> str:
    """Format a tick without trailing zeros.

    >>> _tick_text(0.05, STEP), _tick_text(0.0, PEAK), _tick_text(2.5 * 1024**3, PEAK)
    ('50 ms', '0', '2.5 GiB')
    """
    if not value:
        return "0"
    number, unit = axis.write(value).split(" ", 1)
    return f"{float(number):g} {unit}"


def _mark(point: ChartPoint, x: float, y: float, on_front: bool) -> Markup:
    """Draw a disc on the front, a ring off it, and a cross if the plan does not fit."""
    title = Markup("<title>{} {}</title>").format(point.letter, point.name)
    if not point.fits:
        cross = f"M{_pixel(x - 4)} {_pixel(y - 4)}l8 8m0 -8l-8 8"
        return Markup('<path class="no-fit" d="{}">{}</path>').format(cross, title)
    look = "on-front" if on_front else "off-front"
    return Markup('<circle class="{}" cx="{}" cy="{}" r="4.5">{}</circle>').format(look, _pixel(x), _pixel(y), title)


def _names(points: Sequence[ChartPoint], across: ChartScale, up: ChartScale) -> Iterator[Markup]:
    """Draw each point's letter where it overlaps no other point or letter, if possible."""
    taken = [(across(point.across), up(point.up)) for point in points]
    for point in points:
        position = (across(point.across), up(point.up))
        places = [(position[0] + x, position[1] + y) for x, y in _PLACES]
        x, y = next((place for place in places if not _is_taken(place, position, taken)), places[0])
        taken.append((x, y - 4))
        yield Markup('<text class="point-name" x="{}" y="{}" text-anchor="middle">{}</text>').format(_pixel(x), _pixel(y), point.letter)


def _is_taken(place: tuple[float, float], own: tuple[float, float], taken: Sequence[tuple[float, float]]) -> bool:
    x, y = place[0], place[1] - 4
    return any(abs(x - other[0]) < _NAME and abs(y - other[1]) < _NAME - 1 for other in taken if other != own)


def _staircase(points: Sequence[tuple[float, float]]) -> str:
    """Return the path through a front: right, then down, because points above it are dominated."""
    first, *others = points
    return f"M{_pixel(first[0])} {_pixel(first[1])}" + "".join(f"H{_pixel(x)}V{_pixel(y)}" for x, y in others)


def _pixel(value: float) -> str:
    return f"{value:.1f}"
