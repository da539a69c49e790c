"""Quantities as a person answers them: `16 KiB`, `23 us`, `2.5e9`, `12 %`."""

import re

from workbench.errors import DocumentError
from workbench.units import format_bytes, format_count, format_seconds, parse_bytes, parse_time

BYTES, SECONDS, SHARE, COUNT = "bytes", "seconds", "share", "count"
"""What a quantity is measured in: a share is a number from 0 to 1, written with or without a percent sign; all else is counted."""
UNITS = (BYTES, SECONDS, SHARE, COUNT)
_EXAMPLES = {BYTES: "3 KiB", SECONDS: "23 us", SHARE: "12 %", COUNT: "2,048"}
_NUMBER = re.compile(r"\s*(-?\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d{1,3})?)\s*([kKMGTP]?)(?![a-zA-Z])\s*(%?)[^%]*", re.IGNORECASE)
_POWERS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}


def parse_quantity(given: str | float, unit: str) -> float:
    """A quantity in bytes, in seconds, from 0 to 1, or a count. Raises `DocumentError` for what is none, with an example of one.

    >>> parse_quantity("16 KiB", "bytes"), parse_quantity("23 us", "seconds"), parse_quantity("12 %", "share")
    (16384.0, 2.3e-05, 0.12)
    >>> parse_quantity("2,048 tokens", "count"), parse_quantity("1.5M", "count"), parse_quantity(3, "count")
    (2048.0, 1500000.0, 3.0)
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    text = str(given).strip()
    plain = text.replace(",", "")
    found = parse_bytes(plain) if unit == BYTES else parse_time(plain) if unit == SECONDS else _parse_number(plain, unit)
    if found is None:
        what = {BYTES: "an amount of bytes", SECONDS: "a time with its unit", SHARE: "a share"}.get(unit, "a number")
        raise DocumentError(f"`{text[:80]}` is not {what}.", [f'write it like "{_EXAMPLES.get(unit, _EXAMPLES[COUNT])}"'])
    return float(found)


def _parse_number(text: str, unit: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    value = float(found[1].replace("_", "")) * _POWERS[found[2].lower()]
    return value / 100 if found[3] and unit == SHARE else value


def format_quantity(value: float, unit: str) -> str:
    """
    >>> format_quantity(16384, "bytes"), format_quantity(0.125, "share"), format_quantity(2048, "count")
    ('16.0 KiB', '12.5 %', '2,048')
    """
    if unit == BYTES:
        return format_bytes(value)
    if unit == SECONDS:
        return format_seconds(value)
    if unit == SHARE:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e6 else format_count(value)
