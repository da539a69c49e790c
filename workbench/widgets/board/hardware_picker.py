"""The hardware picker: from the user's choice or text to `Hardware`, and the JSON of the control.

A chip is chosen from the catalogue; the field beside it holds only the shape, `8x8x16` or `32 nodes of 8`, or the whole name;
options may follow, `32 nodes of 8, node=200 Gb/s`.
"""

import functools
import itertools
import re
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from typing import Any

from workbench.core.mesh import Mesh
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import AxisAssignment, Route
from workbench.hardware.axis_placement import PhysicalSpan, axis_assignment_error, default_axis_assignment, physical_spans
from workbench.hardware.catalogue import default_catalogue, parse_hardware
from workbench.hardware.catalogue_entry import CatalogueEntry
from workbench.hardware.hardware import AxisTopology, Hardware
from workbench.hardware.hardware_options import apply_option
from workbench.hardware.interconnect import Node
from workbench.hardware.link_and_price import split_options
from workbench.plan.plan import Plan
from workbench.units import divisors, format_bytes, format_count, format_seconds
from workbench.visualize.draw.palette import AXES
from workbench.widgets.board.chip_menus import item
from workbench.widgets.gestures.setup_gestures import HARDWARE_ZONE, AxisAssignmentGesture, HardwareGesture

NONE = "no hardware"
MOST_SHAPES = 8
_TORUS = re.compile(r"(\d{1,7} +slices? +of +)?(\d{1,7}(?:x\d{1,7})*)", re.IGNORECASE)
_NODES = re.compile(r"(?:(\d{1,7})(?: +nodes? +of +| *x *))?(\d{1,7})", re.IGNORECASE)


def hardware_of(chip: str, shape: str, mesh: Mesh) -> Hardware | None:
    """The hardware of a chip and a shape: `None` without both, the nearest shape for the mesh if only a chip is given. Raises
    `HardwareError`.

    >>> str(hardware_of("TPU v5e", "", Mesh("data:4 model:2"))), str(hardware_of("H100", "4x8", Mesh("data:32")))
    ('TPU v5e 2x4', '4 nodes of 8 H100')
    """
    shape = " ".join(shape.split())
    if not chip:
        return parse_hardware(shape) if shape else None
    entry = default_catalogue()[chip]
    if not shape:
        found = shapes_for(entry, mesh)
        return parse_hardware(found[0] if found else entry.example)
    return parse_hardware(_whole(entry, shape))


def hardware_state(plan: Plan, asked: tuple[str, str] | None = None) -> dict[str, Any]:
    """The control; `asked` are the chip and the shape of a refused choice, which stay in the fields until they are corrected."""
    hardware = plan.hardware
    known = tuple(default_catalogue().entries)
    chip = hardware.chip.name if hardware else ""
    own = (chip,) if chip and chip not in known else ()
    problem = hardware and axis_assignment_error(plan.mesh, hardware, plan.axis_assignment)
    shown = asked or (chip, shape_of(hardware) if hardware else "")
    return {
        "zone": HARDWARE_ZONE,
        "name": str(hardware or ""),
        "chips": [{"name": name, "label": name or NONE} for name in ("", *own, *known)],
        "chip": shown[0] if shown[0] in ("", *own, *known) else "",
        "shape": shown[1],
        "example": "32 nodes of 8 H100" if not chip else "",
        "facts": _facts(hardware) if hardware else "Choose hardware to see step time and memory use.",
        "title": _title(hardware) if hardware else "",
        "attached": None,  # what a board offers in its place
        "shapes": _shape_menu(shown[0], plan.mesh, hardware),
        "problem": problem.message if problem else "",
        "mends": _shape_menu(chip, plan.mesh, hardware)[:2] if problem else [],
        "wiring": axis_assignment_state(plan) if hardware and not problem else [],
        "wirings": axis_assignment_menu(plan) if hardware and not problem else [],
    }


def shape_of(hardware: Hardware) -> str:
    """The text of the field beside the chip.

    >>> shape_of(parse_hardware("4 slices of TPU v5e 16x16")), shape_of(parse_hardware("32 nodes of 8 H100, node=200 Gb/s"))
    ('4 slices of 16x16', '32 nodes of 8, node=200 Gb/s')
    """
    text = " ".join(str(hardware).replace(hardware.chip.name, " ").split())
    return text.replace(" ,", ",", 1) or str(hardware)


@functools.lru_cache(maxsize=256)
def shapes_for(entry: CatalogueEntry, mesh: Mesh) -> tuple[str, ...]:
    """Hardware of this kind that a mesh fills, as a person writes it, the most compact first; the next larger ones if it fills none."""
    for size in (mesh.size * times for times in range(1, 33)):
        found = [text for text in dict.fromkeys(_shapes(entry, size)) if axis_assignment_error(mesh, parse_hardware(text)) is None]
        if found:
            return tuple(found[:MOST_SHAPES])
    return ()


def _shapes(entry: CatalogueEntry, size: int) -> Iterator[str]:
    """All hardware of this kind with so many devices: one slice or node before several, cubes before long shapes."""
    network = entry.network
    if isinstance(network, Node):
        yield from (_node_text(entry, size // count, count) for count in divisors(size) if size // count <= network.size)
        return
    for count in divisors(size):
        chips, rest = divmod(size // count, entry.devices)
        if rest or chips > network.chips or count > 64:
            continue
        for sides in sorted(set(_sides(chips, network.rank)), key=lambda sides: (max(sides) / min(sides), sides)):
            if max(sides) <= network.side:
                ordered = (*(side for side in sides if side > 1), *(side for side in sides if side == 1))  # `2x2x1`, as they are sold
                text = f"{entry.name} {'x'.join(map(str, ordered))}"
                yield text if count == 1 else f"{count} slices of {text}"


def _sides(chips: int, rank: int, least: int = 1) -> Iterator[tuple[int, ...]]:
    """`chips` as a product of `rank` ascending sides."""
    if rank == 1:
        yield from [(chips,)] if chips >= least else []
        return
    for side in divisors(chips):
        if side >= least and side**rank <= chips:
            yield from ((side, *others) for others in _sides(chips // side, rank - 1, side))


def _whole(entry: CatalogueEntry, shape: str) -> str:
    """The shape with the chip's name in it, options kept; what is no shape is taken as the whole name."""
    shape, comma, options = shape.partition(",")
    return f"{_whole_devices(entry, shape.rstrip())}{comma}{options}"


def _whole_devices(entry: CatalogueEntry, shape: str) -> str:
    if isinstance(entry.network, Node):
        if match := _NODES.fullmatch(shape):
            return _node_text(entry, int(match[2]), int(match[1]) if match[1] else 1)
    elif match := _TORUS.fullmatch(shape):
        return f"{match[1] or ''}{entry.name} {match[2]}"
    try:
        return str(parse_hardware(shape))
    except HardwareError as error:
        example = shape_of(parse_hardware(entry.example))
        several = f"4 nodes of {example}" if isinstance(entry.network, Node) else f"4 slices of {example}"
        if not re.match(r"\d", shape) and re.search(r"\d", shape):  # it names another kind of device
            raise
        raise HardwareError(f"`{shape[:80]}` is not a shape of {entry.name}.", [f'write "{example}"', f'"{several}"']) from error


def _node_text(entry: CatalogueEntry, devices: int, count: int) -> str:
    return f"{count} nodes of {devices} {entry.name}" if count > 1 else f"{devices} {entry.name}"


def _shape_menu(chip: str, mesh: Mesh, hardware: Hardware | None) -> list[dict[str, Any]]:
    """Shapes that match the mesh, with the options of the hardware there is; without a chip, one of each kind."""
    entries = default_catalogue().entries
    if chip in entries:
        texts = tuple(_with_options_of(hardware, text) for text in shapes_for(entries[chip], mesh))
    else:
        texts = tuple(found[0] for entry in entries.values() if (found := shapes_for(entry, mesh)))
    notes = (f"{parse_hardware(text).size:,} devices" for text in texts)
    return [{**item(text, HardwareGesture("", text)), "note": note} for text, note in zip(texts, notes, strict=True)]


def _with_options_of(hardware: Hardware | None, text: str) -> str:
    """Hardware with the options of other hardware of its kind, as far as it can have them: one node has no link between nodes."""
    found = parse_hardware(text)
    options = split_options(str(hardware))[1:] if hardware and hardware.chip.name == found.chip.name else []
    for option in options:
        with suppress(HardwareError):
            found = apply_option(found, option)
    return str(found)


def _facts(hardware: Hardware) -> str:
    chip = hardware.chip
    rate = format_count(chip.peak("bfloat16"), "FLOP/s")
    devices = f"{hardware.size:,} device{'s' * (hardware.size != 1)}"
    return f"{devices}, each {format_bytes(chip.memory)} at {format_count(chip.memory_bandwidth, 'B/s')} and {rate}"


def _title(hardware: Hardware) -> str:
    chip = hardware.chip
    peaks = ", ".join(f"{dtype} {format_count(rate, 'FLOP/s')}" for dtype, rate in chip.flops.items())
    links = "; ".join(
        f"{axis.name}: {axis.shape} of {axis.size}, {format_count(axis.link.bandwidth, 'B/s')} a link one way, "
        f"{format_seconds(axis.link.latency)} a hop"
        for axis in hardware.axes
    )
    per_device = prod(axis.size for axis in hardware.axes)
    return (
        f"{hardware}, {per_device:,} devices. Peak: {peaks}. Links: {links}. Each number and its source: `workbench hardware {chip.name}`"
    )


# Which mesh axis runs over which links, as the board shows and offers it.

MOST_AXIS_ASSIGNMENTS = 8
_MOST_TRIES = 600  # axis assignments tried for the menu


def axis_assignment_state(plan: Plan) -> list[dict[str, Any]]:
    """For each mesh axis: the physical axes it runs over, and whether these are rings."""
    assert plan.hardware is not None
    spans = physical_spans(plan.mesh, plan.hardware, plan.axis_assignment)
    return [
        {
            "axis": name,
            "colour": place % len(AXES),
            "text": " + ".join(_span_text(each) for each in found),
            "title": f"{name}: " + "; ".join(_span_title(each) for each in found),
        }
        for place, name in enumerate(plan.mesh.names)
        if (found := tuple(each for each in spans[name] if each.size > 1))
    ]


def _span_text(each: PhysicalSpan) -> str:
    """`y (ring of 16)`, `device (4 on a switch)`, `device (2 on a switch, every 4th)`."""
    apart = f", every {_ordinal(each.stride)}" if each.stride > 1 else ""
    return f"{each.physical.name} ({_form(each)}{apart})"


def _form(each: PhysicalSpan) -> str:
    if each.physical.shape is AxisTopology.SWITCH:
        return f"{each.size} on a switch"
    closed = each.physical.shape is AxisTopology.RING and each.size * each.stride == each.physical.size
    return f"{AxisTopology.RING if closed else AxisTopology.LINE} of {each.size}"


def _span_title(each: PhysicalSpan) -> str:
    link = each.physical.link
    apart = f", each {each.stride} from the next" if each.stride > 1 else ""
    return (
        f"{each.size} of the {each.physical.size} devices of {each.physical.name}{apart}; {link.name}, "
        f"{format_count(link.bandwidth, 'B/s')} a link one way, {format_seconds(link.latency)} a hop"
    )


def _ordinal(count: int) -> str:
    ending = "th" if 10 < count % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


def axis_assignment_menu(plan: Plan) -> list[dict[str, Any]]:
    """Other axis assignments of the same mesh, the way back to the default, and one to type."""
    assert plan.hardware is not None
    now = str(plan.axis_assignment or default_axis_assignment(plan.mesh, plan.hardware))
    items = [item(text, AxisAssignmentGesture(text)) for text in axis_assignments_for(plan.mesh, plan.hardware) if text != now]
    if plan.axis_assignment is not None:
        items.insert(0, item("Automatic", AxisAssignmentGesture("")))
    return [*items, item("Write…", AxisAssignmentGesture(""), ask={"label": "Axes on links", "value": now, "verb": "Assign"})]


@functools.lru_cache(maxsize=64)
def axis_assignments_for(mesh: Mesh, hardware: Hardware) -> tuple[str, ...]:
    """Different axis assignments that fit, the default one first."""
    found: dict[tuple[Any, ...], str] = {}
    for axis_assignment in itertools.islice(_iterate_assignments(mesh, hardware), _MOST_TRIES):
        if axis_assignment_error(mesh, hardware, axis_assignment) is None:
            spans = physical_spans(mesh, hardware, axis_assignment)
            found.setdefault(tuple(tuple(each for each in spans[name] if each.size > 1) for name in mesh.names), str(axis_assignment))
        if len(found) == MOST_AXIS_ASSIGNMENTS:
            break
    return tuple(found.values())


def _iterate_assignments(mesh: Mesh, hardware: Hardware) -> Iterator[AxisAssignment]:
    """The default, then every axis on one physical axis or on two; what does not fit alone is not combined with others."""
    if axis_assignment_error(mesh, hardware) is None:
        yield default_axis_assignment(mesh, hardware)
    large = [name for name, size in mesh.axes if size > 1]
    physical = [axis.name for axis in hardware.axes if axis.size > 1]
    routes = [(one,) for one in physical] + list(itertools.permutations(physical, 2))
    entries = []
    for name in large:
        tried = ((name, tuple(Route(axis) for axis in each)) for each in routes)
        entries.append([entry for entry in tried if axis_assignment_error(mesh, hardware, AxisAssignment((entry,))) is None])
    yield from (AxisAssignment(chosen) for chosen in itertools.product(*entries))
