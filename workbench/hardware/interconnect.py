"""How devices of one kind are joined: chips in a torus, or devices behind the switch of a node."""

from dataclasses import dataclass

from workbench.errors import WorkbenchError
from workbench.hardware.hardware import AxisTopology, Link

MOST_DEVICES = 10_000_000
"""Of one torus or node, of a side of it, and of a chip: what a person can write as a size has seven digits."""
_RANKS = 3


def verify_count(name: str, value: object, most: int = MOST_DEVICES, least: int = 1) -> None:
    """Raises `WorkbenchError` for what is no whole number within limits."""
    if type(value) is not int or not least <= value <= most:
        raise WorkbenchError(f"`{name}` is {str(value)[:80]}; it is a whole number from {least} to {most:,}.")


@dataclass(frozen=True, slots=True)
class Torus:
    """Chips in a grid of `rank` dimensions, each joined to its neighbours; `slices` joins grids, `on_chip` the devices of one chip.

    A dimension closes to a ring if it is `ring_side` chips long, or if every side is a multiple of `ring_multiple` (whole cubes, whose
    faces meet in optical switches); it is a line otherwise.
    """

    rank: int
    side: int
    chips: int
    link: Link
    slices: Link
    on_chip: Link | None = None
    ring_side: int = 0
    ring_multiple: int = 0

    def __post_init__(self) -> None:
        verify_count("rank", self.rank, _RANKS)
        for name in ("side", "chips"):
            verify_count(name, getattr(self, name))
        for name in ("ring_side", "ring_multiple"):
            verify_count(name, getattr(self, name), least=0)

    def shape(self, side: int, sides: tuple[int, ...]) -> AxisTopology:
        """Whether a dimension of `side` chips is a ring or a line in a slice of these sides."""
        cubes = self.ring_multiple and all(each % self.ring_multiple == 0 for each in sides)
        return AxisTopology.RING if cubes or side == self.ring_side else AxisTopology.LINE


@dataclass(frozen=True, slots=True)
class Node:
    """At most `size` devices behind one switch; `network` joins nodes."""

    size: int
    link: Link
    network: Link

    def __post_init__(self) -> None:
        verify_count("size", self.size)
