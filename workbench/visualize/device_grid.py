"""The part of a tensor that each device of the mesh holds."""

import math
from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size
from workbench.core.text_tables import WIDTH, shape_text
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.axis_placement import device_order
from workbench.hardware.hardware import Hardware
from workbench.reports.placement import Placement
from workbench.units import format_bytes
from workbench.visualize.draw.device_shards import DeviceShard, Grid, Projection, UnitRect, count_parts, grid, part_of, projection
from workbench.visualize.draw.drawing_marks import Label, Mark, Polyline, Rectangle, fit_drawing, shift_down, text_width
from workbench.visualize.draw.palette import NEUTRAL, TEXT, axes_colour, axis_colour
from workbench.visualize.draw.picture import Picture

# The physical device at each position of a mesh: its number, its host or slice, its coordinates.


class DeviceLocation(NamedTuple):
    """A physical device: its `number` in the order of `jax.devices()`, and its coordinates."""

    number: int
    places: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The location in words: `#12 node 1 device 4`, `#21 x1 y0 z5`."""
        words = (f"{name}{place}" if len(name) == 1 else f"{name} {place}" for name, place in self.places)
        return " ".join([f"#{self.number}", *words])


def locate_devices(
    mesh: Mesh, hardware: Hardware | None, axis_assignment: AxisAssignment | None = None
) -> Callable[[int], DeviceLocation] | None:
    """A function from mesh position to physical device; `None` if the mesh does not fit the hardware."""
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
            minor = prod(length for _, length in axes[place + 1 :])
            if size > 1:
                places.append((name, number // minor % size))
        return DeviceLocation(number, tuple(places))

    return find


Find = Callable[[int], DeviceLocation]
MOST_ROWS = 8
_PAGE = 960  # pixels
_WIDE, _HIGH = 64, 48  # pixels of the square that represents the tensor
_LINE, _GAP = 16, 16
_BAND = 0.45  # opacity; overlapping bands are darker


def device_grid(placement: Placement, hardware: Hardware | None = None, axis_assignment: AxisAssignment | None = None) -> Picture:
    """The mesh as a grid of devices; each shows the tensor as a square with the device's part outlined.

    A band in the colour of a mesh axis is the part that the axis selects; a device holds the intersection of its bands.
    A replica of the part of a lower-numbered device is hatched. Beyond two split dimensions, later ones are nested to
    the right. With hardware, the last line of a device names its physical device and coordinates. A mesh that is too
    large for squares is a `device_map`.
    """
    find = locate_devices(placement.mesh, hardware, axis_assignment)
    text = _text(placement, hardware, axis_assignment)
    rows = grid(placement.mesh, MOST_ROWS, 3)
    head = max(text_width(rows.row_name(row or 0)) for row in rows.rows) + _GAP * bool(rows.row_axes)
    texts = [_longest(placement).index, f"{placement.mesh.size} = {placement.mesh.size}", rows.column_name(rows.width - 1)]
    texts += [find(placement.mesh.size - 1).text] if find else []
    cell = max(_WIDE, *map(text_width, texts)) + _GAP
    devices = grid(placement.mesh, MOST_ROWS, int((_PAGE - head) / cell))
    known = hardware if find else None
    if devices.note:
        body, lines = device_map(placement, known, axis_assignment), _title(placement, "", None)
    else:
        body, lines = _devices(placement, devices, head, cell, find), _title(placement, "", known)
    title = tuple(Label(0, 12 + _LINE * n, line, bold=not n) for n, line in enumerate(lines))
    return Picture.of(fit_drawing((*title, *(shift_down(mark, _LINE * len(title)) for mark in body))), text)


def _text(placement: Placement, hardware: Hardware | None, axis_assignment: AxisAssignment | None) -> str:
    """The grid as text; `6 = 2` means that device 6 holds a replica of device 2's part."""
    find = locate_devices(placement.mesh, hardware, axis_assignment)
    mesh, falling = placement.mesh, max(len(placement.mesh.axes) - 1, 1)
    rows = grid(mesh, MOST_ROWS, 3, falling)
    head = max(len(rows.row_name(row or 0)) for row in rows.rows)
    cell = 2 + max(len(f"{mesh.size - 1} {_longest(placement).index}"), len(rows.column_name(rows.width - 1)))
    devices = grid(mesh, MOST_ROWS, (WIDTH - head) // cell, falling)
    lines = [("", *("…" if column is None else devices.column_name(column) for column in devices.columns))] * bool(devices.column_axes)
    for row in devices.rows:
        held = (
            "…" if row is None or column is None else _part_text(part_of(placement, devices.device(row, column)))
            for column in devices.columns
        )
        lines.append(("…" if row is None else devices.row_name(row), *held))
    table = ((line[0].ljust(head + 2) + "".join(word.ljust(cell) for word in line[1:])).rstrip() for line in lines)
    return "\n".join([*_title(placement, devices.note, hardware if find else None), "", *table, *(_hosts(devices, find) if find else [])])


def _hosts(devices: Grid, find: Find) -> Iterator[str]:
    shown = [devices.device(row, column) for row in devices.rows if row is not None for column in devices.columns if column is not None]
    words = [f"{device} is {find(device).text}" for device in shown]
    width = max(map(len, words)) + 3
    yield ""
    for start in range(0, len(words), WIDTH // width):
        yield "".join(word.ljust(width) for word in words[start : start + WIDTH // width]).rstrip()


def _title(placement: Placement, omitted: str, hardware: Hardware | None) -> tuple[str, ...]:
    mesh, parts = placement.mesh, count_parts(placement)
    held = f"each device holds {shape_text(placement.local_shape)}, {format_bytes(placement.local_bytes)}"
    if parts == 1:
        sharing = "the whole tensor"
    else:
        sharing = f"{parts:,} parts, " + ("each on one device" if parts == mesh.size else f"each on {mesh.size // parts:,} devices")
    lines: tuple[str, ...] = (str(placement.tensor), f"{placement.sharding} on {str(mesh) or 'one device'}", f"{held}: {sharing}", omitted)
    if hardware is not None:
        lines += (f"#: the device of {hardware}, in the order of jax.devices(), and where it stands",)
    return tuple(line for line in lines if line)


def _longest(placement: Placement) -> DeviceShard:
    """The last device's part, which has the longest texts."""
    return part_of(placement, placement.mesh.size - 1)


def _copy_text(part: DeviceShard) -> str:
    return f"{part.device} = {part.first}" if part.is_copy else f"{part.device}"


def _part_text(part: DeviceShard) -> str:
    return _copy_text(part) if part.is_copy else f"{part.device} {part.index}"


def _devices(placement: Placement, devices: Grid, head: float, cell: float, find: Find | None) -> Iterator[Mark]:
    view, height = projection(placement), _HIGH + (2 + bool(find)) * _LINE + _GAP
    colour = axis_colour(devices.column_axes[0], placement.mesh) if devices.column_axes else TEXT
    for column in range(len(devices.columns)):
        yield Label(head + cell * column, _LINE, devices.column_name(column), colour=colour, bold=True)
    for row in range(len(devices.rows)):
        y = 2 * _LINE + height * row
        colour = axis_colour(devices.row_axes[0], placement.mesh) if len(devices.row_axes) == 1 else TEXT
        yield Label(0, y + _LINE + _HIGH / 2, devices.row_name(row), colour=colour, bold=True)
        for column in range(len(devices.columns)):
            device = devices.device(row, column)
            yield from _device(placement, view, part_of(placement, device), head + cell * column, y, find(device) if find else None)


def _device(placement: Placement, view: Projection, part: DeviceShard, x: float, y: float, real: DeviceLocation | None) -> Iterator[Mark]:
    top = y + 6
    yield Label(x, y, _copy_text(part))
    yield Rectangle(x, top, _WIDE, _HIGH, line=NEUTRAL)
    for colour, box in [(_colour(placement, dim), box) for dim, box in view.bands(part)] or [(NEUTRAL, UnitRect(0, 0, 1, 1))]:
        yield Rectangle(*_place(box, x, top), fill=colour, alpha=_BAND)
    copy = f", as device {part.first} does" if part.is_copy else ""
    title = f"device {part.device}{f' ({real.text})' if real else ''} holds {placement.tensor.path}{part.index}{copy}"
    yield Rectangle(*_place(view.box(part), x, top), line=TEXT, hatched=part.is_copy, title=title)
    yield Label(x, top + _HIGH + 13, part.index)
    if real:
        yield Label(x, top + _HIGH + 13 + _LINE - 3, real.text)


def _place(box: UnitRect, x: float, y: float) -> tuple[float, float, float, float]:
    return x + _WIDE * box.left, y + _HIGH * box.top, _WIDE * (box.right - box.left), _HIGH * (box.bottom - box.top)


def _colour(placement: Placement, dim: int) -> str:
    return axis_colour(next(axis for axis in placement.sharding.dims[dim] or () if axis_size(axis, placement.mesh) > 1), placement.mesh)


# Every device of a large mesh in its physical place, and the part of a tensor that it holds.
#
# A row holds the devices along the last axis of the torus, or one node. Neighbours that hold one part, or parts at equal
# distances, are one bar, labelled with its first and last part.


MOST_COLUMNS, MOST_IN_PANEL, MOST_MAP_ROWS = 64, 32, 256
_MAP_PAGE, _CELL, _ROW, _PANEL_GAP = 960, 24, 18, 24  # pixels
_LIGHT, _DARK = 0.08, 0.4  # opacity of the first and last part
_UNUSED = -1  # in place of the device of a part


def device_map(placement: Placement, hardware: Hardware | None, axis_assignment: AxisAssignment | None) -> Iterator[Mark]:
    """The marks of a map, by the axes of the hardware that the mesh fits; without, by those of the mesh."""
    axes = [(axis.name, axis.size) for axis in hardware.axes if axis.size > 1] if hardware else list(placement.mesh.axes)
    count = math.prod(size for _, size in axes)
    numbers = device_order(placement.mesh, hardware, axis_assignment).reshape(-1).tolist() if hardware else range(count)
    firsts = {number: part_of(placement, device).first for device, number in enumerate(numbers)}
    columns = next(size for size in range(min(MOST_COLUMNS, axes[-1][1]), 0, -1) if axes[-1][1] % size == 0)
    rows = [_row_name(axes, start) for start in range(0, count, columns)][:MOST_MAP_ROWS]
    head = math.ceil(max(map(text_width, rows))) + 8
    cell = min(_CELL, (_MAP_PAGE - head) // columns)
    high = _panel_rows(axes, columns, len(rows))
    across = max(int((_MAP_PAGE + _PANEL_GAP) / (head + cell * columns + _PANEL_GAP)), 1)
    if len(rows) * columns < count:
        yield Label(0, 0, f"{len(rows) * columns:,} of {count:,} devices are shown: the first ones")
    yield Label(head, _ROW, f"{axes[-1][0]} 0 to {columns - 1} to the right; a bar states its part, or its first … last part", bold=True)
    for panel, first in enumerate(range(0, len(rows), high)):
        x, y = panel % across * (head + cell * columns + _PANEL_GAP), _ROW * 1.5 + panel // across * (high * _ROW + _PANEL_GAP)
        shown = rows[first : first + high]
        for place, name in enumerate(shown):
            yield Label(x, y + _ROW * place + 13, name)
            held = [firsts.get((first + place) * columns + column, _UNUSED) for column in range(columns)]
            yield from _bars(placement, held, f"{name}, {axes[-1][0]}", x + head, y + _ROW * place, cell)
        yield _fence(x + head, y, cell, columns, len(shown))


def _row_name(axes: list[tuple[str, int]], start: int) -> str:
    """The place of the first device of a row, without the axis that a whole row spans."""
    words = []
    for name, size in reversed(axes):
        start, place = divmod(start, size)
        words.append(f"{name}{place}" if len(name) == 1 else f"{name} {place}")
    return " ".join(reversed(words[1:])) if len(words) > 1 else words[0]


def _panel_rows(axes: list[tuple[str, int]], columns: int, rows: int) -> int:
    """Rows side by side with the next panel: those of one plane of a torus, if they are not too many."""
    plane = axes[-2][1] if len(axes) > 1 and columns == axes[-1][1] else rows
    return min(plane, MOST_IN_PANEL)


def _bars(placement: Placement, firsts: list[int], name: str, x: float, y: float, cell: float) -> Iterator[Mark]:
    axes = tuple(axis for dim in placement.sharding.dims for axis in dim or () if axis_size(axis, placement.mesh) > 1)
    colour, last = axes_colour(axes, placement.mesh) if axes else NEUTRAL, part_of(placement, placement.mesh.size - 1).first or 1
    for start, stop in _runs(firsts):
        ends = dict.fromkeys(part_of(placement, firsts[place]).index for place in (start, stop - 1))
        text, width = " … ".join(ends), cell * (stop - start)
        label = next((words for words in (text, f"{next(iter(ends))} …") if text_width(words) < width), "")
        alpha = round(_LIGHT + (_DARK - _LIGHT) * firsts[start] / last, 2)
        title = f"{name} {start} to {stop - 1}" + ("" if label == text else f": {placement.tensor.path}{text}")
        yield Rectangle(x + cell * start, y, width, _ROW, fill=colour, alpha=alpha, title=title)
        if label:
            yield Label(x + cell * start + width / 2, y + 13, label, "middle")


def _runs(firsts: list[int]) -> Iterator[tuple[int, int]]:
    """The longest runs from the left with one part or with parts at equal distances, without unused devices.

    >>> list(_runs([0, 0, 0, 8, 16, 24, _UNUSED, 5]))
    [(0, 3), (3, 6), (7, 8)]
    """
    start = 0
    while start < len(firsts):
        stop = start + 1
        while stop < len(firsts) and _UNUSED not in firsts[start : stop + 1] and _is_even(firsts[start : stop + 1]):
            stop += 1
        if firsts[start] != _UNUSED:
            yield start, stop
        start = stop


def _is_even(firsts: list[int]) -> bool:
    return firsts[-1] - firsts[-2] == firsts[1] - firsts[0]


def _fence(x: float, y: float, cell: float, columns: int, rows: int) -> Polyline:
    """The lines between devices, as one line that goes down, up and on."""
    bottom, right = y + _ROW * rows, x + cell * columns
    down = [point for n in range(columns + 1) for point in ((x + cell * n, y if n % 2 else bottom), (x + cell * n, bottom if n % 2 else y))]
    along = [point for n in range(rows + 1) for point in ((x if n % 2 else right, y + _ROW * n), (right if n % 2 else x, y + _ROW * n))]
    return Polyline((*down, *along), NEUTRAL, 0.5, alpha=0.5)
