"""Numbers as a person reads them: bytes in binary units, counts in decimal ones, seconds in the nearest unit."""

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


def _scaled(value: float, base: float, units: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= base and power < len(units) - 1:
        value /= base
        power += 1
    digits = 0 if power == 0 and value == int(value) else 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f} {units[power]}".rstrip()


def format_bytes(count: float) -> str:
    """
    >>> format_bytes(75_497_472), format_bytes(512), format_bytes(0)
    ('72.0 MiB', '512 B', '0 B')
    """
    return _scaled(count, 1024, _BINARY)


def format_count(count: float, unit: str = "") -> str:
    """
    >>> format_count(8_589_934_592, "FLOP"), format_count(124e6)
    ('8.59 GFLOP', '124 M')
    """
    text = _scaled(count, 1000, _DECIMAL)
    return f"{text}{unit}" if " " in text else f"{text} {unit}".rstrip()


def format_figure(value: float, unit: str) -> str:
    """A figure in its unit: `bytes`, `seconds`, or one that is counted, such as `FLOP`.

    >>> format_figure(512, "bytes"), format_figure(0.0123, "seconds"), format_figure(124e6, "FLOP")
    ('512 B', '12.3 ms', '124 MFLOP')
    """
    return format_bytes(value) if unit == "bytes" else format_seconds(value) if unit == "seconds" else format_count(value, unit)


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
