"""Hardware options in text form: the speed of a link, and the price of a chip."""

import math
import re
from dataclasses import dataclass

from workbench.errors import HardwareError
from workbench.units import parse_price, parse_rate, parse_time, price_text, rate_text, time_text

# Link options in text form: `node=200 Gb/s` or `node=200 Gb/s 5 us`.
#
# The name of hardware is its text form: `32 nodes of 8 H100`, then options after commas (`hardware_options`).

_NETWORKS = ("node", "slice")  # specified in bits per second; links between chips in bytes
_NUMBER = r"[\d.]+(?:[eE][+-]?\d+)?\s*"
_SPEED = re.compile(
    rf"(?:(?P<adapters>\d+)\s*x\s*(?=[\d.]+))?(?P<rate>{_NUMBER}[a-zA-Z]+/s|{_NUMBER}[a-zA-Z]+ps)?[\s,]*(?P<time>{_NUMBER}[mnuµμ]?s)?"
)
_COMMA_BEFORE_TIME = re.compile(rf"\s*,(?=\s*{_NUMBER}[mnuµμ]?s\s*(?:,|$))")


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A change to links of one name (`None` keeps a value): bytes per second, seconds, adapters per node."""

    name: str
    bandwidth: float | None = None
    latency: float | None = None
    adapters: int | None = None

    def __post_init__(self) -> None:
        if self.bandwidth is not None and not 0 < self.bandwidth < math.inf:
            raise HardwareError(f"The bandwidth of `{self.name}` is {self.bandwidth:g} B/s; a rate must be more than 0.", ["leave it out"])
        if self.adapters is not None and (self.adapters < 1 or self.bandwidth is None):
            raise HardwareError(
                f"`{self.name}` has {self.adapters} adapters per node; at least one with a bandwidth above 0 is required.",
                ['write "node=4 x 200 Gb/s"'],
            )
        if self.latency is not None and not 0 <= self.latency < math.inf:
            raise HardwareError(f"The latency of `{self.name}` is {self.latency:g} s; it is a number of seconds from 0.", ["leave it out"])

    def __str__(self) -> str:
        rate = None if self.bandwidth is None else rate_text(self.bandwidth, bits=self.name in _NETWORKS)
        rate = f"{self.adapters} x {rate}" if self.adapters else rate
        return f"{self.name}={' '.join(filter(None, (rate, None if self.latency is None else time_text(self.latency))))}"


def parse_link_change(text: str) -> LinkChange:
    """Parse `node=200 Gb/s`, `nvlink=900 GB/s, 3 us` or `node=5 us`. Raises `HardwareError`.

    >>> parse_link_change("node=200 Gb/s, 5 us"), str(LinkChange("node", latency=5e-6))
    (LinkChange(name='node', bandwidth=25000000000.0, latency=5e-06, adapters=None), 'node=5 us')
    """
    name, equals, speed = (part.strip() for part in text.partition("="))
    bandwidth, latency, adapters = _parse_speed(speed)
    if not (name and equals) or (bandwidth is None and latency is None):
        raise HardwareError(
            f"`{text[:80]}` is not a speed of a link: it is a link's name, then what a device sends over it in one "
            "direction, its latency, or "
            "both.",
            ['write "node=200 Gb/s"', '"node=4 x 200 Gb/s" (adapters of a node)', '"node=25 GB/s, 5 us"'],
        )
    return LinkChange(name, bandwidth, latency, adapters)


def is_link_change(text: str) -> bool:
    return "=" in text


def split_options(text: str) -> list[str]:
    """Split hardware text into the hardware and its options; a latency after a comma belongs to the link before it.

    >>> split_options("32 nodes of 8 H100, node=200 Gb/s, 5 us, device=400 GB/s")
    ['32 nodes of 8 H100', 'node=200 Gb/s 5 us', 'device=400 GB/s']
    """
    return [" ".join(part.split()) for part in _COMMA_BEFORE_TIME.sub(" ", text).split(",")]


def add_link_change(name: str, change: LinkChange) -> str:
    """Add a link change to the name of hardware, after all other options; an empty name stays empty."""
    if not name:
        return ""
    hardware, *options = split_options(name)
    others = [option for option in options if not is_link_change(option)]
    changes = _effective_changes([*(parse_link_change(option) for option in options if is_link_change(option)), change])
    return ", ".join([hardware, *others, *map(str, changes)])


def _effective_changes(changes: list[LinkChange]) -> list[LinkChange]:
    """The shortest equivalent list of successive changes. Order matters: `ici` covers `x`, `y` and `z`."""
    effective: list[LinkChange] = []
    for index, change in enumerate(changes):
        later = [other for other in changes[index + 1 :] if other.name == change.name]
        bandwidth = None if any(other.bandwidth is not None for other in later) else change.bandwidth
        latency = None if any(other.latency is not None for other in later) else change.latency
        adapters = None if bandwidth is None or any(other.adapters is not None for other in later) else change.adapters
        if effective and effective[-1].name == change.name:
            former = effective.pop()
            bandwidth = former.bandwidth if bandwidth is None else bandwidth
            latency = former.latency if latency is None else latency
            adapters = former.adapters if adapters is None else adapters
        if bandwidth is not None or latency is not None:
            effective.append(LinkChange(change.name, bandwidth, latency, adapters))
    return effective


def _parse_speed(text: str) -> tuple[float | None, float | None, int | None]:
    """Rate, latency and number of adapters; all `None` if the text is malformed."""
    match = _SPEED.fullmatch(text)
    if match is None or (match["adapters"] and not (match["rate"] and int(match["adapters"]))):
        return None, None, None
    rate = parse_rate(match["rate"]) if match["rate"] else None
    latency = parse_time(match["time"]) if match["time"] else None
    if (match["rate"] and rate is None) or (match["time"] and latency is None):
        return None, None, None
    return rate, latency, int(match["adapters"]) if match["adapters"] else None


# The price option, `8 H100, 2.5 $/h`: US dollars per hour for a chip as sold.


def is_chip_price(text: str) -> bool:
    return "$" in text or "usd" in text.casefold()


def parse_chip_price(text: str) -> float:
    """Parse a price in dollars per hour. Raises `HardwareError`.

    >>> parse_chip_price("2.5 $/h")
    2.5
    """
    price = parse_price(text)
    if price is None:
        raise HardwareError(f"`{text[:80]}` is not a price: write US dollars per chip and hour.", ['write "2.5 $/h"'])
    return price


def add_chip_price(name: str, price: float) -> str:
    """Add a price to the name of hardware, before its links; an empty name stays empty."""
    if not name:
        return ""
    hardware, *options = split_options(name)
    links = [option for option in options if is_link_change(option)]
    others = [option for option in options if not is_link_change(option) and not is_chip_price(option)]
    return ", ".join([hardware, *others, price_text(price), *links])
