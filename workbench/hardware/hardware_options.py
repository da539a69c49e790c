"""Hardware options, written after commas: `32 nodes of 8 H100, node=200 Gb/s`. Each is a row of `HARDWARE_OPTIONS`."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from workbench.errors import HardwareError
from workbench.hardware.hardware import Hardware
from workbench.hardware.link_and_price import is_chip_price, is_link_change, parse_chip_price, parse_link_change
from workbench.hardware.runtime import SWITCHES, is_runtime, is_switch, load_runtimes


@dataclass(frozen=True, slots=True)
class HardwareOption:
    """A kind of option: example, meaning, parser test, and effect on hardware.

    `apply` raises `HardwareError` if the hardware cannot have the option. The name of the result includes the option,
    so `parse_hardware` is its inverse.
    """

    example: str
    meaning: str
    reads: Callable[[str], bool]
    apply: Callable[[Hardware, str], Hardware]


def set_link(hardware: Hardware, text: str) -> Hardware:
    change = parse_link_change(text)
    return hardware.with_link(change.name, change.bandwidth, change.latency, change.adapters)


def set_price(hardware: Hardware, text: str) -> Hardware:
    return hardware.with_price(parse_chip_price(text))


HARDWARE_OPTIONS = (
    HardwareOption("node=200 Gb/s", "the speed of a link", is_link_change, set_link),
    HardwareOption("eager", "eager PyTorch; or `CUDA graphs`", is_runtime, Hardware.with_runtime),
    HardwareOption("no reshard", "option of eager, such as `no prefetch` and `async TP`", is_switch, Hardware.with_switch),
    HardwareOption("2.5 $/h", "the price of a chip", is_chip_price, set_price),
)


def apply_option(hardware: Hardware, text: str) -> Hardware:
    """Apply an option in text form. Raises `HardwareError` for an unknown option."""
    for option in HARDWARE_OPTIONS:
        if option.reads(text):
            return option.apply(hardware, text)
    choices = ", ".join(f"`{option.example}` ({option.meaning})" for option in HARDWARE_OPTIONS)
    near = get_close_matches(text, (*load_runtimes(), *SWITCHES), n=1)
    raise HardwareError(
        f"Hardware has no option `{text[:80]}`; the options after a comma are {choices}.",
        [f'write "{hardware}, {near[0]}"' if near else f'write "{hardware}"'],
    )
