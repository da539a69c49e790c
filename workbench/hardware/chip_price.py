"""The price of a chip as an option of hardware, `8 H100, 2.5 $/h`: US dollars an hour of a chip as it is sold."""

from workbench.errors import HardwareError
from workbench.hardware.link_change import is_link_change, split_options
from workbench.units import parse_price, price_text


def is_chip_price(text: str) -> bool:
    """Whether an option is meant to be a price."""
    return "$" in text or "usd" in text.casefold()


def parse_chip_price(text: str) -> float:
    """Dollars an hour that a text says; raises `HardwareError`.

    >>> parse_chip_price("2.5 $/h")
    2.5
    """
    price = parse_price(text)
    if price is None:
        raise HardwareError(f"`{text[:80]}` is no price: it is the US dollars that a chip costs an hour.", ['write "2.5 $/h"'])
    return price


def add_chip_price(name: str, price: float) -> str:
    """The name of hardware with this price, which stands before its links; hardware without a name has none after it."""
    if not name:
        return ""
    hardware, *options = split_options(name)
    links = [each for each in options if is_link_change(each)]
    others = [each for each in options if not is_link_change(each) and not is_chip_price(each)]
    return ", ".join([hardware, *others, price_text(price), *links])
