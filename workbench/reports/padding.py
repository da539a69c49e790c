"""Padding: what devices hold and compute for nothing because a dimension does not divide by the parts it is cut into.

A part is `ceil(size / parts)` (GSPMD section 3.4): 9 rows on 8 devices are 8 parts of 2, 16 slots for 9 rows, and three devices hold none.
Reductions mask what is padded, so results are right; memory and arithmetic are spent all the same.
"""

from dataclasses import dataclass

from workbench.core.sharding import Sharding
from workbench.plan.edits import Edit


@dataclass(frozen=True, slots=True)
class Padding:
    """One dimension of values that are alike; `count` of them are computed a step.

    - `dim`, `size`: of the whole value; `axes`, `parts`: what cuts it; `slots`: places on all devices together, `part` on one;
    - `bytes`: on one device, of `wasted_bytes` of one value nothing is kept; of padding in several dimensions, all of it;
    - `flops`: of products on one device and step that are spent on this padding;
    - `edits`: plans in which nothing is padded here, tried.
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
        """The length of one device's part."""
        return -(-self.size // self.parts)

    @property
    def slots(self) -> int:
        """Places on all devices that share the dimension."""
        return self.part * self.parts

    @property
    def idle(self) -> int:
        """Parts that hold padding alone."""
        return self.parts - -(-self.size // self.part)

    @property
    def share(self) -> float:
        """The share of a device's bytes that is padding, over all devices."""
        return self.wasted_bytes / self.bytes if self.bytes else 0.0

    @property
    def nearest(self) -> tuple[int, int]:
        """The nearest sizes that divide, down (0 if there is none) and up."""
        return self.size // self.parts * self.parts, -(-self.size // self.parts) * self.parts

    @property
    def arithmetic(self) -> str:
        """`9 over data (8): 8 parts of 2, 16 slots for 9`."""
        idle = f", {self.idle} of them empty" if self.idle else ""
        over = f"{self.size} over `{'+'.join(self.axes)}` ({self.parts})"
        return f"{over}: {self.parts} parts of {self.part}, {self.slots} slots for {self.size}{idle}"

    @property
    def way_out(self) -> str:
        """Which sizes divide."""
        down, up = self.nearest
        return f"{f'{down} or ' if down else ''}{up} divide{'' if down else 's'} by {self.parts}"
