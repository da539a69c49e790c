"""Which mesh axis runs over which links, as the board shows and offers it."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from workbench.core.mesh import Mesh
from workbench.hardware.axis_assignment import Route, Wiring
from workbench.hardware.hardware import Hardware, Shape
from workbench.hardware.topology import PhysicalSpan, default_wiring, physical_spans, wiring_problem
from workbench.plan.plan import Plan
from workbench.units import format_count, format_seconds
from workbench.visualize.draw.palette import AXES
from workbench.widgets.board.menus import item
from workbench.widgets.gestures.target_hardware import WiringGesture

MOST_WIRINGS = 8
_MOST_TRIES = 600  # wirings looked at for the menu


def wiring_state(plan: Plan) -> list[dict[str, Any]]:
    """A mesh axis after the other: over which physical axes it runs, and how those are closed."""
    assert plan.hardware is not None
    wired = physical_spans(plan.mesh, plan.hardware, plan.wiring)
    return [
        {
            "axis": name,
            "colour": place % len(AXES),
            "text": " + ".join(_span_text(each) for each in found),
            "title": f"{name}: " + "; ".join(_span_title(each) for each in found),
        }
        for place, name in enumerate(plan.mesh.names)
        if (found := tuple(each for each in wired[name] if each.size > 1))
    ]


def _span_text(each: PhysicalSpan) -> str:
    """`y (ring of 16)`, `device (4 on a switch)`, `device (2 on a switch, every 4th)`."""
    apart = f", every {_ordinal(each.stride)}" if each.stride > 1 else ""
    return f"{each.physical.name} ({_form(each)}{apart})"


def _form(each: PhysicalSpan) -> str:
    if each.physical.shape is Shape.SWITCH:
        return f"{each.size} on a switch"
    closed = each.physical.shape is Shape.RING and each.size * each.stride == each.physical.size
    return f"{Shape.RING if closed else Shape.LINE} of {each.size}"


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


def wiring_menu(plan: Plan) -> list[dict[str, Any]]:
    """Other wirings of the same mesh, the way back to the default, and one to write."""
    assert plan.hardware is not None
    now = str(plan.wiring or default_wiring(plan.mesh, plan.hardware))
    items = [item(text, WiringGesture(text)) for text in wirings_for(plan.mesh, plan.hardware) if text != now]
    if plan.wiring is not None:
        items.insert(0, item("By itself", WiringGesture("")))
    return [*items, item("Write…", WiringGesture(""), ask={"label": "Wiring", "value": now, "verb": "Wire"})]


@functools.lru_cache(maxsize=64)
def wirings_for(mesh: Mesh, hardware: Hardware) -> tuple[str, ...]:
    """Wirings that fit and differ, the default one first."""
    found: dict[tuple[Any, ...], str] = {}
    for wiring in itertools.islice(_wirings(mesh, hardware), _MOST_TRIES):
        if wiring_problem(mesh, hardware, wiring) is None:
            wired = physical_spans(mesh, hardware, wiring)
            found.setdefault(tuple(tuple(each for each in wired[name] if each.size > 1) for name in mesh.names), str(wiring))
        if len(found) == MOST_WIRINGS:
            break
    return tuple(found.values())


def _wirings(mesh: Mesh, hardware: Hardware) -> Iterator[Wiring]:
    """The default, then every axis on one physical axis or on two; what does not fit by itself is not tried with others."""
    if wiring_problem(mesh, hardware) is None:
        yield default_wiring(mesh, hardware)
    large = [name for name, size in mesh.axes if size > 1]
    physical = [axis.name for axis in hardware.axes if axis.size > 1]
    routes = [(one,) for one in physical] + list(itertools.permutations(physical, 2))
    entries = []
    for name in large:
        tried = ((name, tuple(Route(axis) for axis in each)) for each in routes)
        entries.append([entry for entry in tried if wiring_problem(mesh, hardware, Wiring((entry,))) is None])
    yield from (Wiring(chosen) for chosen in itertools.product(*entries))
