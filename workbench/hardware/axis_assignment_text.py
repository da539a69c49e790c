"""Axis assignments in text form: the physical axes of each mesh axis. `axis_placement` computes the device positions.

data:y; model:x                       `data` runs over the devices of `y`, `model` over those of `x`
data:x+y; model:z                     `data` is spread over two dimensions of a torus, major to minor
data:node+device(2); model:device(4)  two mesh axes share `device`: 4 neighbours are `model`, every fourth device is `data`
"""

import re
from dataclasses import dataclass

from workbench.core.mesh import Mesh
from workbench.errors import HardwareError, wrong_type

_ROUTE = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(?:\((\d{1,9})\))?")


@dataclass(frozen=True, slots=True)
class Route:
    """A part of a mesh axis on a physical axis, with `size` devices, or as many as needed if `None`."""

    axis: str
    size: int | None = None

    def __str__(self) -> str:
        return self.axis if self.size is None else f"{self.axis}({self.size})"


@dataclass(frozen=True, slots=True)
class AxisAssignment:
    """The routes of each mesh axis, major to minor; axes without routes are placed automatically.

    **Invariants**

    - A mesh axis is named once and has at least one route; a route with a size has at least one device.
    """

    routes: tuple[tuple[str, tuple[Route, ...]], ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.routes]
        for name, routes in self.routes:
            if names.count(name) > 1:
                raise HardwareError(f"The axis assignment names `{name}` twice.", ["write each mesh axis once, `data:x+y`"])
            if not routes:
                raise HardwareError(f"The axis assignment has no physical axis for `{name}`.", [f"omit `{name}`", f"write `{name}:x`"])
            for route in routes:
                if route.size is not None and route.size < 1:
                    raise HardwareError(
                        f"The axis assignment puts `{name}` on {route.size} devices of `{route.axis}`; at least 1 is required.",
                        [f"omit the number: `{name}:{route.axis}`", f"write `{name}:{route.axis}(2)`"],
                    )

    def renamed(self, axis: str, name: str) -> "AxisAssignment":
        return AxisAssignment(tuple((name if mesh_axis == axis else mesh_axis, routes) for mesh_axis, routes in self.routes))

    def restricted(self, mesh: Mesh) -> "AxisAssignment":
        return AxisAssignment(tuple((name, routes) for name, routes in self.routes if name in mesh))

    def __str__(self) -> str:
        return "; ".join(f"{name}:{'+'.join(map(str, routes))}" for name, routes in self.routes)


def parse_axis_assignment(text: str) -> AxisAssignment:
    """Parse an axis assignment; `str` is the inverse. Raises `HardwareError` if the text is malformed.

    >>> str(parse_axis_assignment("data: node + device(2);model:device(4)"))
    'data:node+device(2); model:device(4)'
    """
    entries = []
    for entry in filter(str.strip, text.split(";")):
        name, colon, routes = (part.strip() for part in entry.partition(":"))
        matches = [_ROUTE.fullmatch(route.strip()) for route in routes.split("+")]
        if not colon or not name or None in matches:
            raise HardwareError(
                f"`{entry.strip()[:80]}` is not a part of an axis assignment.", ['write "data:x+y; model:z"', 'or "data:node+device(2)"']
            )
        entries.append((name, tuple(Route(match[1], int(match[2]) if match[2] else None) for match in matches if match)))
    return AxisAssignment(tuple(entries))


def read_axis_assignment(given: AxisAssignment | str | None) -> AxisAssignment | None:
    """Return an axis assignment given as text or object. Raises `HardwareError` for anything else."""
    if given is None or isinstance(given, AxisAssignment):
        return given
    if isinstance(given, str):
        return parse_axis_assignment(given)
    raise HardwareError(wrong_type("axis_assignment", given, "text or an `AxisAssignment`"), ['write "data:x+y; model:z"'])
