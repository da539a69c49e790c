"""Geometry: the part of a tensor each device holds, which devices of a large mesh are shown. Numbers only."""

import math
import re
from dataclasses import dataclass

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size, base_axis
from workbench.reports.placement import Placement


@dataclass(frozen=True, slots=True)
class DeviceShard:
    """The part of a tensor of this shape that one device holds.

    - `ranges`: first and past-the-last index in each dimension, padding left out (an uneven split may leave a device nothing);
    - `first`: the lowest device that holds the same part.
    """

    device: int
    shape: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    first: int

    @property
    def is_copy(self) -> bool:
        return self.device != self.first

    @property
    def index(self) -> str:
        """As one would write it after the tensor's name: `[:, 0:14, 7:14, :]`; `[...]` for a scalar."""
        words = (":" if range_ == (0, size) else "{}:{}".format(*range_) for range_, size in zip(self.ranges, self.shape, strict=True))
        return f"[{', '.join(words) or '...'}]"


@dataclass(frozen=True, slots=True)
class UnitRect:
    """A rectangle in the unit square, from its left top corner."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Projection:
    """A tensor of any rank as a square: dimensions that are split, the first downwards and the others, nested, to the right.

    A single split dimension goes to the right, unless it is the first of several.
    """

    down: tuple[int, ...]
    right: tuple[int, ...]

    def box(self, part: DeviceShard) -> UnitRect:
        """The box of a part. The boxes of all parts tile the square as the parts tile the tensor."""
        top, bottom = _nested_interval(part, self.down)
        left, right = _nested_interval(part, self.right)
        return UnitRect(left, top, right, bottom)

    def bands(self, part: DeviceShard) -> tuple[tuple[int, UnitRect], ...]:
        """For each split dimension its interval of the square, within those drawn before it in its direction; their intersection is the
        part."""
        falling = ((dim, _nested_interval(part, self.down[: place + 1])) for place, dim in enumerate(self.down))
        across = ((dim, _nested_interval(part, self.right[: place + 1])) for place, dim in enumerate(self.right))
        return (
            *((dim, UnitRect(0.0, start, 1.0, stop)) for dim, (start, stop) in falling),
            *((dim, UnitRect(start, 0.0, stop, 1.0)) for dim, (start, stop) in across),
        )


@dataclass(frozen=True, slots=True)
class Grid:
    """A mesh as a grid: its first `falling` axes run downwards, the others to the right. `None` stands for rows or columns left out."""

    mesh: Mesh
    falling: int
    rows: tuple[int | None, ...]
    columns: tuple[int | None, ...]

    @property
    def row_axes(self) -> tuple[str, ...]:
        return self.mesh.names[: self.falling]

    @property
    def column_axes(self) -> tuple[str, ...]:
        return self.mesh.names[self.falling :]

    @property
    def width(self) -> int:
        """Devices in a row."""
        return math.prod(self.mesh.sizes[self.falling :])

    @property
    def note(self) -> str:
        """What is left out; empty if nothing is."""
        if None not in self.rows + self.columns:
            return ""
        seen = sum(row is not None and column is not None for row in self.rows for column in self.columns)
        return f"{seen} of {self.mesh.size:,} devices are shown: the first ones and the last"

    def device(self, row: int, column: int) -> int:
        return row * self.width + column

    def row_name(self, row: int) -> str:
        """`x 0, y 1`: the position of a row on the axes that run downwards."""
        return self._name(self.row_axes, self.device(row, 0))

    def column_name(self, column: int) -> str:
        """The position of a column on the axes that run to the right."""
        return self._name(self.column_axes, column)

    def _name(self, axes: tuple[str, ...], device: int) -> str:
        place = self.mesh.coordinates(device)
        return ", ".join(f"{axis} {place[axis]}" for axis in axes)


def part_of(placement: Placement, device: int) -> DeviceShard:
    """The part that device number `device` (row-major in the mesh) holds of a sharded tensor."""
    mesh, shape = placement.mesh, placement.tensor.shape
    first, ranges = 0, []
    for size, local, axes in zip(shape, placement.local_shape, placement.sharding.dims, strict=True):
        place = 0
        for axis in axes or ():
            stride, width = _stride(axis, mesh), axis_size(axis, mesh)
            digit = device // stride % width
            place = place * width + digit
            first += digit * stride
        ranges.append((min(place * local, size), min((place + 1) * local, size)))
    return DeviceShard(device, shape, tuple(ranges), first)


def count_parts(placement: Placement) -> int:
    """The number of different parts; each is on `mesh.size / count` devices."""
    return math.prod(placement.sharding.parts(placement.mesh))


def projection(placement: Placement) -> Projection:
    """Which dimensions are drawn downwards and which to the right."""
    split = tuple(dim for dim, parts in enumerate(placement.sharding.parts(placement.mesh)) if parts > 1)
    falls = len(split) > 1 or (split == (0,) and len(placement.tensor.shape) > 1)
    return Projection(split[:falls], split[falls:])


def grid(mesh: Mesh, most_rows: int, most_columns: int, falling: int | None = None) -> Grid:
    """The rows and columns of a mesh, limited to as many as fit; all axes but the last run downwards by default."""
    falling = max(len(mesh.axes) - 1, 0) if falling is None else falling
    columns = math.prod(mesh.sizes[falling:])
    return Grid(mesh, falling, choose_shown(mesh.size // columns, most_rows), choose_shown(columns, most_columns))


def choose_shown(count: int, most: int) -> tuple[int | None, ...]:
    """All of `count` places if no more than `most` (at least 3), else the first ones, a gap, and the last.

    >>> choose_shown(3, 4), choose_shown(64, 4)
    ((0, 1, 2), (0, 1, None, 63))
    """
    most = max(most, 3)
    return tuple(range(count)) if count <= most else (*range(most - 2), None, count - 1)


def _nested_interval(part: DeviceShard, dims: tuple[int, ...]) -> tuple[float, float]:
    """The interval of [0, 1] for the ranges of `dims`, each dimension nested in the one before it.

    It is rounded once, at the end: so one interval within another ends where that ends, and not a rounding error behind it.
    """
    start, stop, whole = 0, 1, 1
    for dim in dims:
        low, high = part.ranges[dim]
        size, length = part.shape[dim] or 1, stop - start
        start, stop, whole = start * size + length * low, start * size + length * high, whole * size
    return start / whole, stop / whole


def _stride(axis: str, mesh: Mesh) -> int:
    """The difference of the device numbers of neighbours on a mesh axis, or on a Shardy sub-axis (`x:(2)4`)."""
    base = base_axis(axis)
    minor = math.prod(mesh.sizes[mesh.names.index(base) + 1 :])
    if base == axis:
        return minor
    major = re.findall(r"\d+", axis.removeprefix(base))[0]
    return minor * mesh[base] // (int(major) * axis_size(axis, mesh))
