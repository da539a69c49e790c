"""Ways to lay the axes of a mesh on the links of the hardware."""

from functools import lru_cache
from itertools import permutations

from workbench.core.mesh import Mesh
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.axis_placement import complete_axis_assignment, physical_spans
from workbench.hardware.hardware import Hardware


@lru_cache(maxsize=1 << 12)
def list_axis_assignments(mesh: tuple[tuple[str, int], ...], hardware: Hardware) -> tuple[str, ...]:
    """The assignments of a mesh's axes to the hardware's that differ, each as text: in every order one axis after the other takes the
    best links that are left (`default_axis_assignment`, whose own is left out, lets the minor one choose first).

    >>> from workbench.hardware.catalogue import parse_hardware
    >>> list_axis_assignments((("data", 4), ("model", 2)), parse_hardware("8 H100"))
    ('model:device; data:device',)
    """
    large = tuple(axis for axis in mesh if axis[1] > 1)
    try:
        seen = {_places(large, hardware, None)}
    except HardwareError:
        return ()
    found = []
    for order in permutations(large):
        try:
            assignment = complete_axis_assignment(Mesh(order), hardware)
        except HardwareError:
            continue
        places = _places(large, hardware, assignment)
        if places not in seen:
            seen.add(places)
            found.append(str(assignment))
    return tuple(found)


def _places(mesh: tuple[tuple[str, int], ...], hardware: Hardware, assignment: AxisAssignment | None) -> tuple[object, ...]:
    return tuple(sorted(physical_spans(Mesh(mesh), hardware, assignment).items()))
