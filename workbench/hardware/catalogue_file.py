"""Read the entries of a catalogue from its TOML file: `hardware.toml`, or one of the user's."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import UnreadableError, parse_toml, read_text, verify_length
from workbench.errors import DocumentError, HardwareError, WorkbenchError
from workbench.hardware.catalogue_entry import CatalogueEntry
from workbench.hardware.hardware import Chip, Link
from workbench.hardware.interconnect import Node, Torus, verify_count

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
        raise HardwareError(f"{name} is not TOML: {error}.", ["mend that line"]) from None
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
    raise HardwareError(
        f"`{name}` in the hardware file `{path}` cannot be used: {reason}", [f"write it as the entries of {SHIPPED_FILE.name}"]
    )


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
