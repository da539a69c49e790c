"""Linear and logarithmic axis scales, their ticks, and the axes of a picture."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.visualize.draw.drawing_marks import Label, Mark, Rectangle
from workbench.visualize.draw.palette import NEUTRAL

MOST_TICKS = 8
LINEAR_UP_TO = 6.0
"""Ratio of the largest to the smallest value above which a scale is logarithmic."""
_PADDING = 0.06  # of the length, on both sides


@dataclass(frozen=True, slots=True)
class AxisScale:
    """Map from values in `low` to `high` to `length` pixels from `start`; a negative length runs upwards.

    **Invariants**

    - 0 < low < high if logarithmic.
    """

    low: float
    high: float
    start: float
    length: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value, clamped to the ends of the scale."""
        low, high, logarithm = (math.log(max(bound, self.low)) if self.is_log else bound for bound in (self.low, self.high, value))
        return self.start + self.length * min(max((logarithm - low) / (high - low), 0.0), 1.0)

    def ticks(self, base: float = 10.0, unit: float = 1.0) -> tuple[float, ...]:
        """Round values: 1, 2 or 5 times a power of ten of `unit`, or powers of two on a logarithmic scale with base 2.

        >>> AxisScale(1.0, 9.0, 0, 100).ticks(), AxisScale(0.8, 300.0, 0, 100, is_log=True).ticks(base=2)
        ((2.0, 4.0, 6.0, 8.0), (1.0, 4.0, 16.0, 64.0, 256.0))
        """
        if not self.is_log:
            return self._linear_ticks(unit)
        return _thin_out(_powers_of_two(self.low, self.high)) if base == 2 else _decades(self.low, self.high)

    def _linear_ticks(self, unit: float) -> tuple[float, ...]:
        span = (self.high - self.low) / unit
        power = 10.0 ** math.floor(math.log10(span / (MOST_TICKS - 1)))
        step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= MOST_TICKS - 1) * unit
        return tuple(float(f"{index * step:.12g}") for index in range(math.ceil(self.low / step), math.floor(self.high / step) + 1))


def scale_of(values: Sequence[float], start: float, length: float) -> AxisScale:
    """A scale with a margin around these positive values; logarithmic if max / min exceeds `LINEAR_UP_TO`."""
    low, high = min(values), max(values)
    if high / low > LINEAR_UP_TO:
        room = (high / low) ** _PADDING
        return AxisScale(low / room, high * room, start, length, is_log=True)
    room = (high - low or high) * _PADDING
    return AxisScale(low - room, high + room, start, length)


def tick_text(text: str) -> str:
    """The text of a tick, without trailing zeros.

    >>> tick_text("2.00 s"), tick_text("1.50 GiB"), tick_text("$10.00"), tick_text("20")
    ('2 s', '1.5 GiB', '$10', '20')
    """
    number, space, unit = text.partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{space}{unit}"


def _powers_of_two(low: float, high: float) -> tuple[float, ...]:
    return tuple(2.0**power for power in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1))


def _decades(low: float, high: float) -> tuple[float, ...]:
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1,)):
        round_values = tuple(float(f"{factor}e{power}") for power in powers for factor in factors if low <= factor * 10.0**power <= high)
        if len(round_values) <= MOST_TICKS:
            break
    return _thin_out(round_values)


def _thin_out(values: tuple[float, ...]) -> tuple[float, ...]:
    return values[:: -(-len(values) // MOST_TICKS)] if values else ()


# Ticks of a scale in bytes.


def byte_ticks(scale: AxisScale) -> tuple[float, ...]:
    """Round values in the unit in which the top of the scale is written.

    >>> byte_ticks(AxisScale(0.0, 1023.0, 0, 100))[:3], byte_ticks(AxisScale(0.0, 2048.0, 0, 100))[:3]
    ((0.0, 200.0, 400.0), (0.0, 512.0, 1024.0))
    """
    return scale.ticks(base=2, unit=1024.0 ** max((int(scale.high).bit_length() - 1) // 10, 0))


# The axes of a picture.

Write = Callable[[float], str]


def axes_marks(across: AxisScale, up: AxisScale, write: tuple[Write, Write], levels: Iterable[float] | None = None) -> Iterator[Mark]:
    """Grid lines and tick labels, along y at `levels` if given; empty texts along x are left out."""
    left, ground = across.start, up.start
    for value in across.ticks():
        if text := write[0](value):
            yield Rectangle(across(value), ground + up.length, 1, -up.length, fill=NEUTRAL, alpha=0.18)
            yield Label(across(value), ground + 15, tick_text(text), anchor="middle")
    for value in up.ticks() if levels is None else levels:
        yield Rectangle(left, up(value), across.length, 1, fill=NEUTRAL, alpha=0.18)
        yield Label(left - 6, up(value) + 4, tick_text(write[1](value)), anchor="end")
    yield Rectangle(left, ground, across.length, 1, fill=NEUTRAL)
    yield Rectangle(left, ground + up.length, 1, -up.length, fill=NEUTRAL)


def log_note(scales: Mapping[str, AxisScale]) -> str:
    """A note that names the logarithmic axes; empty if there are none."""
    log = [name for name, scale in scales.items() if scale.is_log]
    return f" (logarithmic: {' and '.join(log)})" if log else ""
