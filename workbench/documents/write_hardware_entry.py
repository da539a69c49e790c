"""Write measured hardware as an entry of a hardware file, which `WORKBENCH_HARDWARE` or `--hardware-file` names."""

import json
import math
from collections.abc import Iterator, Mapping

from workbench.hardware.hardware import Hardware

_NETWORK = "{ bandwidth = 1.25e9, latency = 50e-6 }"
_MEASURED = "measured by `workbench calibrate`"
_LARGEST_NODE = 4096  # largest number of virtual devices


def hardware_entry(hardware: Hardware, name: str = "This machine") -> str:
    """The TOML of one entry, from the measurements of `engine.calibrate`: a node of any number of such devices.

    `parse_hardware("8 This machine")` reads it back.
    """
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
