"""Coordinate descent: from a plan to a better one that differs in a single decision, until none is better.

Bounds prove that a plan is good, they do not find one: GPT-3 175B on 2,048 chips has its optimum after ten plans by descent, and after the
bounds of 480 candidates without it. A start that is too large for the memory comes down in memory first.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.search.neighbours import list_neighbours
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import Requirement, allows_candidate, excess_of
from workbench.search.search_figures import Figures
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import objective_key

Key = tuple[float, ...]
_COSTLY = {"zero": 1, "mesh": 2, "micro_batches": 3}
"""Which decisions are changed later than others."""
_INFINITE = float("inf")


@dataclass
class Descent:
    """The descents of one search, one after the other. Mutable: it moves.

    - `known`: figures of all candidates that were planned, by whomever;
    - `is_worth`: whether a candidate's bounds leave it a chance against the best.
    """

    space: SearchSpace
    requirements: Sequence[Requirement]
    objective: str
    known: Mapping[PlanCandidate, Figures]
    is_worth: Callable[[PlanCandidate], bool]
    asked: set[PlanCandidate] = field(default_factory=set)
    _starts: deque[PlanCandidate] = field(default_factory=deque)
    _visited: set[PlanCandidate] = field(default_factory=set)
    _here: PlanCandidate | None = None
    _neighbours: Iterator[PlanCandidate] = field(default_factory=lambda: iter(()))
    _best: Key = (_INFINITE,)

    def key(self, figures: Figures) -> Key:
        """What a descent makes less: first by how much limits are exceeded, then the objective."""
        return (excess_of(self.requirements, figures), *objective_key(self.objective, figures))

    def start_from_best(self, most: int) -> None:
        """Descend from so many of the best plans known, the best first."""
        self._starts.extend(sorted(self.known, key=lambda each: self.key(self.known[each]))[:most])

    def take(self, candidate: PlanCandidate, figures: Figures) -> None:
        """A candidate was planned: one that is better than all before, or than where the descent is, is descended from at once."""
        if not allows_candidate(self.requirements, candidate):
            return
        key = self.key(figures)
        if key < self._best:
            self._best, self._here = key, None
            self._starts.appendleft(candidate)
        else:
            self._go_if_better(candidate)

    def next_candidate(self) -> PlanCandidate | None:
        """The candidate to plan next; `None` where no start is left."""
        while self._here is not None or self._starts:
            if self._here is None:
                self._go(self._starts.popleft())
            elif (each := next(self._neighbours, None)) is None:
                self._here = None
            elif each in self.known:
                self._go_if_better(each)
            elif each not in self.asked and allows_candidate(self.requirements, each) and self.is_worth(each):
                self.asked.add(each)
                return each
        return None

    def _go(self, candidate: PlanCandidate) -> None:
        """Descend from here, unless that was done."""
        self._here = None
        if candidate not in self._visited:
            self._visited.add(candidate)
            self._here, self._neighbours = candidate, iter(self._list_neighbours(candidate))

    def _go_if_better(self, candidate: PlanCandidate) -> None:
        here = self._here
        if here is not None and self.key(self.known[candidate]) < self.key(self.known[here]):
            self._go(candidate)

    def _list_neighbours(self, candidate: PlanCandidate) -> list[PlanCandidate]:
        """What costs least to try comes first: another number of micro-batches is another network to trace, and a layout for each operation
        or stage takes seconds to find."""
        found = sorted(list_neighbours(self.space, candidate), key=lambda pair: _COSTLY.get(pair[0], 0))
        return sorted((each for _, each in found), key=lambda each: self.space.find_layout(each.layout).takes_search)
