"""Ticks of a scale of time. Numbers only."""

import math


def ticks(seconds: float, most: int = 8) -> tuple[float, ...]:
    """Round times from 0 to `seconds`, 1, 2 or 5 times a power of ten apart.

    >>> ticks(0.037)
    (0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035)
    """
    if seconds <= 0:
        return (0.0,)
    power = 10.0 ** math.floor(math.log10(seconds / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if seconds / (power * factor) <= most)
    return tuple(round(place * step, 12) for place in range(int(seconds / step) + 1))
