"""An entry of the catalogue: a kind of device, and the hardware that so many of them make."""

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import UnreadableError, parse_toml, read_text, verify_length
from workbench.errors import DocumentError, HardwareError, WorkbenchError
from workbench.hardware.hardware import AxisTopology, Chip, Hardware, Link, PhysicalAxis
from workbench.hardware.interconnect import Node, Torus, verify_count


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One kind of device and how such devices are joined. `chip` is what JAX calls a device: a physical chip has `devices` of them."""

    name: str
    chip: Chip
    network: Torus | Node
    devices: int = 1
    aliases: tuple[str, ...] = ()

    @property
    def links(self) -> tuple[Link, ...]:
        """The links that join its devices, the fastest first."""
        if isinstance(self.network, Node):
            return (self.network.link, self.network.network)
        on_chip = (self.network.on_chip,) if self.network.on_chip else ()
        return (*on_chip, self.network.link, self.network.slices)

    @property
    def record(self) -> dict[str, Any]:
        """The entry as JSON carries it, but for rates without a limit: figures of one device in SI units and bytes."""
        named = {"name": self.name, "aliases": list(self.aliases), "devices_per_chip": self.devices, "example": self.example}
        return {**named, "device": asdict(self.chip), "links": [asdict(link) for link in self.links]}

    @property
    def example(self) -> str:
        """Hardware of this kind, as a person writes it."""
        if isinstance(self.network, Node):
            return f"{min(self.network.size, 8)} {self.name}"
        return f"{self.name} {'x'.join(['4'] * self.network.rank)}"

    def slices(self, sides: tuple[int, ...], count: int = 1) -> Hardware:
        """`count` slices of these sides, in chips; raises `HardwareError` if there are no such slices."""
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
        """`count` nodes of `devices` devices each; raises `HardwareError` if a node is not that large."""
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
    """Sides of about equal length, the longest last, whose product is `chips`."""
    if rank == 1:
        return (max(chips, 1),)
    side = max((each for each in range(1, round(max(chips, 1) ** (1 / rank)) + 1) if chips % each == 0), default=1)
    return (side, *_near_square_sides(chips // side, rank - 1))


def _suggest_smaller(entry: CatalogueEntry, torus: Torus, sides: tuple[int, ...]) -> list[str]:
    """Several slices that together have as many chips, where the sides divide; else the largest slice."""
    smaller, count = list(sides), 1
    while (max(smaller) > torus.side or math.prod(smaller) > torus.chips) and max(smaller) % 2 == 0:
        smaller[smaller.index(max(smaller))] //= 2
        count *= 2
    fits = max(smaller) <= torus.side and math.prod(smaller) <= torus.chips
    return [f'write "{count} slices of {entry.name} {"x".join(map(str, smaller))}"' if fits else "make a side smaller"]


# Read the entries of a catalogue from its TOML file: `hardware.toml`, or one of the user's.

SHIPPED_FILE = Path(__file__).with_name("hardware.toml")


def load_entries(path: Path) -> dict[str, CatalogueEntry]:
    """The entries of a file by name; raises `HardwareError` if it cannot be used, or is larger than a document may be."""
    name = f"The hardware file `{path}`"
    try:
        text = read_text(path)
        verify_length(text, name, "hardware file")
        tables = parse_toml(text, with_infinity=True)  # the rate of a link that nothing is sent over
    except OSError as error:
        raise HardwareError(f"{name} cannot be read: {error.strerror or error}.", ["check the path"]) from None
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
    given = {key: _read_link_value(value) for key, value in values.items()}
    return Link(name, **given)


def _read_link_value(value: Any) -> Any:
    """A number; a list of words; a table of shares by the number of devices."""
    if isinstance(value, dict):
        return tuple(sorted((int(devices), float(share)) for devices, share in value.items()))
    return tuple(value) if isinstance(value, list) else value


def _read_entry(name: str, table: dict[str, Any]) -> CatalogueEntry:
    """An entry of the catalogue; what the devices of a chip share is divided among them."""
    verify_count("devices", table.get("devices", 1))
    share = 1 / table.get("devices", 1)
    links = {each: _read_link(each, values) for each, values in table["links"].items()}
    shared = {each: replace(link, bandwidth=link.bandwidth * share) for each, link in links.items()}
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
