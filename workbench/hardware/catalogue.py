"""The hardware catalogue: kinds of devices by name, and `parse_hardware` for hardware in text form.

    TPU v5p 8x8x16                  one slice, its sides in chips
    4 slices of TPU v5e 16x16       slices joined by the data-centre network
    8 H100                          one node
    32 nodes of 8 H100              nodes joined by their network; also `256 H100`
    32 nodes of 8 H100, node=200 Gb/s       the same with another link; options stand after commas (`hardware_options`)
    8 x p5.48xlarge                 cloud machine types (`machines.toml`)

The numbers are in `hardware.toml`, each with its source. `WORKBENCH_HARDWARE` may name a file of the same form, whose entries are added
or replace those of the same name; `load_catalogue(path)` reads one.
"""

import functools
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workbench.errors import HardwareError, unknown_name, wrong_type
from workbench.hardware.catalogue_entry import SHIPPED_FILE, CatalogueEntry, Node, load_entries
from workbench.hardware.hardware import Hardware
from workbench.hardware.hardware_options import apply_option
from workbench.hardware.link_and_price import split_options

HARDWARE_FILE_VARIABLE = "WORKBENCH_HARDWARE"
MACHINES_FILE = Path(__file__).with_name("machines.toml")

_SLICES = re.compile(r"(?:(\d{1,7}) +slices? +of +)?(.+?) +(\d{1,7}(?:x\d{1,7})*)", re.IGNORECASE)
_MACHINES = re.compile(r"(?:(\d{1,7})(?: *x)? +)?(\S+)", re.IGNORECASE)
_NODES = re.compile(r"(?:(\d{1,7}) +nodes? +of +)?(\d{1,7}) +(.+)", re.IGNORECASE)


@dataclass(frozen=True)
class Catalogue:
    entries: Mapping[str, CatalogueEntry] = field(default_factory=dict)

    def __getitem__(self, name: str) -> CatalogueEntry:
        """Find an entry by name or alias, ignoring case. Raises `HardwareError` with the nearest names."""
        folded_name = " ".join(name.casefold().split())
        for entry in self.entries.values():
            if folded_name in (alias.casefold() for alias in (entry.name, *entry.aliases)):
                return entry
        raise HardwareError(*unknown_name("hardware", name, self.entries))

    def __contains__(self, name: object) -> bool:
        """Whether an entry has this name or alias, ignoring case."""
        folded_name = " ".join(str(name).casefold().split())
        return any(folded_name == alias.casefold() for entry in self.entries.values() for alias in (entry.name, *entry.aliases))


def parse_hardware(text: str, catalogue: Catalogue | None = None) -> Hardware:
    """Parse hardware in text form; `Hardware.name` is the inverse.

    Raises `HardwareError` for an unknown kind, an impossible shape, or an invalid option.

    >>> hardware = parse_hardware("4 slices of TPU v5e 16x16")
    >>> hardware.size, [axis.name for axis in hardware.axes], hardware.name
    (1024, ['slice', 'x', 'y'], '4 slices of TPU v5e 16x16')
    """
    kinds = catalogue or default_catalogue()
    devices, *options = _split_options(text, kinds)
    return functools.reduce(apply_option, options, _parse_devices(devices, kinds))


def _split_options(text: str, known: Catalogue) -> list[str]:
    """Split off the options; commas in the names of devices do not separate."""
    for name in (device_name for entry in known.entries.values() for device_name in (entry.name, *entry.aliases) if "," in device_name):
        before, separator, after = text.partition(name)
        if separator:
            first, *options = split_options(after)
            return [before + separator + first, *options]
    return split_options(text)


def _parse_devices(text: str, known: Catalogue) -> Hardware:
    text = _read_machines(" ".join(text.split()))
    if (match := _NODES.fullmatch(text)) and match[3] in known:  # before slices: `8 RTX 4090` is no slice of 4090 chips
        return _parse_nodes(match, known)
    if text not in known and (match := _SLICES.fullmatch(text)):
        count, name, sides = match.groups()
        return known[name].slices(tuple(map(int, sides.split("x"))), _parse_count(count, "slice"))
    if match := _NODES.fullmatch(text):
        return _parse_nodes(match, known)
    if not text:
        raise HardwareError("Missing hardware.", ['write "TPU v5p 8x8x16"', '"4 slices of TPU v5e 16x16"', '"32 nodes of 8 H100"'])
    if text not in known and (
        kind := next((entry for entry in known.entries.values() if text.casefold().startswith(f"{entry.name.casefold()} ")), None)
    ):
        raise HardwareError(f"`{text[len(kind.name) + 1 :]}` is not a size of a {kind.name} slice or node.", [f'write "{kind.example}"'])
    raise HardwareError(f"`{known[text].name}` is a kind of device; the number of devices is missing.", [f'write "{known[text].example}"'])


def _parse_nodes(match: re.Match[str], known: Catalogue) -> Hardware:
    """Make the nodes of `2 nodes of 8 H100`, or those that `16 H100` fill."""
    entry, devices = known[match[3]], int(match[2])
    full, idle = divmod(devices, entry.network.size) if isinstance(entry.network, Node) and not match[1] else (0, 0)
    return entry.nodes(devices // full, full) if full and not idle else entry.nodes(devices, _parse_count(match[1], "node"))


def _read_machines(text: str) -> str:
    """Replace cloud machine types by nodes or a slice: `8 x p5.48xlarge`, `8 p5.48xlarge`; other text stays."""
    match = _MACHINES.fullmatch(text)
    machine = machines().get(match[2].casefold()) if match else None
    if match is None or machine is None:
        return text
    count = _parse_count(match[1], "machine")
    if count > 1 and not machine[0].isdecimal():
        raise HardwareError(f"{count:,} `{match[2]}` could mean slices of several shapes.", [f'write "{count} slices of {machine}"'])
    return machine if count == 1 else f"{count} nodes of {machine}"


@functools.cache
def machines() -> Mapping[str, str]:
    """Hardware of one machine by lower-case machine type, read from `machines.toml`."""
    tables = tomllib.loads(MACHINES_FILE.read_text(encoding="utf-8"))
    return {name.casefold(): hardware for table in tables.values() for name, hardware in table.items()}


def read_hardware(given: Hardware | str | None) -> Hardware | None:
    """Return hardware given as text or object. Raises `HardwareError` for anything else."""
    if given is None or isinstance(given, Hardware):
        return given
    if isinstance(given, str):
        return parse_hardware(given)
    raise HardwareError(wrong_type("hardware", given, "a kind of device and how many there are"), ['write "TPU v5e 2x4"', '"8 H100"'])


def is_device_kind(hardware: Hardware, kind: str) -> bool:
    """Whether the hardware consists of devices of this kind, in JAX's naming.

    >>> is_device_kind(parse_hardware("8 H100"), "NVIDIA H100 80GB HBM3"), is_device_kind(parse_hardware("8 H100"), "cpu")
    (True, False)
    """
    entry = default_catalogue().entries.get(hardware.chip.name)
    names = (hardware.chip.name, *(entry.aliases if entry else ()))
    return any(name.casefold() in kind.casefold() for name in names)


def default_catalogue() -> Catalogue:
    """Load the shipped entries, and those of the user's file if `WORKBENCH_HARDWARE` names one."""
    return load_catalogue(os.environ.get(HARDWARE_FILE_VARIABLE) or None)


@functools.lru_cache(maxsize=8)
def load_catalogue(path: str | Path | None = None) -> Catalogue:
    """Load the shipped entries, extended by those of `path`. Raises `HardwareError` for an invalid file."""
    entries = load_entries(SHIPPED_FILE)
    return Catalogue({**entries, **load_entries(Path(path))} if path else entries)


def _parse_count(text: str | None, kind: str) -> int:
    if text is None:
        return 1
    if int(text) < 1:
        raise HardwareError(f"At least one {kind} is required.", [f"omit `0 {kind}s of`"])
    return int(text)
