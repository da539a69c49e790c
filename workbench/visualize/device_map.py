"""Every device of a large mesh in its physical place, and the part of a tensor that it holds.

A row holds the devices along the last axis of the torus, or one node. Neighbours that hold one part, or parts at equal
distances, are one bar, labelled with its first and last part.
"""

import math
from collections.abc import Iterator

from workbench.core.sharding import axis_size
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.axis_placement import device_order
from workbench.hardware.hardware import Hardware
from workbench.reports.placement import Placement
from workbench.visualize.draw.device_shards import part_of
from workbench.visualize.draw.drawing_marks import Label, Mark, Polyline, Rectangle, text_width
from workbench.visualize.draw.palette import NEUTRAL, axes_colour

MOST_COLUMNS, MOST_IN_PANEL, MOST_ROWS = 64, 32, 256
_PAGE, _CELL, _ROW, _GAP = 960, 24, 18, 24  # pixels
_LIGHT, _DARK = 0.08, 0.4  # opacity of the first and last part
_UNUSED = -1  # in place of the device of a part


def device_map(placement: Placement, hardware: Hardware | None, axis_assignment: AxisAssignment | None) -> Iterator[Mark]:
    """The marks of a map, by the axes of the hardware that the mesh fits; without, by those of the mesh."""
    axes = [(axis.name, axis.size) for axis in hardware.axes if axis.size > 1] if hardware else list(placement.mesh.axes)
    count = math.prod(size for _, size in axes)
    numbers = device_order(placement.mesh, hardware, axis_assignment).reshape(-1).tolist() if hardware else range(count)
    firsts = {number: part_of(placement, device).first for device, number in enumerate(numbers)}
    columns = next(size for size in range(min(MOST_COLUMNS, axes[-1][1]), 0, -1) if axes[-1][1] % size == 0)
    rows = [_row_name(axes, start) for start in range(0, count, columns)][:MOST_ROWS]
    head = math.ceil(max(map(text_width, rows))) + 8
    cell = min(_CELL, (_PAGE - head) // columns)
    high = _panel_rows(axes, columns, len(rows))
    across = max(int((_PAGE + _GAP) / (head + cell * columns + _GAP)), 1)
    if len(rows) * columns < count:
        yield Label(0, 0, f"{len(rows) * columns:,} of {count:,} devices are shown: the first ones")
    yield Label(head, _ROW, f"{axes[-1][0]} 0 to {columns - 1} to the right; a bar states its part, or its first … last part", bold=True)
    for panel, first in enumerate(range(0, len(rows), high)):
        x, y = panel % across * (head + cell * columns + _GAP), _ROW * 1.5 + panel // across * (high * _ROW + _GAP)
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
