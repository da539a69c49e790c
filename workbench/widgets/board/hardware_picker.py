"""The hardware picker: parses a chip and a shape (`8x8x16`, `32 nodes of 8, node=200 Gb/s`), and describes the control."""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import prod
from typing import Any

from workbench.core.mesh import Mesh
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import AxisAssignment, Route
from workbench.hardware.axis_placement import PhysicalSpan, axis_assignment_error, default_axis_assignment, physical_spans
from workbench.hardware.catalogue import default_catalogue, parse_hardware
from workbench.hardware.catalogue_entry import CatalogueEntry, Node
from workbench.hardware.hardware import AxisTopology, Hardware
from workbench.hardware.hardware_options import apply_option
from workbench.hardware.link_and_price import split_options
from workbench.plan.plan import Plan
from workbench.units import divisors, format_bytes, format_count, format_seconds
from workbench.widgets.board.chip_menus import item
from workbench.widgets.gestures.setup_gestures import HARDWARE_ZONE, AxisAssignmentGesture, HardwareGesture

NONE = "no hardware"
MOST_SHAPES = 8
_TORUS = re.compile(r"(\d{1,7} +slices? +of +)?(\d{1,7}(?:x\d{1,7})*)", re.IGNORECASE)
_NODES = re.compile(r"(?:(\d{1,7})(?: +nodes? +of +| *x *))?(\d{1,7})", re.IGNORECASE)


def hardware_of(chip: str, shape: str, mesh: Mesh) -> Hardware | None:
    """Return the hardware of a chip and a shape: `None` without both, the nearest shape for the mesh if only a chip is
    given.

    Raises `HardwareError` if the text is not valid hardware.

    >>> str(hardware_of("TPU v5e", "", Mesh("data:4 model:2"))), str(hardware_of("H100", "4x8", Mesh("data:32")))
    ('TPU v5e 2x4', '4 nodes of 8 H100')
    """
    shape = " ".join(shape.split())
    if not chip:
        return parse_hardware(shape) if shape else None
    entry = default_catalogue()[chip]
    if not shape:
        shapes = shapes_for(entry, mesh)
        return parse_hardware(shapes[0] if shapes else entry.example)
    return parse_hardware(_whole(entry, shape))


def hardware_state(plan: Plan, colours: Mapping[str, int], asked: tuple[str, str] | None = None) -> dict[str, Any]:
    """Describe the control, with mesh axes in `colours`; `asked` are the chip and shape of a refused choice, which stay in the fields."""
    hardware = plan.hardware
    listed = tuple(default_catalogue().entries)
    chip = hardware.chip.name if hardware else ""
    unlisted = (chip,) if chip and chip not in listed else ()
    problem = hardware and axis_assignment_error(plan.mesh, hardware, plan.axis_assignment)
    shown = asked or (chip, shape_of(hardware) if hardware else "")
    return {
        "zone": HARDWARE_ZONE,
        "name": str(hardware or ""),
        "chips": [{"name": name, "label": name or NONE} for name in ("", *unlisted, *listed)],
        "chip": shown[0] if shown[0] in ("", *unlisted, *listed) else "",
        "shape": shown[1],
        "example": "32 nodes of 8 H100" if not chip else "",
        "facts": _facts(hardware) if hardware else "Choose hardware to see the step time and whether the plan fits.",
        "title": _title(hardware) if hardware else "",
        "attached": None,  # offered by a board for a plan without hardware
        "shapes": _shape_menu(shown[0], plan.mesh, hardware),
        "problem": problem.message if problem else "",
        "mends": _shape_menu(chip, plan.mesh, hardware)[:2] if problem else [],
        "wiring": axis_assignment_state(plan, colours) if hardware and not problem else [],
        "wirings": axis_assignment_menu(plan) if hardware and not problem else [],
    }


def shape_of(hardware: Hardware) -> str:
    """Return the text of the shape field.

    >>> shape_of(parse_hardware("4 slices of TPU v5e 16x16")), shape_of(parse_hardware("32 nodes of 8 H100, node=200 Gb/s"))
    ('4 slices of 16x16', '32 nodes of 8, node=200 Gb/s')
    """
    text = " ".join(str(hardware).replace(hardware.chip.name, " ").split())
    return text.replace(" ,", ",", 1) or str(hardware)


@functools.lru_cache(maxsize=256)
def shapes_for(entry: CatalogueEntry, mesh: Mesh) -> tuple[str, ...]:
    """List hardware of this kind that a mesh fills, most compact first; the next larger ones if it fills none."""
    for size in (mesh.size * times for times in range(1, 33)):
        shapes = [text for text in dict.fromkeys(_shapes(entry, size)) if axis_assignment_error(mesh, parse_hardware(text)) is None]
        if shapes:
            return tuple(shapes[:MOST_SHAPES])
    return ()


def _shapes(entry: CatalogueEntry, size: int) -> Iterator[str]:
    """Yield all hardware of this kind with `size` devices: one slice or node before several, cubes before long shapes."""
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
    if rank == 1:
        yield from [(chips,)] if chips >= least else []
        return
    for side in divisors(chips):
        if side >= least and side**rank <= chips:
            yield from ((side, *others) for others in _sides(chips // side, rank - 1, side))


def _whole(entry: CatalogueEntry, shape: str) -> str:
    """Insert the chip's name into a shape and keep the options; any other text is taken as the whole name."""
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
        if not re.match(r"\d", shape) and re.search(r"\d", shape):  # names another kind of device
            raise
        raise HardwareError(f"`{shape[:80]}` is not a shape of {entry.name}.", [f'write "{example}"', f'"{several}"']) from error


def _node_text(entry: CatalogueEntry, devices: int, count: int) -> str:
    return f"{count} nodes of {devices} {entry.name}" if count > 1 else f"{devices} {entry.name}"


def _shape_menu(chip: str, mesh: Mesh, hardware: Hardware | None) -> list[dict[str, Any]]:
    """List shapes that match the mesh, with the options of the present hardware; without a chip, one of each kind."""
    entries = default_catalogue().entries
    if chip in entries:
        texts = tuple(_with_options_of(hardware, text) for text in shapes_for(entries[chip], mesh))
    else:
        texts = tuple(shapes[0] for entry in entries.values() if (shapes := shapes_for(entry, mesh)))
    notes = (f"{parse_hardware(text).size:,} devices" for text in texts)
    return [{**item(text, HardwareGesture("", text)), "note": note} for text, note in zip(texts, notes, strict=True)]


def _with_options_of(hardware: Hardware | None, text: str) -> str:
    """Apply the options of other hardware of the same kind where possible: a single node has no link between nodes."""
    result = parse_hardware(text)
    options = split_options(str(hardware))[1:] if hardware and hardware.chip.name == result.chip.name else []
    for option in options:
        with suppress(HardwareError):
            result = apply_option(result, option)
    return str(result)


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


# Assignment of mesh axes to links, as the board shows and offers it.

MOST_AXIS_ASSIGNMENTS = 8
_MOST_TRIES = 600  # axis assignments tried for the menu


def axis_assignment_state(plan: Plan, colours: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the physical axes of each mesh axis, and whether they are rings."""
    assert plan.hardware is not None
    spans = physical_spans(plan.mesh, plan.hardware, plan.axis_assignment)
    return [
        {
            "axis": name,
            "colour": colours[name],
            "text": " + ".join(_span_text(span) for span in axis_spans),
            "title": f"{name}: " + "; ".join(_span_title(span) for span in axis_spans),
        }
        for name in plan.mesh.names
        if (axis_spans := tuple(span for span in spans[name] if span.size > 1))
    ]


def _span_text(each: PhysicalSpan) -> str:
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
    """List other axis assignments of the mesh, a return to the default, and a text prompt."""
    assert plan.hardware is not None
    now = str(plan.axis_assignment or default_axis_assignment(plan.mesh, plan.hardware))
    items = [item(text, AxisAssignmentGesture(text)) for text in axis_assignments_for(plan.mesh, plan.hardware) if text != now]
    if plan.axis_assignment is not None:
        items.insert(0, item("Automatic", AxisAssignmentGesture("")))
    return [*items, item("Write…", AxisAssignmentGesture(""), ask={"label": "Axes on links", "value": now, "verb": "Assign"})]


@functools.lru_cache(maxsize=64)
def axis_assignments_for(mesh: Mesh, hardware: Hardware) -> tuple[str, ...]:
    """List distinct axis assignments that fit, the default one first."""
    assignments: dict[tuple[Any, ...], str] = {}
    for axis_assignment in itertools.islice(_iterate_assignments(mesh, hardware), _MOST_TRIES):
        if axis_assignment_error(mesh, hardware, axis_assignment) is None:
            spans = physical_spans(mesh, hardware, axis_assignment)
            assignments.setdefault(tuple(tuple(span for span in spans[name] if span.size > 1) for name in mesh.names), str(axis_assignment))
        if len(assignments) == MOST_AXIS_ASSIGNMENTS:
            break
    return tuple(assignments.values())


def _iterate_assignments(mesh: Mesh, hardware: Hardware) -> Iterator[AxisAssignment]:
    """Yield the default, then every axis on one or two physical axes; assignments that fail alone are not combined."""
    if axis_assignment_error(mesh, hardware) is None:
        yield default_axis_assignment(mesh, hardware)
    large = [name for name, size in mesh.axes if size > 1]
    physical = [axis.name for axis in hardware.axes if axis.size > 1]
    routes = [(one,) for one in physical] + list(itertools.permutations(physical, 2))
    entries = []
    for name in large:
        candidates = ((name, tuple(Route(axis) for axis in route)) for route in routes)
        entries.append([entry for entry in candidates if axis_assignment_error(mesh, hardware, AxisAssignment((entry,))) is None])
    yield from (AxisAssignment(chosen) for chosen in itertools.product(*entries))
