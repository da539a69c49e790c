"""Which decisions to make anew: connected ones, or live ones when memory is short, with the strategies that the messages favour."""

import random
from collections.abc import Iterable

import numpy as np

from workbench.search.per_operation.block_search import ChoiceBlock
from workbench.search.per_operation.choice_problem import Floats
from workbench.search.per_operation.reduced_problem import ReducedProblem

_WIDTHS = (3, 6, 12, 1_000)  # strategies per decision that a block may take
_MOST_NODES = 1_500


class Neighbourhoods:
    """Draws blocks of a problem, of a size that follows what the solver can do."""

    def __init__(self, problem: ReducedProblem, seed: int) -> None:
        self.problem, self.random = problem, random.Random(seed)  # noqa: S311
        self.room = dict.fromkeys(_WIDTHS, 4_000.0)  # pairs of strategies in a block
        self.ranks = [np.zeros(len(costs), np.int64) for costs in problem.costs]
        nodes = problem.memory.nodes
        self._owners = np.repeat(np.arange(len(nodes)), [len(each.starts) for each in nodes])
        self._starts = np.concatenate([*(each.starts for each in nodes), np.zeros(0, np.int64)])
        self._ends = np.concatenate([*(each.ends for each in nodes), np.zeros(0, np.int64)])

    def rank_by(self, potentials: Iterable[Floats]) -> None:
        """Orders each decision's strategies, the least potential first."""
        self.ranks = [np.argsort(np.argsort(each, kind="stable"), kind="stable") for each in potentials]

    def draw(self, usage: Floats) -> tuple[int, ChoiceBlock]:
        """A width and a block of it; `usage` is the memory in use at each time."""
        width = self.random.choice(_WIDTHS)
        first = self._live_when_short(usage) if len(usage) and self.random.random() < 0.5 else []
        first = first or [self.random.randrange(len(self.problem.costs))]
        return width, ChoiceBlock({node: self.ranks[node] < width for node in self._grown(first, width)})

    def adapt(self, width: int, is_proven: bool) -> None:
        """Larger blocks of `width` where the solver came to the end of one, smaller ones where it did not."""
        self.room[width] = min(max(self.room[width] * (1.08 if is_proven else 0.8), 500.0), 500_000.0)

    def _grown(self, first: list[int], width: int) -> list[int]:
        """The nodes `first` and neighbours of theirs, as long as the pairs of strategies fit in the block."""
        inside: set[int] = set()
        border, pairs = list(first), 0.0
        while border and len(inside) < _MOST_NODES:
            node = self._pop(border)
            if node in inside:
                continue
            added = sum(self._pairs(node, other, width) for other in self.problem.edges[node] if other in inside)
            pairs += added + len(self.ranks[node])
            if pairs > self.room[width] and inside:
                break
            inside.add(node)
            border.extend(other for other in self.problem.edges[node] if other not in inside)
        return sorted(inside)

    def _pop(self, border: list[int]) -> int:
        index = self.random.randrange(len(border))
        border[index], border[-1] = border[-1], border[index]
        return border.pop()

    def _pairs(self, one: int, other: int, width: int) -> int:
        return min(len(self.ranks[one]), width) * min(len(self.ranks[other]), width)

    def _live_when_short(self, usage: Floats) -> list[int]:
        """A few decisions that take memory at one time, mostly one at which little is left."""
        left = self.problem.memory.left - usage
        time = min(self.random.choices(range(len(left)), k=4), key=lambda each: left[each])
        live = np.unique(self._owners[(self._starts <= time) & (time < self._ends)]).tolist()
        return self.random.sample(live, min(len(live), self.random.randint(2, 20)))
