"""Which mesh axis runs over which links, as the board shows and offers it."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from workbench.core.mesh import Mesh
from workbench.hardware.axis_assignment_text import AxisAssignment, Route
from workbench.hardware.axis_placement import PhysicalSpan, axis_assignment_error, default_axis_assignment, physical_spans
from workbench.hardware.hardware import AxisTopology, Hardware
from workbench.plan.plan import Plan
from workbench.units import format_count, format_seconds
from workbench.visualize.draw.palette import AXES
from workbench.widgets.board.menus import item
from workbench.widgets.gestures.hardware_choice import AxisAssignmentGesture

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
        items.insert(0, item("By itself", AxisAssignmentGesture("")))
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
