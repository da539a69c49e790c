"""Hardware of one kind with another number of devices, in the shapes that are sold."""

from functools import reduce
from math import prod

from workbench.errors import HardwareError
from workbench.hardware.catalogue import default_catalogue, parse_hardware
from workbench.hardware.catalogue_entry import CatalogueEntry, Node
from workbench.hardware.hardware import Hardware
from workbench.hardware.hardware_options import apply_option
from workbench.hardware.link_and_price import is_link_change, split_options
from workbench.units import divisors


def resize_hardware(hardware: Hardware | str, devices: int) -> Hardware:
    """Return hardware of the same kind and options with this number of devices: whole nodes, or a slice close to a
    cube.

    `hardware` may be the name of a kind. Raises `HardwareError` if that number is not sold.

    >>> resize_hardware("TPU v5p", 256).name, resize_hardware("32 nodes of 8 H100, eager", 16).name
    ('TPU v5p 4x8x8', '2 nodes of 8 H100, eager')
    """
    text = hardware if isinstance(hardware, str) else hardware.name
    kind, *options = split_options(text)
    catalogue = default_catalogue()
    kind_name = kind if isinstance(hardware, str) and _is_kind(kind) else parse_hardware(kind).chip.name
    if devices < 1:
        raise HardwareError(f"{devices:,} devices cannot hold a plan.", ["write 1 or more devices"])
    resized = _make(catalogue[kind_name], devices)
    if isinstance(hardware, Hardware):  # a single node has no network for a link option
        options = [option for option in options if not is_link_change(option) or _has_link(resized, option)]
    return reduce(apply_option, options, resized)


def _has_link(hardware: Hardware, option: str) -> bool:
    try:
        return bool(apply_option(hardware, option))
    except HardwareError:
        return False


def _is_kind(text: str) -> bool:
    return any(
        text.casefold() in (name.casefold() for name in (entry.name, *entry.aliases)) for entry in default_catalogue().entries.values()
    )


def _make(entry: CatalogueEntry, devices: int) -> Hardware:
    network = entry.network
    if isinstance(network, Node):
        inside = max(divisor for divisor in divisors(devices) if divisor <= network.size)
        if devices > network.size and inside < 1 << (network.size.bit_length() - 1):  # a node of 72 may leave 8 devices idle
            near = [devices // network.size * network.size, -(-devices // network.size) * network.size]
            raise HardwareError(
                f"{devices:,} {entry.name} do not fill nodes of {network.size}; {devices} % {network.size} = {devices % network.size}.",
                [f"take {' or '.join(f'{count:,}' for count in near if count)} devices"],
            )
        return entry.nodes(inside, devices // inside)
    if devices % entry.devices:
        raise HardwareError(
            f"A chip of {entry.name} has {entry.devices} devices; {devices:,} devices are not a whole number of chips.",
            ["take an even number"],
        )
    chips = devices // entry.devices
    for slices in divisors(chips):
        if chips // slices <= network.chips and (sides := _find_sides(chips // slices, network.rank, network.side)):
            return entry.slices(sides, slices)
    raise HardwareError(
        f"{entry.name} comes in slices of at most {network.chips:,} chips; no slice has {chips:,}.", ["take a power of two"]
    )


def _find_sides(chips: int, rank: int, side: int) -> tuple[int, ...]:
    """Sides whose product is `chips`, as equal as possible, the longest last; empty if one would exceed `side`."""
    if rank == 1:
        return (chips,) if chips <= side else ()
    candidates = [
        (first, *others) for first in divisors(chips) if first <= side and (others := _find_sides(chips // first, rank - 1, side))
    ]
    ordered = [sides for sides in candidates if list(sides) == sorted(sides) and prod(sides) == chips]
    return min(ordered, key=lambda sides: (max(sides) - min(sides), sides), default=())
