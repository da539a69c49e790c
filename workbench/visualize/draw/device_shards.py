"""Geometry of shards: the part of a tensor on each device, and the devices shown of a large mesh."""

import math
import re
from dataclasses import dataclass

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size, base_axis
from workbench.reports.placement import Placement


@dataclass(frozen=True, slots=True)
class DeviceShard:
    """The part of a tensor that one device holds.

    - `ranges`: start and end index per dimension, without padding; an uneven split may leave a device nothing;
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
        """The index expression: `[:, 0:14, 7:14, :]`, or `[...]` for a scalar."""
        words = (":" if range_ == (0, size) else "{}:{}".format(*range_) for range_, size in zip(self.ranges, self.shape, strict=True))
        return f"[{', '.join(words) or '...'}]"


@dataclass(frozen=True, slots=True)
class UnitRect:
    """A rectangle in the unit square; the origin is the top left corner."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Projection:
    """A tensor of any rank as a square: the first split dimension runs down, the others, nested, to the right.

    A single split dimension runs to the right, unless it is the first of several dimensions.
    """

    down: tuple[int, ...]
    right: tuple[int, ...]

    def box(self, part: DeviceShard) -> UnitRect:
        """The box of a shard. The boxes of all shards tile the square as the shards tile the tensor."""
        top, bottom = _nested_interval(part, self.down)
        left, right = _nested_interval(part, self.right)
        return UnitRect(left, top, right, bottom)

    def bands(self, part: DeviceShard) -> tuple[tuple[int, UnitRect], ...]:
        """The interval of each split dimension; the intersection of the intervals is the shard."""
        falling = ((dim, _nested_interval(part, self.down[: position + 1])) for position, dim in enumerate(self.down))
        across = ((dim, _nested_interval(part, self.right[: position + 1])) for position, dim in enumerate(self.right))
        return (
            *((dim, UnitRect(0.0, start, 1.0, stop)) for dim, (start, stop) in falling),
            *((dim, UnitRect(start, 0.0, stop, 1.0)) for dim, (start, stop) in across),
        )


@dataclass(frozen=True, slots=True)
class Grid:
    """A mesh as a grid: the first `falling` axes run down, the others to the right. `None` marks omitted lines."""

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
        """Devices per row."""
        return math.prod(self.mesh.sizes[self.falling :])

    @property
    def note(self) -> str:
        """A note on omitted devices; empty if all are shown."""
        if None not in self.rows + self.columns:
            return ""
        seen = sum(row is not None and column is not None for row in self.rows for column in self.columns)
        return f"{seen} of {self.mesh.size:,} devices are shown: the first ones and the last"

    def device(self, row: int, column: int) -> int:
        return row * self.width + column

    def row_name(self, row: int) -> str:
        """The position of a row on the downward axes, as in `x 0, y 1`."""
        return self._name(self.row_axes, self.device(row, 0))

    def column_name(self, column: int) -> str:
        return self._name(self.column_axes, column)

    def _name(self, axes: tuple[str, ...], device: int) -> str:
        coordinates = self.mesh.coordinates(device)
        return ", ".join(f"{axis} {coordinates[axis]}" for axis in axes)


def part_of(placement: Placement, device: int) -> DeviceShard:
    """The part of a sharded tensor on a device, by its row-major number in the mesh."""
    mesh, shape = placement.mesh, placement.tensor.shape
    first, ranges = 0, []
    for size, local, axes in zip(shape, placement.local_shape, placement.sharding.dims, strict=True):
        position = 0
        for axis in axes or ():
            stride, width = _stride(axis, mesh), axis_size(axis, mesh)
            digit = device // stride % width
            position = position * width + digit
            first += digit * stride
        ranges.append((min(position * local, size), min((position + 1) * local, size)))
    return DeviceShard(device, shape, tuple(ranges), first)


def count_parts(placement: Placement) -> int:
    """The number of distinct parts; each is on `mesh.size / count` devices."""
    return math.prod(placement.sharding.parts(placement.mesh))


def projection(placement: Placement) -> Projection:
    """The projection in which a sharded tensor is drawn."""
    split = tuple(dim for dim, parts in enumerate(placement.sharding.parts(placement.mesh)) if parts > 1)
    falls = len(split) > 1 or (split == (0,) and len(placement.tensor.shape) > 1)
    return Projection(split[:falls], split[falls:])


def grid(mesh: Mesh, most_rows: int, most_columns: int, falling: int | None = None) -> Grid:
    """The rows and columns of a mesh within a size limit; by default all axes but the last run down."""
    falling = max(len(mesh.axes) - 1, 0) if falling is None else falling
    columns = math.prod(mesh.sizes[falling:])
    return Grid(mesh, falling, elide_positions(mesh.size // columns, most_rows), elide_positions(columns, most_columns))


def elide_positions(count: int, most: int) -> tuple[int | None, ...]:
    """All of `count` positions if at most `most` (at least 3), else the first ones, a gap, and the last.

    >>> elide_positions(3, 4), elide_positions(64, 4)
    ((0, 1, 2), (0, 1, None, 63))
    """
    most = max(most, 3)
    return tuple(range(count)) if count <= most else (*range(most - 2), None, count - 1)


def _nested_interval(part: DeviceShard, dims: tuple[int, ...]) -> tuple[float, float]:
    """The nested interval of [0, 1] of `dims`, rounded only once, so that intervals which share an end match exactly."""
    start, stop, whole = 0, 1, 1
    for dim in dims:
        low, high = part.ranges[dim]
        size, length = part.shape[dim] or 1, stop - start
        start, stop, whole = start * size + length * low, start * size + length * high, whole * size
    return start / whole, stop / whole


def _stride(axis: str, mesh: Mesh) -> int:
    """The device-number stride of a mesh axis, or of a Shardy sub-axis (`x:(2)4`)."""
    base = base_axis(axis)
    minor = math.prod(mesh.sizes[mesh.names.index(base) + 1 :])
    if base == axis:
        return minor
    major = re.findall(r"\d+", axis.removeprefix(base))[0]
    return minor * mesh[base] // (int(major) * axis_size(axis, mesh))
