"""The physical device at each position of a mesh: its number, its host or slice, its coordinates. Numbers and names only."""

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.axis_placement import device_order
from workbench.hardware.hardware import Hardware


class DeviceLocation(NamedTuple):
    """A physical device; `number` is the one in the hardware's own order, that of `jax.devices()` on one slice or its nodes; `places` are
    along its axes."""

    number: int
    places: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """`#12 node 1 device 4`, `#21 x1 y0 z5`."""
        words = (f"{name}{place}" if len(name) == 1 else f"{name} {place}" for name, place in self.places)
        return " ".join([f"#{self.number}", *words])


def locate_devices(
    mesh: Mesh, hardware: Hardware | None, axis_assignment: AxisAssignment | None = None
) -> Callable[[int], DeviceLocation] | None:
    """The physical device by number in the mesh, row-major; `None` without hardware, or where the mesh does not fit it."""
    if hardware is None or hardware.size < mesh.size:
        return None
    try:
        order = device_order(mesh, hardware, axis_assignment).reshape(-1)
    except HardwareError:
        return None
    axes = [(axis.name, axis.size) for axis in hardware.axes]

    def find(device: int) -> DeviceLocation:
        number = int(order[device])
        places = []
        for place, (name, size) in enumerate(axes):
            minor = prod(each for _, each in axes[place + 1 :])
            if size > 1:
                places.append((name, number // minor % size))
        return DeviceLocation(number, tuple(places))

    return find
