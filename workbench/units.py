"""Format and parse numbers: bytes in binary units, counts in decimal units, seconds in the nearest unit."""

import functools
import math
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from workbench.errors import WorkbenchError

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TWO_DIGITS = 100  # from here on integers have at least two digits
_NUMBER = r"\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?"
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


def _scale_to_unit(value: float, base: float, units: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= base and power < len(units) - 1:
        value /= base
        power += 1
    digits = 0 if power == 0 and value == int(value) else 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f} {units[power]}".rstrip()


@functools.lru_cache(maxsize=1 << 14)
def format_bytes(count: float) -> str:
    """Format bytes in binary units.

    >>> format_bytes(75_497_472), format_bytes(512), format_bytes(0)
    ('72.0 MiB', '512 B', '0 B')
    """
    return _scale_to_unit(count, 1024, _BINARY)


def parse_bytes(text: str) -> int | None:
    """Parse bytes as a person writes them; `None` if the text is not an amount.

    >>> parse_bytes("2 GiB"), parse_bytes("1.5MiB"), parse_bytes("512"), parse_bytes("2 GB"), parse_bytes("much")
    (2147483648, 1572864, 512, 2000000000, None)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGTPE]?)(i?)B?\s*", text)
    if match is None:
        return None
    number, prefix, binary = match.groups()
    if len(number) > 30:
        return None
    return round(float(number) * (1024 if binary else 1000) ** ("KMGTPE".index(prefix.upper()) + 1 if prefix else 0))


def parse_rate(text: str) -> float | None:
    """Parse a rate in bits (`b`) or bytes (`B`) per second, returned in bytes; `None` if the text is not a rate.

    >>> parse_rate("200 Gb/s"), parse_rate("25GB/s"), parse_rate("400 Gbps"), parse_rate("much")
    (25000000000.0, 25000000000.0, 50000000000.0, None)
    """
    match = re.fullmatch(rf"\s*({_NUMBER})\s*([kKmMgGtTpP]?)(i?)(b|bit|bits|B|bytes?)(?:/s|ps)\s*", text)
    if match is None:
        return None
    number, prefix, binary, unit = match.groups()
    scale = Decimal(1024 if binary else 1000) ** ("KMGTP".index(prefix.upper()) + 1 if prefix else 0)
    return float(Decimal(number) * scale / (8 if unit.startswith("b") and not unit.startswith("by") else 1))


def rate_text(rate: float, bits: bool = False) -> str:
    """Format bytes per second exactly, so that `parse_rate` is the inverse.

    >>> rate_text(25e9, bits=True), rate_text(25e9)
    ('200 Gb/s', '25 GB/s')
    """
    return f"{_plain_text(Decimal(repr(float(rate))) * (8 if bits else 1) / 10**9)} G{'b' if bits else 'B'}/s"


def parse_time(text: str) -> float | None:
    """Parse seconds such as `5 us` or `0.1 ms`; `None` if the text is not a time.

    >>> parse_time("5 us"), parse_time("0.1ms"), parse_time("800 ns"), parse_time("5")
    (5e-06, 0.0001, 8e-07, None)
    """
    match = re.fullmatch(rf"\s*({_NUMBER})\s*([mnuµμ]?)s\s*", text)
    return match and float(Decimal(match[1]).scaleb({"": 0, "m": -3, "n": -9}.get(match[2], -6)))


def time_text(seconds: float) -> str:
    """Format seconds exactly, so that `parse_time` is the inverse.

    >>> time_text(5e-6)
    '5 us'
    """
    return f"{_plain_text(Decimal(repr(float(seconds))).scaleb(6))} us"


def parse_price(text: str) -> float | None:
    """Parse US dollars per hour; `None` if the text is not a price.

    >>> parse_price("2.5 $/h"), parse_price("$2.5/hour"), parse_price("2.50 USD/h"), parse_price("2.5")
    (2.5, 2.5, 2.5, None)
    """
    match = re.fullmatch(rf"\s*(?:\$\s*({_NUMBER})|({_NUMBER})\s*(?:\$|USD))\s*/\s*h(?:our)?\s*", text, re.IGNORECASE)
    return match and float(match[1] or match[2])


def price_text(price: float) -> str:
    """Format US dollars per hour exactly, so that `parse_price` is the inverse.

    >>> price_text(2.5)
    '2.5 $/h'
    """
    return f"{_plain_text(Decimal(repr(float(price))))} $/h"


def _plain_text(number: Decimal) -> str:
    """Format without trailing zeros, and without an exponent unless it is large."""
    text = f"{number:f}" if abs(number.adjusted()) < 12 else f"{number.normalize()}"
    return text.rstrip("0").rstrip(".") if "." in text and "E" not in text else text


def format_count(count: float, unit: str = "") -> str:
    """Format a count in decimal units.

    >>> format_count(8_589_934_592, "FLOP"), format_count(124e6)
    ('8.59 GFLOP', '124 M')
    """
    text = _scale_to_unit(count, 1000, _DECIMAL)
    return f"{text}{unit}" if " " in text else f"{text} {unit}".rstrip()


def format_dollars(amount: float) -> str:
    """
    >>> format_dollars(1234.5), format_dollars(12.5), format_dollars(0.5), format_dollars(0.0123), format_dollars(7.8e-6)
    ('$1,234', '$12.50', '$0.50', '$0.012', '$0.0000078')
    """
    if amount >= 0.1:
        return f"${amount:,.0f}" if amount >= 1000 else f"${amount:.2f}"
    return f"${Decimal(f'{amount:.2g}'):f}"


def format_share(share: float) -> str:
    """Format a share in percent, `41.6%` or `0.15%`."""
    return f"{share:.1%}" if share >= 0.01 else f"{share:.2%}"


def format_figure(value: float, unit: str) -> str:
    """Format a figure in `bytes`, `seconds`, or a counted unit such as `FLOP`.

    >>> format_figure(512, "bytes"), format_figure(0.0123, "seconds"), format_figure(124e6, "FLOP")
    ('512 B', '12.3 ms', '124 MFLOP')
    """
    return format_bytes(value) if unit == "bytes" else format_seconds(value) if unit == "seconds" else format_count(value, unit)


def format_range(low: float, high: float, show: Callable[[float], str]) -> str:
    """Format two ends with two digits each, and one unit if shared; `show` formats a number with its unit.

    >>> format_range(72.9e9, 85.5e9, format_bytes), format_range(8.7e-4, 1.44e-3, format_seconds), format_range(99.7, 178, format_seconds)
    ('68 to 80 GiB', '870 µs to 1.4 ms', '100 to 178 s')
    """
    begin, end = (_round_to_two_digits(*show(value).split(" ", 1)) for value in (low, high))
    return f"{begin[0] if begin[1] == end[1] else ' '.join(begin)} to {' '.join(end)}".rstrip()


def _round_to_two_digits(number: str, unit: str = "") -> tuple[str, str]:
    value = float(number.replace(",", ""))
    return (f"{float(f'{value:.2g}'):g}" if value < _TWO_DIGITS else number), unit


def format_seconds(seconds: float) -> str:
    """
    >>> format_seconds(0.0123), format_seconds(4.2e-6), format_seconds(75)
    ('12.3 ms', '4.20 µs', '75.0 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1 or unit == "µs":
            value = seconds * scale
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    raise AssertionError("unreachable: the loop returns on its last unit")


def read_whole_number(name: str, value: Any, error: type[WorkbenchError] = WorkbenchError, least: int = 1, of: str = "") -> int:
    """Read an integer argument, including NumPy's; raises `error` for anything else, including text.

    `of` is a suffix for the message, such as ` of model `a``.

    >>> read_whole_number("steps", 3)
    3
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise error(f"`{name}`{of} is {repr(value)[:80]}; it should be a whole number from {least}.", [_suggest_number(name, value, least)])
    return number


def _suggest_number(name: str, value: Any, least: int) -> str:
    suggestion = str(value).strip().removesuffix(".0")
    return f"write {name}={suggestion if suggestion.isdecimal() and int(suggestion) >= least else max(least, 1)}"


@functools.lru_cache(maxsize=1 << 12)
def divisors(number: int) -> tuple[int, ...]:
    """Return all divisors in ascending order, in sqrt(n) steps.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return (*small, *(number // divisor for divisor in reversed(small) if divisor * divisor != number))


def read_positive_seconds(name: str, value: Any, error: type[WorkbenchError] = WorkbenchError) -> float:
    """Read a time argument; raises `error` unless it is a positive number of seconds.

    >>> read_positive_seconds("time_limit", 90)
    90.0
    """
    try:
        seconds = math.nan if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise error(f"`{name}` is {repr(value)[:80]}; it should be a number of seconds above 0.", [f"write {name}=60", "leave it out"])
    return seconds
