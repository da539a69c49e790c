"""A catalogue entry: a kind of device, its interconnect (a torus of chips, or devices behind the switch of a node), and the
hardware that a number of them form; and measured hardware as an entry of a hardware file for `WORKBENCH_HARDWARE` or
`--hardware-file`.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import UnreadableError, parse_toml, read_text, verify_length
from workbench.errors import DocumentError, HardwareError, WorkbenchError, explain_os_errors
from workbench.hardware.hardware import AxisTopology, Chip, Hardware, Link, PhysicalAxis

MOST_DEVICES = 10_000_000
"""Limit for a torus, a side, a node and a chip; sizes in text form have at most seven digits."""
_RANKS = 3


def verify_count(name: str, value: object, most: int = MOST_DEVICES, least: int = 1) -> None:
    """Raise `WorkbenchError` unless the value is an integer within limits."""
    if type(value) is not int or not least <= value <= most:
        raise WorkbenchError(f"`{name}` is {str(value)[:80]}; it is a whole number from {least} to {most:,}.")


@dataclass(frozen=True, slots=True)
class Torus:
    """A grid of chips in `rank` dimensions with links between neighbors.

    `slices` joins grids, `on_chip` joins the devices of one chip. A dimension is a ring if it is `ring_side` chips
    long, or if all sides are multiples of `ring_multiple` (whole cubes, whose faces meet in optical switches);
    otherwise it is a line.
    """

    rank: int
    side: int
    chips: int
    link: Link
    slices: Link
    on_chip: Link | None = None
    ring_side: int = 0
    ring_multiple: int = 0

    def __post_init__(self) -> None:
        verify_count("rank", self.rank, _RANKS)
        for name in ("side", "chips"):
            verify_count(name, getattr(self, name))
        for name in ("ring_side", "ring_multiple"):
            verify_count(name, getattr(self, name), least=0)

    def shape(self, side: int, sides: tuple[int, ...]) -> AxisTopology:
        """Return the topology of a dimension of `side` chips in a slice with these sides."""
        cubes = self.ring_multiple and all(length % self.ring_multiple == 0 for length in sides)
        return AxisTopology.RING if cubes or side == self.ring_side else AxisTopology.LINE


@dataclass(frozen=True, slots=True)
class Node:
    """Up to `size` devices behind one switch; `network` joins nodes."""

    size: int
    link: Link
    network: Link

    def __post_init__(self) -> None:
        verify_count("size", self.size)


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A kind of device and its network. `chip` is one JAX device; a physical chip has `devices` of them."""

    name: str
    chip: Chip
    network: Torus | Node
    devices: int = 1
    aliases: tuple[str, ...] = ()

    @property
    def links(self) -> tuple[Link, ...]:
        """The links between its devices, fastest first."""
        if isinstance(self.network, Node):
            return (self.network.link, self.network.network)
        on_chip = (self.network.on_chip,) if self.network.on_chip else ()
        return (*on_chip, self.network.link, self.network.slices)

    @property
    def record(self) -> dict[str, Any]:
        """The entry as a dict for JSON: figures per device in SI units and bytes. Unlimited rates are infinite."""
        named = {"name": self.name, "aliases": list(self.aliases), "devices_per_chip": self.devices, "example": self.example}
        return {**named, "device": asdict(self.chip), "links": [asdict(link) for link in self.links]}

    @property
    def example(self) -> str:
        if isinstance(self.network, Node):
            return f"{min(self.network.size, 8)} {self.name}"
        return f"{self.name} {'x'.join(['4'] * self.network.rank)}"

    def slices(self, sides: tuple[int, ...], count: int = 1) -> Hardware:
        """Hardware of `count` slices with these sides in chips. Raises `HardwareError` for impossible ones."""
        torus = self.network
        if not isinstance(torus, Torus):
            raise HardwareError(f"{self.name} has nodes, not a torus.", [f'write "{self.example}"', f'"4 nodes of {self.example}"'])
        text = f"{self.name} {'x'.join(map(str, sides))}"
        _verify_sides(self, torus, sides, text)
        axes = [PhysicalAxis(name, side, torus.link, torus.shape(side, sides)) for name, side in zip("xyz", sides, strict=False)]
        if torus.on_chip:
            axes.append(PhysicalAxis("core", self.devices, torus.on_chip, AxisTopology.LINE))
        if count > 1:
            axes.insert(0, PhysicalAxis("slice", count, torus.slices, AxisTopology.SWITCH))
        return Hardware(self.chip, tuple(axes), f"{count} slices of {text}" if count > 1 else text)

    def nodes(self, devices: int, count: int = 1) -> Hardware:
        """Make hardware of `count` nodes of `devices` devices. Raises `HardwareError` if a node is not that large."""
        node = self.network
        if not isinstance(node, Node):
            shape = "x".join(map(str, _near_square_sides(min(devices * count, node.chips), node.rank)))
            raise HardwareError(f"{self.name} has a torus; give its sides in chips.", [f'write "{self.name} {shape}"'])
        if not 1 <= devices <= node.size or count < 1:
            full = f"{math.ceil(devices / node.size)} nodes of {node.size} {self.name}"
            raise HardwareError(
                f"A node has 1 to {node.size} {self.name}, not {devices}." if count else "At least one node is required.",
                [f'write "{full}"'] if count and devices else [f'write "{self.example}"'],
            )
        axes = [PhysicalAxis("device", devices, node.link, AxisTopology.SWITCH)]
        if count > 1:
            axes.insert(0, PhysicalAxis("node", count, node.network, AxisTopology.SWITCH))
        return Hardware(self.chip, tuple(axes), f"{count} nodes of {devices} {self.name}" if count > 1 else f"{devices} {self.name}")


def _verify_sides(entry: CatalogueEntry, torus: Torus, sides: tuple[int, ...], text: str) -> None:
    chips = math.prod(sides)
    if len(sides) != torus.rank:
        shape = "x".join(["4"] * torus.rank)
        raise HardwareError(
            f"`{text}` has {len(sides)} side{'s' * (len(sides) != 1)}; a slice of {entry.name} is a {torus.rank}-dimensional torus.",
            [f'write "{entry.name} {shape}" for {4**torus.rank} chips'],
        )
    if min(sides) < 1:
        raise HardwareError(f"`{text}` has a side of 0 chips.", ["each side is at least 1 chip"])
    if max(sides) > torus.side or chips > torus.chips:
        product = " x ".join(map(str, sides))
        pod = "x".join([str(torus.side)] * torus.rank) if torus.side**torus.rank == torus.chips else f"{torus.chips:,} chips"
        raise HardwareError(
            f"`{text}` is {product} = {chips:,} chips; a pod of {entry.name} is {pod} at most.", _suggest_smaller(entry, torus, sides)
        )


def _near_square_sides(chips: int, rank: int) -> tuple[int, ...]:
    if rank == 1:
        return (max(chips, 1),)
    side = max((divisor for divisor in range(1, round(max(chips, 1) ** (1 / rank)) + 1) if chips % divisor == 0), default=1)
    return (side, *_near_square_sides(chips // side, rank - 1))


def _suggest_smaller(entry: CatalogueEntry, torus: Torus, sides: tuple[int, ...]) -> list[str]:
    smaller, count = list(sides), 1
    while (max(smaller) > torus.side or math.prod(smaller) > torus.chips) and max(smaller) % 2 == 0:
        smaller[smaller.index(max(smaller))] //= 2
        count *= 2
    fits = max(smaller) <= torus.side and math.prod(smaller) <= torus.chips
    return [f'write "{count} slices of {entry.name} {"x".join(map(str, smaller))}"' if fits else "make a side smaller"]


# Entries are read from TOML: the shipped `hardware.toml`, or a file of the user.

SHIPPED_FILE = Path(__file__).with_name("hardware.toml")


def load_entries(path: Path) -> dict[str, CatalogueEntry]:
    """Load the entries of a file by name. Raises `HardwareError` if it is invalid or too large for a document."""
    name = f"The hardware file `{path}`"
    try:
        with explain_os_errors(f"{name} cannot be read", HardwareError, "check the path"):
            text = read_text(path)
        verify_length(text, name, "hardware file")
        tables = parse_toml(text, with_infinity=True)  # infinity: the rate of a link without traffic
    except DocumentError as error:
        raise HardwareError(error.message, error.ways_out) from None
    except (UnreadableError, UnicodeDecodeError) as error:
        raise HardwareError(f"{name} is not TOML: {error}.", ["fix that line"]) from None
    return {name: _load_entry(name, table, path) for name, table in tables.items()}


def _load_entry(name: str, table: Any, path: Path) -> CatalogueEntry:
    try:
        return _read_entry(name, dict(table))
    except WorkbenchError as error:
        reason = error.message
    except KeyError as error:
        reason = f"it has no `{error.args[0]}`"
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = str(error)
    raise HardwareError(f"`{name}` in the hardware file `{path}` cannot be used: {reason}", [f"follow the entries of {SHIPPED_FILE.name}"])


def _read_link(name: str, values: dict[str, Any]) -> Link:
    fields = {key: _read_link_value(value) for key, value in values.items()}
    return Link(name, **fields)


def _read_link_value(value: Any) -> Any:
    """Convert a value: a number, a list of words, or a table of shares by the number of devices."""
    if isinstance(value, dict):
        return tuple(sorted((int(devices), float(share)) for devices, share in value.items()))
    return tuple(value) if isinstance(value, list) else value


def _read_entry(name: str, table: dict[str, Any]) -> CatalogueEntry:
    """Read an entry; resources of a chip are divided among its devices."""
    verify_count("devices", table.get("devices", 1))
    share = 1 / table.get("devices", 1)
    links = {label: _read_link(label, values) for label, values in table["links"].items()}
    shared = {label: replace(link, bandwidth=link.bandwidth * share) for label, link in links.items()}
    if "torus" in table:
        on_chip = table["torus"].get("on_chip")
        joined = {"link": shared[table["torus"]["link"]], "slices": shared[table["torus"]["slices"]]}
        network: Torus | Node = Torus(**{**table["torus"], **joined, "on_chip": links[on_chip] if on_chip else None})
    else:
        node = table["node"]
        network = Node(node["size"], shared[node["link"]], shared[node["network"]])
    chip = Chip(
        name=name,
        flops={dtype: rate * share for dtype, rate in table["flops"].items()},
        memory=int(table["memory"] * share),
        memory_bandwidth=table["memory_bandwidth"] * share,
        vector_flops=table.get("vector", math.inf) * share,
        launch=table.get("launch", 0.0),
        sweep=table.get("sweep", math.inf) * share,
        host_memory=int(table.get("host_memory", 0) * share),
        host_bandwidth=table.get("host_bandwidth", math.inf) * share,
        matmul_tile=tuple(table.get("matmul_tile", ())),
        array_tile=tuple(table.get("array_tile", ())),
        on_chip=int(table.get("on_chip", 0) * share),
        efficiency=table.get("efficiency", {}),
        target=table.get("target", ""),
        calibrated=table.get("calibrated", ""),
        shares_of=table.get("shares_of", ""),
        price=table.get("price"),
        chip_devices=table.get("devices", 1),
        sources=table.get("sources", {}),
    )
    return CatalogueEntry(name, chip, network, table.get("devices", 1), tuple(table.get("aliases", ())))


_NETWORK = "{ bandwidth = 1.25e9, latency = 50e-6 }"
_MEASURED = "measured by `workbench calibrate`"
_LARGEST_NODE = 4096  # largest number of virtual devices


def hardware_entry(hardware: Hardware, name: str = "This machine") -> str:
    """The TOML entry of calibrated hardware, a node with any number of devices, for `parse_hardware("8 This machine")`."""
    return "\n".join(_entry_lines(hardware, json.dumps(name, ensure_ascii=False))) + "\n"


def _entry_lines(hardware: Hardware, quoted: str) -> Iterator[str]:
    chip, link = hardware.chip, hardware.axes[-1].link
    yield f"[{quoted}]"
    yield f"target = {json.dumps(chip.target)}"
    yield f"flops = {_table_text(chip.flops)}"
    if math.isfinite(chip.vector_flops):
        yield f"vector = {chip.vector_flops:.4g}"
    yield f"memory = {chip.memory}"
    yield f"memory_bandwidth = {chip.memory_bandwidth:.4g}"
    yield f"launch = {chip.launch:.4g}"
    if chip.efficiency:
        yield f"efficiency = {_table_text(chip.efficiency)}"
    yield f"calibrated = {json.dumps(_MEASURED)}"
    yield f'node = {{ size = {max(_LARGEST_NODE, hardware.size)}, link = "measured", network = "ethernet" }}'
    yield f"links.measured = {{ bandwidth = {link.bandwidth:.4g}, latency = {link.latency:.4g} }}"
    yield f"links.ethernet = {_NETWORK}"
    yield ""
    yield f"[{quoted}.sources]"
    measured = f"{_MEASURED}, {hardware.size} × {chip.name} busy at once"
    for key in ("flops", *(["vector"] if math.isfinite(chip.vector_flops) else []), "memory_bandwidth", "launch", "measured"):
        yield f"{key} = {json.dumps(measured, ensure_ascii=False)}"
    yield f"memory = {json.dumps('as the device or the operating system reports it')}"
    yield f"ethernet = {json.dumps('assumed: 10 Gbit/s')}"


def _table_text(values: Mapping[str, float]) -> str:
    return "{ " + ", ".join(f"{json.dumps(key)} = {value:.4g}" for key, value in values.items()) + " }"
