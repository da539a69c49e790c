"""Padding of dimensions that do not divide evenly by their number of shards.

A shard is `ceil(size / parts)` (GSPMD section 3.4): 9 rows on 8 devices are 8 shards of 2, 16 slots for 9 rows, and
three devices hold only padding. Reductions mask the padding, so results are right, but memory and arithmetic are
wasted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.core.fact_page import PageCell, Row, Table
from workbench.core.sharding import Sharding
from workbench.core.text_tables import group_items, tail_text
from workbench.plan.edits import Edit

LARGEST = 8  # rows of the table in text output
_MASKED = "Padding is masked: results are correct, but memory and arithmetic are spent on it."


@dataclass(frozen=True, slots=True)
class Padding:
    """Padding in one dimension of equal values; `count` of them are computed per step.

    - `dim`, `size`: of the whole value; `axes`, `parts`: its shards; `slots`: places on all devices, `part` on one;
    - `bytes`: of one value on one device, of which `wasted_bytes` are padding in all its dimensions;
    - `flops`: of dots on one device and step; `wasted_flops`: spent on this padding;
    - `edits`: edits that were tried and avoid the padding.
    """

    path: str
    source: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    sharding: Sharding
    dim: str
    size: int
    axes: tuple[str, ...]
    parts: int
    count: int
    bytes: int
    wasted_bytes: int
    flops: int = 0
    wasted_flops: int = 0
    edits: tuple[Edit, ...] = ()

    @property
    def part(self) -> int:
        return -(-self.size // self.parts)

    @property
    def slots(self) -> int:
        return self.part * self.parts

    @property
    def idle(self) -> int:
        """The number of shards that are all padding."""
        return self.parts - -(-self.size // self.part)

    @property
    def share(self) -> float:
        """The fraction of a device's bytes that is padding, averaged over all devices."""
        return self.wasted_bytes / self.bytes if self.bytes else 0.0

    @property
    def nearest(self) -> tuple[int, int]:
        """The nearest sizes that divide evenly, down (0 if there is none) and up."""
        return self.size // self.parts * self.parts, -(-self.size // self.parts) * self.parts

    @property
    def arithmetic(self) -> str:
        """The sizes as text, such as `9 over data (8): 8 parts of 2, 16 slots for 9`."""
        idle = f", {self.idle} of them empty" if self.idle else ""
        over = f"{self.size} over `{'+'.join(self.axes)}` ({self.parts})"
        return f"{over}: {self.parts} parts of {self.part}, {self.slots} slots for {self.size}{idle}"

    @property
    def way_out(self) -> str:
        down, up = self.nearest
        return f"{f'{down} or ' if down else ''}{up} divide{'' if down else 's'} by {self.parts}"


def padding_table(paddings: Sequence[Padding], edits_of: Callable[[Padding], Sequence[str]] = lambda _: ()) -> Table:
    """Return a table with a row per dimension, size and axes, and the edits that avoid the padding."""
    groups = group_items(paddings, lambda each: (each.dim, each.size, each.axes))
    columns = ["dimension", "mesh axis", "parts>", "waste>", "wasted bytes>", "wasted work>", "largest value~", "sizes~"]
    titles = [
        ("waste", "share of the bytes of the largest value that is padding, over all devices"),
        ("wasted bytes", "on one device, of all values of a step"),
        ("wasted work", "of products, on one device and step"),
    ]
    rows = [_row(group, edits_of(group[0])) for group in groups]
    return Table([*columns, "line+", "fix+"], rows, "Padded dimensions", titles=titles, note=_MASKED)


def _row(group: list[Padding], edits: Sequence[str]) -> Row:
    first = group[0]
    label = f"{first.dim}={first.size}"
    cells = (
        PageCell(label if first.dim not in ("", "_") else f"{first.size}", brief=label),
        PageCell(first.axes, "axes"),
        PageCell(f"{first.parts} × {first.part}", title=first.arithmetic),
        PageCell(f"{first.share:.0%}"),
        PageCell(sum(each.wasted_bytes * each.count for each in group), "bytes"),
        PageCell(sum(each.wasted_flops * each.count for each in group) or None, "FLOP"),
        PageCell(first.path, "path", times=len(group), brief=tail_text(first.path, 28)),
        PageCell(first.way_out),
        PageCell(first.source, tone="muted"),
        PageCell(edits, "edits") if edits else PageCell("another size", tone="muted"),
    )
    return Row(cells, f"{first.dim} {first.size} {first.axes}", subject=first.path)
