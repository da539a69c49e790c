"""The plans that no other found plan beats in every figure."""

from collections.abc import Callable, Iterable, Iterator
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
        if any(other.dominates(figures) for _, other in self.entries):
            return self
        kept = [(each, other) for each, other in self.entries if not figures.dominates(other)]
        return ParetoFront(tuple(sorted((*kept, (item, figures)), key=lambda entry: (entry[1].seconds, entry[1].memory))))

    def beats(self, bound: Figures, slack: float = 0.0) -> bool:
        """Whether an item is as good as anything with these bounds could be, or within a share `slack` of it."""
        return any(
            each.seconds <= bound.seconds * (1 + slack) and each.memory <= bound.memory * (1 + slack) and each.devices <= bound.devices
            for _, each in self.entries
        )


def hypervolume(front: Iterable[Figures], reference: tuple[float, float]) -> float:
    """The area of (seconds, bytes) that a front dominates, up to a reference point that is worse than all of it.

    >>> hypervolume([Figures(1.0, 2, 1), Figures(2.0, 1, 1)], (3.0, 3.0))
    3.0
    """
    seconds, memory = reference
    area, below = 0.0, memory
    for each in sorted(front, key=lambda figures: (figures.seconds, figures.memory)):
        if each.memory < below and each.seconds < seconds:
            area += (seconds - each.seconds) * (below - each.memory)
            below = each.memory
    return area


def find_front(items: Iterable[Item], figures_of: Callable[[Item], Figures]) -> ParetoFront[Item]:
    """The front of all items."""
    front: ParetoFront[Item] = ParetoFront()
    for each in items:
        front = front.with_item(each, figures_of(each))
    return front
