"""The plans that no other found plan beats in every figure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from workbench.search.figures import Figures

Item = TypeVar("Item")


@dataclass(frozen=True)
class ParetoFront(Generic[Item]):
    """Items with their figures, none dominated by another, the fastest first. A change is a new front.

    >>> front = ParetoFront().with_item("a", Figures(1.0, 9, 4)).with_item("b", Figures(2.0, 8, 4)).with_item("c", Figures(3.0, 9, 4))
    >>> [item for item, _ in front]
    ['a', 'b']
    """

    entries: tuple[tuple[Item, Figures], ...] = ()

    def __iter__(self) -> Iterator[tuple[Item, Figures]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def with_item(self, item: Item, figures: Figures) -> "ParetoFront[Item]":
        """The front with another item, if nothing on it is as good; of equals the first stays."""
        if self.beats(figures):
            return self
        kept = [(each, other) for each, other in self.entries if not figures.dominates(other)]
        return ParetoFront(tuple(sorted((*kept, (item, figures)), key=lambda entry: (entry[1].seconds, entry[1].memory))))

    def beats(self, figures: Figures, slack: float = 0.0) -> bool:
        """Whether an item is as good as these figures or bounds in each of them, or within a share `slack`."""
        return any(each.dominates(figures, slack) for _, each in self.entries)


def hypervolume(front: Iterable[Figures], reference: tuple[float, float]) -> float:
    """The area of (seconds, bytes) that a front dominates, up to a reference point that is worse than all of it.

    >>> hypervolume([Figures(1.0, 2), Figures(2.0, 1)], (3.0, 3.0))
    3.0
    """
    seconds, memory = reference
    area, below = 0.0, memory
    for each in sorted(front, key=lambda figures: (figures.seconds, figures.memory)):
        if each.memory < below and each.seconds < seconds:
            area += (seconds - each.seconds) * (below - each.memory)
            below = each.memory
    return area
