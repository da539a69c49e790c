"""A scale of a chart: from a value to a pixel, and the round values to mark on it.

It is linear from 0, or logarithmic where the greatest value is more than 20 times the least.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_LINEAR = 20.0
_TICKS = 4  # about so many
_ROOM = 1.12  # beyond the greatest value


@dataclass(frozen=True, slots=True)
class ChartScale:
    """Maps `low..high` to pixels from `start` on, over `length`, which is negative for a scale that goes upwards.

    **Invariants**

    - `low < high`, and `0 < low` if it is logarithmic.
    """

    low: float
    high: float
    start: float
    length: float
    is_log: bool

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(each) for each in (self.low, self.high, value)) if self.is_log else (self.low, self.high, value)
        return self.start + self.length * (value - low) / (high - low)

    def ticks(self, units: Sequence[float]) -> list[float]:
        """Round values, in the largest of the `units` (ascending) that the greatest value reaches: 1, 2 or 5 times a power of ten of it."""
        if self.is_log:
            return self._log_ticks(units)
        unit = _unit_of(self.high / _TICKS, units)
        step = _round_up(self.high / _TICKS / unit) * unit
        return [step * each for each in range(int(self.high / step * (1 + 1e-9)) + 1)]

    def _log_ticks(self, units: Sequence[float]) -> list[float]:
        """Powers of ten of each unit, as far as it reaches; every second or third of them where they are many."""
        found = []
        for unit, beyond in zip(units, (*(0.9 * each for each in units[1:]), math.inf), strict=True):  # 1000 MiB is as good as 1 GiB
            powers = (unit * 10**each for each in range(15))
            found += [each for each in powers if each < min(beyond, self.high * (1 + 1e-9)) and each >= self.low]
        return found[:: max(1, math.ceil(len(found) / (_TICKS + 1)))]


def scale_over(values: Sequence[float], start: float, length: float) -> ChartScale:
    """A scale with room for these values, all above 0.

    >>> scale_over([1.0, 4.0], 0, 100).is_log, scale_over([1.0, 40.0], 0, 100).is_log
    (False, True)
    """
    least, greatest = min(values), max(values)
    if greatest > MOST_LINEAR * least:
        return ChartScale(least / 1.6, greatest * 1.8, start, length, is_log=True)
    return ChartScale(0.0, greatest * _ROOM, start, length, is_log=False)


def _unit_of(value: float, units: Sequence[float]) -> float:
    return max((each for each in units if each <= value), default=units[0])


def _round_up(value: float) -> float:
    """1, 2 or 5 times a power of ten, at least `value`.

    >>> _round_up(3.0), _round_up(0.12)
    (5.0, 0.2)
    """
    power = 10.0 ** math.floor(math.log10(value))
    return next(round(each * power, 12) for each in (1.0, 2.0, 5.0, 10.0) if each * power >= value * (1 - 1e-9))
