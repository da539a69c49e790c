"""The hardware catalogue: kinds of devices by name, and `parse_hardware` for what a person writes.

    TPU v5p 8x8x16                  one slice, its sides in chips
    4 slices of TPU v5e 16x16       slices joined by the data-centre network
    8 H100                          one node
    32 nodes of 8 H100              nodes joined by their network

The numbers are in `hardware.toml`, each with its source. `WORKBENCH_HARDWARE` may name a file of the same form, whose entries are added
or replace those of the same name; `load_catalogue(path)` reads one.
"""

import functools
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import HardwareError, WorkbenchError, unknown_name, wrong_type
from workbench.hardware.hardware import AxisTopology, Chip, Hardware, Link, PhysicalAxis

SHIPPED_FILE = Path(__file__).with_name("hardware.toml")
HARDWARE_FILE_VARIABLE = "WORKBENCH_HARDWARE"

_SLICES = re.compile(r"(?:(\d{1,7}) +slices? +of +)?(.+?) +(\d{1,7}(?:x\d{1,7})*)", re.IGNORECASE)
_NODES = re.compile(r"(?:(\d{1,7}) +nodes? +of +)?(\d{1,7}) +(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Torus:
    """Chips in a grid of `rank` dimensions, each joined to its neighbours; `slices` joins grids, `on_chip` the devices of one chip.

    A dimension closes to a ring if it is `ring_side` chips long, or if every side is a multiple of `ring_multiple` (whole cubes, whose
    faces meet in optical switches); it is a line otherwise.
    """

    rank: int
    side: int
    chips: int
    link: Link
    slices: Link
    on_chip: Link | None = None
    ring_side: int = 0
    ring_multiple: int = 0

    def shape(self, side: int, sides: tuple[int, ...]) -> AxisTopology:
        """Whether a dimension of `side` chips is a ring or a line in a slice of these sides."""
        cubes = self.ring_multiple and all(each % self.ring_multiple == 0 for each in sides)
        return AxisTopology.RING if cubes or side == self.ring_side else AxisTopology.LINE


@dataclass(frozen=True, slots=True)
class Node:
    """At most `size` devices behind one switch; `network` joins nodes."""

    size: int
    link: Link
    network: Link


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
    def example(self) -> str:
        """Hardware of this kind, as a person writes it."""
        if isinstance(self.network, Node):
            return f"{min(self.network.size, 8)} {self.name}"
        return f"{self.name} {'x'.join(['4'] * self.network.rank)}"

    def slices(self, sides: tuple[int, ...], count: int = 1) -> Hardware:
        """`count` slices of these sides, in chips; raises `HardwareError` if there are no such slices."""
        torus = self.network
        if not isinstance(torus, Torus):
            raise HardwareError(
                f"{self.name} comes in nodes and has no torus.", [f'write "{self.example}"', f'"4 nodes of {self.example}"']
            )
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
            raise HardwareError(f"{self.name} comes as a torus; give its sides in chips.", [f'write "{self.name} {shape}"'])
        if not 1 <= devices <= node.size or count < 1:
            full = f"{math.ceil(devices / node.size)} nodes of {node.size} {self.name}"
            raise HardwareError(
                f"A node has 1 to {node.size} {self.name}; {devices} is not among these." if count else "There must be one node at least.",
                [f'write "{full}"'] if count and devices else [f'write "{self.example}"'],
            )
        axes = [PhysicalAxis("device", devices, node.link, AxisTopology.SWITCH)]
        if count > 1:
            axes.insert(0, PhysicalAxis("node", count, node.network, AxisTopology.SWITCH))
        return Hardware(self.chip, tuple(axes), f"{count} nodes of {devices} {self.name}" if count > 1 else f"{devices} {self.name}")


@dataclass(frozen=True)
class Catalogue:
    """Entries by name."""

    entries: Mapping[str, CatalogueEntry] = field(default_factory=dict)

    def __getitem__(self, name: str) -> CatalogueEntry:
        """The entry of this name or alias, however its letters are cased; raises `HardwareError` with the nearest names."""
        folded_name = " ".join(name.casefold().split())
        for entry in self.entries.values():
            if folded_name in (each.casefold() for each in (entry.name, *entry.aliases)):
                return entry
        raise HardwareError(*unknown_name("hardware", name, self.entries))


def parse_hardware(text: str, catalogue: Catalogue | None = None) -> Hardware:
    """Parse the hardware that a person wrote; `Hardware.name` is the inverse.

    >>> hardware = parse_hardware("4 slices of TPU v5e 16x16")
    >>> hardware.size, [axis.name for axis in hardware.axes], hardware.name
    (1024, ['slice', 'x', 'y'], '4 slices of TPU v5e 16x16')

    Raises `HardwareError` for a kind that is not in the catalogue and for a shape that does not exist.
    """
    known = catalogue or default_catalogue()
    text = " ".join(text.split())
    if match := _SLICES.fullmatch(text):
        count, name, sides = match.groups()
        return known[name].slices(tuple(map(int, sides.split("x"))), _parse_count(count, "slice"))
    if match := _NODES.fullmatch(text):
        count, devices, name = match.groups()
        return known[name].nodes(int(devices), _parse_count(count, "node"))
    if not text:
        raise HardwareError("No hardware is named.", ['write "TPU v5p 8x8x16"', '"4 slices of TPU v5e 16x16"', '"32 nodes of 8 H100"'])
    if kind := next((each for each in known.entries.values() if text.casefold().startswith(f"{each.name.casefold()} ")), None):
        raise HardwareError(f"`{text[len(kind.name) + 1 :]}` is no size of a {kind.name} slice or node.", [f'write "{kind.example}"'])
    raise HardwareError(f"`{known[text].name}` is a kind of device; how many are there?", [f'write "{known[text].example}"'])


def read_hardware(given: Hardware | str | None) -> Hardware | None:
    """The hardware of a plan, given as text or as an object; raises `HardwareError` for anything else."""
    if given is None or isinstance(given, Hardware):
        return given
    if isinstance(given, str):
        return parse_hardware(given)
    raise HardwareError(wrong_type("hardware", given, "a kind of device and how many there are"), ['write "TPU v5e 2x4"', '"8 H100"'])


def default_catalogue() -> Catalogue:
    """The shipped entries, and those of the user's own file if `WORKBENCH_HARDWARE` names one."""
    return load_catalogue(os.environ.get(HARDWARE_FILE_VARIABLE) or None)


@functools.lru_cache(maxsize=8)
def load_catalogue(path: str | Path | None = None) -> Catalogue:
    """The shipped entries, and those of the file at `path` beside or in place of them; `HardwareError` if the file cannot be used."""
    entries = _load_entries(SHIPPED_FILE)
    return Catalogue({**entries, **_load_entries(Path(path))} if path else entries)


def list_example_hardware(catalogue: Catalogue | None = None) -> tuple[Hardware, ...]:
    """One small and one larger example of each entry, for tables over all of them."""
    found = []
    for entry in (catalogue or default_catalogue()).entries.values():
        found.append(parse_hardware(entry.example, catalogue))
        found.append(entry.nodes(4, 3) if isinstance(entry.network, Node) else entry.slices((2,) * entry.network.rank, 2))
    return tuple(found)


def _parse_count(text: str | None, kind: str) -> int:
    if text is None:
        return 1
    if int(text) < 1:
        raise HardwareError(f"There must be one {kind} at least.", [f"leave `0 {kind}s of` away"])
    return int(text)


def _verify_sides(entry: CatalogueEntry, torus: Torus, sides: tuple[int, ...], text: str) -> None:
    chips = math.prod(sides)
    if len(sides) != torus.rank:
        shape = "x".join(["4"] * torus.rank)
        raise HardwareError(
            f"`{text}` has {len(sides)} side{'s' * (len(sides) != 1)}; a slice of {entry.name} is a torus of {torus.rank} dimensions.",
            [f'write "{entry.name} {shape}" for {4**torus.rank} chips'],
        )
    if min(sides) < 1:
        raise HardwareError(f"`{text}` has a side of 0 chips.", ["each side is 1 chip at least"])
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


def _load_entries(path: Path) -> dict[str, CatalogueEntry]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HardwareError(f"The hardware file `{path}` cannot be read: {error.strerror or error}.", ["check the path"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HardwareError(f"The hardware file `{path}` is not TOML: {error}.", ["mend that line"]) from None
    return {name: _load_entry(name, table, path) for name, table in tables.items()}


def _load_entry(name: str, table: Any, path: Path) -> CatalogueEntry:
    try:
        return _read_entry(name, dict(table))
    except WorkbenchError as error:
        reason = error.message
    except KeyError as error:
        reason = f"it has no `{error.args[0]}`"
    except (TypeError, ValueError, AttributeError) as error:
        reason = str(error)
    raise HardwareError(
        f"`{name}` in the hardware file `{path}` cannot be used: {reason}", [f"write it as the entries of {SHIPPED_FILE.name}"]
    )


def _read_entry(name: str, table: dict[str, Any]) -> CatalogueEntry:
    """An entry of the catalogue; what the devices of a chip share is divided among them."""
    share = 1 / table.get("devices", 1)
    links = {each: Link(each, values["bandwidth"], values["latency"]) for each, values in table["links"].items()}
    shared = {each: Link(each, link.bandwidth * share, link.latency) for each, link in links.items()}
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
        sources=table.get("sources", {}),
    )
    return CatalogueEntry(name, chip, network, table.get("devices", 1), tuple(table.get("aliases", ())))
