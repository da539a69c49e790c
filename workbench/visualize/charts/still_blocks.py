"""The blocks of packed spans in a figure that no front end redraws."""

from collections.abc import Iterator
from typing import Any

from workbench.units import format_seconds
from workbench.visualize.charts.packed_spans import BLOCKS, PackedSpans
from workbench.visualize.draw.palette import NEUTRAL
from workbench.visualize.draw.timeline_spans import DrawnSpan, merge_spans

_STILL = 1200.0  # pixels that it is drawn for


def still_blocks(packed: PackedSpans, longest: float) -> dict[str, list[Any]]:
    """The columns of the source `blocks` for an axis of `longest` seconds: spans too narrow to be seen there are one with their
    neighbours."""
    rows = list(_merged(packed, longest))
    return {name: [row[place] for row in rows] for place, name in enumerate(BLOCKS)}


def _merged(packed: PackedSpans, longest: float) -> Iterator[tuple[Any, ...]]:
    for lane, first, last in zip(packed.lanes, packed.firsts, packed.firsts[1:], strict=False):
        drawn = [DrawnSpan("", packed.starts[each], packed.seconds[each], str(each)) for each in range(first, last)]
        for block in merge_spans(drawn, longest, _STILL):
            place = int(block.longest.name)
            style = packed.styles[packed.kinds[place]]
            left, right = (edge / _STILL * longest / packed.unit for edge in (block.left, block.right))
            title = f"{format_seconds(block.longest.seconds)}: {packed.title(place)}"
            colour, share = style.colour or lane.colour or NEUTRAL, packed.shares[place] if packed.shares else 0.0
            yield left, right, lane.bottom, lane.top, left + share * (right - left), colour, style.weight, title, style.subject
