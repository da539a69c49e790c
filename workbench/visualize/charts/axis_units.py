"""The unit that an axis is written in: one for all its values, so that its ticks are plain numbers at every zoom."""

from typing import NamedTuple

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


class AxisUnit(NamedTuple):
    """`size` in the base unit (seconds, bytes, FLOP/s) is 1 on the axis."""

    size: float
    name: str


def seconds_unit(longest: float) -> AxisUnit:
    """
    >>> seconds_unit(0.25), seconds_unit(0.0)
    (AxisUnit(size=0.001, name='ms'), AxisUnit(size=1e-06, name='µs'))
    """
    return AxisUnit(*next((each for each in _SECONDS if longest >= each[0]), _SECONDS[-1]))


def bytes_unit(most: float) -> AxisUnit:
    """
    >>> bytes_unit(3 * 1024**3)
    AxisUnit(size=1073741824.0, name='GiB')
    """
    power = min(max((int(most).bit_length() - 1) // 10, 0), len(_BINARY) - 1)
    return AxisUnit(1024.0**power, _BINARY[power])


def count_unit(most: float, of: str) -> AxisUnit:
    """
    >>> count_unit(197e12, "FLOP/s")
    AxisUnit(size=1000000000000.0, name='TFLOP/s')
    """
    power = 0
    while most >= 1000.0 ** (power + 1) and power < len(_DECIMAL) - 1:
        power += 1
    return AxisUnit(1000.0**power, f"{_DECIMAL[power]}{of}")
