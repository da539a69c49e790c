"""Hardware of every entry of the catalogue."""

from workbench.hardware.catalogue import Catalogue, default_catalogue, parse_hardware
from workbench.hardware.catalogue_entry import Node
from workbench.hardware.hardware import Hardware


def list_example_hardware(catalogue: Catalogue | None = None) -> tuple[Hardware, ...]:
    """One small and one larger example of each entry, for tables over all of them."""
    found = []
    for entry in (catalogue or default_catalogue()).entries.values():
        found.append(parse_hardware(entry.example, catalogue))
        found.append(entry.nodes(4, 3) if isinstance(entry.network, Node) else entry.slices((2,) * entry.network.rank, 2))
    return tuple(found)
