"""Text views of the hardware catalogue: a table of all kinds, and all figures of one kind with their sources."""

from collections.abc import Iterable
from math import isfinite

from workbench.core.mesh import Mesh
from workbench.core.text_tables import pairs_text, table_text
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.axis_placement import PhysicalSpan, axis_assignment_error, physical_spans
from workbench.hardware.catalogue import Catalogue, parse_hardware
from workbench.hardware.catalogue_entry import CatalogueEntry
from workbench.hardware.hardware import AxisTopology, Hardware, Link
from workbench.hardware.runtime import SWITCHES, Runtime
from workbench.units import format_bytes, format_count, format_dollars, format_seconds, price_text

_SHAPES = {AxisTopology.RING: "a ring", AxisTopology.LINE: "a line", AxisTopology.SWITCH: "through a switch"}


def catalogue_text(catalogue: Catalogue) -> str:
    """Table with one row per kind; rates are per JAX device."""
    rows = []
    for entry in catalogue.entries.values():
        chip = entry.chip
        device = "half a chip" if entry.devices == 2 else "a chip"
        links = parse_hardware(entry.example, catalogue).axes
        rows.append(
            (
                entry.name,
                device,
                format_count(chip.peak("bfloat16"), "FLOP/s"),
                format_bytes(chip.memory),
                _rate_text(chip.memory_bandwidth),
                _rate_text(links[0].link.bandwidth),
                entry.example,
            )
        )
    table = table_text(["kind", "device", "bfloat16>", "memory>", "bandwidth>", "a link>", "write"], rows)
    return f'{table}\n\n`workbench hardware "NAME"` lists the source of each number.'


def hardware_text(text: str, catalogue: Catalogue) -> str:
    """Describe `TPU v5p`, or a size of it, `TPU v5p 8x8x16`. Raises `HardwareError` if it is unknown."""
    try:
        entry = catalogue[text]
    except HardwareError:
        hardware = parse_hardware(text, catalogue)
        head = f"{hardware}: {hardware.size:,} device{'s' * (hardware.size != 1)}{_price_text(hardware)}\n\n{_axes_text(hardware)}"
        return f"{head}\n\n{_runtime_text(hardware.runtime)}{entry_text(catalogue[hardware.chip.name])}"
    return entry_text(entry)


def axis_assignment_text(mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None) -> str:
    """Links of mesh axes: `data over y (16, a ring) · model over x (4, a line)`; empty if it does not fit."""
    if axis_assignment_error(mesh, hardware, axis_assignment):
        return ""
    routes = physical_spans(mesh, hardware, axis_assignment)
    return " · ".join(f"{name} over {' and '.join(map(physical_span_text, routes[name]))}" for name, size in mesh.axes if size > 1)


def physical_span_text(physical_span: PhysicalSpan) -> str:
    axis = physical_span.physical
    closed = axis.shape is AxisTopology.RING and physical_span.size * physical_span.stride == axis.size
    shape = axis.shape if closed or axis.shape is AxisTopology.SWITCH else AxisTopology.LINE
    stride_text = f", {physical_span.stride} apart" if physical_span.stride > 1 and axis.shape is not AxisTopology.SWITCH else ""
    return f"{axis.name} ({physical_span.size}, {_SHAPES[shape]}{stride_text})"


def entry_text(entry: CatalogueEntry) -> str:
    """All figures of a kind of device, per device, with their sources."""
    note = f", {entry.devices} per chip; rates are per device, sources quote the chip" if entry.devices > 1 else ""
    return f"{entry.name}, one JAX device{note}\n\n{pairs_text(_figures(entry))}"


def _figures(entry: CatalogueEntry) -> Iterable[tuple[str, str, str]]:
    chip = entry.chip
    sources = dict(chip.sources)
    peaks = " · ".join(f"{dtype} {format_count(rate, 'FLOP/s')}" for dtype, rate in chip.flops.items())
    yield "matrix products", format_count(chip.peak("bfloat16"), "FLOP/s"), f"{peaks}. {sources.pop('flops', '')}"
    figures = {
        "vector": format_count(chip.vector_flops, "FLOP/s"),
        "memory": format_bytes(chip.memory),
        "memory_bandwidth": _rate_text(chip.memory_bandwidth),
        "launch": format_seconds(chip.launch),
        "host_memory": format_bytes(chip.host_memory),
        "host_bandwidth": _rate_text(chip.host_bandwidth),
        "matmul_tile": "×".join(map(str, chip.matmul_tile)) or "-",
        **({"sweep": f"{format_count(chip.sweep, 'elements')}/s"} if isfinite(chip.sweep) else {}),
    }
    for name, figure in figures.items():
        yield name.replace("_", " "), figure, sources.pop(name, "")
    if chip.price is not None:
        yield "price of a chip", price_text(chip.price), sources.pop("price", "")
    efficiencies = " · ".join(f"{work} {share:.0%}" for work, share in chip.efficiency.items()) or "100%"
    yield "efficiency", "", f"{efficiencies}. {sources.pop('efficiency', '')}"
    yield "calibrated", "", chip.calibrated or (f"no: shares of {chip.shares_of}" if chip.shares_of else "no")
    for link in entry.links:
        yield link.name, f"{_rate_text(link.bandwidth)}, {format_seconds(link.latency)}", f"{_link_facts(link)}{sources.pop(link.name, '')}"
    for name, source in sources.items():
        yield name.replace("_", " "), "", source


def _link_facts(link: Link) -> str:
    shares = {"all-reduces": link.reduces, "gathers": link.gathers}
    facts = [f"a step of a ring takes {format_seconds(link.overhead)} at least"] if link.overhead else []
    facts += [
        f"{kind} reach " + ", ".join(f"{share:.0%} over {devices:,}" for devices, share in measured)
        for kind, measured in shares.items()
        if measured
    ]
    return "; ".join(facts) + ". " if facts else ""


def _runtime_text(runtime: Runtime) -> str:
    if not runtime.source:
        return ""
    facts = {
        "a call of a kernel": format_seconds(runtime.dispatch),
        "a call of a collective": format_seconds(runtime.collective_dispatch),
        "reserved by its allocator": f"{runtime.reserved:.2f} times what is allocated",
        "options": " · ".join(SWITCHES),
    }
    return f"Runtime {runtime.name}: {runtime.source}\n\n{pairs_text((name, fact, '') for name, fact in facts.items())}\n\n"


def _price_text(hardware: Hardware) -> str:
    hourly = hardware.hourly_price
    return "" if hourly is None else f", {format_dollars(hourly)} per hour at {price_text(hardware.chip.price or 0)} a chip"


def _axes_text(hardware: Hardware) -> str:
    rows = [
        (
            axis.name,
            f"{axis.size:,}",
            _SHAPES[axis.shape],
            axis.link.name,
            _rate_text(axis.link.bandwidth),
            format_seconds(axis.link.latency),
        )
        for axis in hardware.axes
    ]
    return table_text(["physical axis", "devices>", "joined as", "by", "in one direction>", "a hop>"], rows)


def _rate_text(rate: float) -> str:
    return format_count(rate, "B/s")
