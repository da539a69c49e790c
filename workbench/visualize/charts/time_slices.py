"""Many units over time, drawn as few: time slices of each device, in which each model has the share that it computed."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

MOST_SLICES, MOST_MARKS = 600, 12_000  # slices of the whole time; for all devices and models, approximately
UnitSpan = tuple[int, int, float, float]
"""Model, device, start, end."""


class Slice(NamedTuple):
    """From `start` to `end`, in seconds, a model has the device from the share `low` to the share `high` of that time, with so many `units`
    that begin in it."""

    device: int
    start: float
    end: float
    model: int
    low: float
    high: float
    units: int


def time_slices(spans: Iterable[UnitSpan], whole: float, devices: int, models: int) -> list[Slice]:
    """
    >>> for each in time_slices([(0, 0, 0.0, 1.0), (1, 0, 1.0, 1.5)], whole=10.0, devices=1, models=1200):
    ...     print(tuple(each))
    (0, 0.0, 1.0, 0, 0.0, 1.0, 1)
    (0, 1.0, 2.0, 1, 0.0, 0.5, 1)
    """
    count = max(10, min(MOST_SLICES, MOST_MARKS // (devices * models)))
    width = whole / count or 1.0
    seconds: dict[tuple[int, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    units: dict[tuple[int, int, int], int] = defaultdict(int)
    for model, device, start, end in spans:
        units[device, min(count - 1, int(start / width)), model] += 1
        for place in range(min(count - 1, int(start / width)), min(count - 1, int(end / width)) + 1):
            within = min(end, (place + 1) * width) - max(start, place * width)
            if within > 0:
                seconds[device, place][model] += within
    found = []
    for (device, place), shared in sorted(seconds.items()):
        low = 0.0
        for model, took in sorted(shared.items()):
            high = min(1.0, low + took / width)
            begin, end = round(place * width, 9), round((place + 1) * width, 9)
            found.append(Slice(device, begin, end, model, round(low, 4), round(high, 4), units.get((device, place, model), 0)))
            low = high
    return found
