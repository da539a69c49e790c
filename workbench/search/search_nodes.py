"""Nodes of a search: groups and candidates with their bounds."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from workbench.search.make_space import AXES, SCHEDULES
from workbench.search.neighbours import list_neighbours
from workbench.search.plan_candidate import RECOMPUTING, WHOLE, PlanCandidate
from workbench.search.requirements import Requirement, allows_candidate, relative_excess
from workbench.search.search_figures import Figures
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import objective_key
from workbench.search.traced_programs import ACTIVATIONS_ON_HOST, OF_SOME_LAYERS, ON_DEVICE
from workbench.search.uneven_boundaries import BY_TIME
from workbench.search.worker_questions import Question


@dataclass(frozen=True, slots=True)
class SearchNode:
    """An open node with its bounds. `kind` names the question that opens it:

    - `work`: `members` are cores with micro-batches whose devices do the same work for one (`Evaluator.work_key`);
    - `candidates`: a core with its micro-batches;
    - `sharing`: `members` are its candidates whose replicas share parameters;
    - `partition`: `members` are its candidates with one ZeRO stage (those in `UNSHARED` count as one) that differ in
      the schedule;
    - `figures`: a candidate; `is_guess` if it is tried before the node that contains it, which has its bounds.
    """

    candidate: PlanCandidate
    bounds: Figures
    kind: str = "candidates"
    members: "tuple[SearchNode, ...]" = ()
    is_guess: bool = False

    @property
    def question(self) -> Question:
        return Question(self.kind, self.candidate)


def guess(candidate: PlanCandidate) -> SearchNode:
    """A candidate to plan without known bounds."""
    return SearchNode(candidate, Figures(0.0, 0.0), "figures", is_guess=True)


def count_unusual(candidate: PlanCandidate) -> int:
    """The number of decisions of a candidate that only a wide search considers."""
    axes = [axis for axis, size in candidate.mesh if size > 1 and axis not in AXES]
    unusual = (
        axes,
        candidate.axis_assignment,
        candidate.boundaries != BY_TIME,
        candidate.offload != ON_DEVICE,
        RECOMPUTING.get(candidate.remat, 1) < 1 or candidate.remat in (ACTIVATIONS_ON_HOST, *OF_SOME_LAYERS),
        candidate.schedule not in (WHOLE, *SCHEDULES),
    )
    return sum(map(bool, unusual))


def alternate(groups: Iterable[Sequence[SearchNode]]) -> list[Sequence[SearchNode]]:
    """Order groups for the queue: usual ones first, and traced networks in turn so that every worker has questions
    about its own.
    """
    by_network: dict[Hashable, list[Sequence[SearchNode]]] = {}
    for members in groups:
        by_network.setdefault(Question("work", members[0].candidate).trace_key, []).append(members)
    turns = zip_longest(*(by_network[key] for key in sorted(by_network, key=str)))
    ordered = [entry for turn in turns for entry in turn if entry is not None]
    return sorted(ordered, key=lambda group: count_unusual(group[0].candidate))


# Coordinate descent: move to a better plan that differs in a single decision, until there is none.
#
# Bounds prove that a plan is good but do not find one. GPT-3 175B on 2,048 chips reaches its optimum after ten plans by
# descent, and after the bounds of 480 candidates without it. A start that exceeds the memory first descends in memory.


Key = tuple[float, ...]
_COSTLY = {"zero": 1, "mesh": 2, "micro_batches": 3}
"""Decisions that are changed last."""
_INFINITE = float("inf")


@dataclass
class Descent:
    """The descents of one search, one after the other. Mutable.

    - `known`: figures of all candidates planned so far, also by others;
    - `is_worth`: whether the bounds of a candidate leave it a chance against the best.
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
        """The key to minimize: the excess over the limits, then the objective."""
        return (relative_excess(self.requirements, figures), *objective_key(self.objective, figures))

    def start_from_best(self, most: int) -> None:
        """Add the best known plans as starts, the best first."""
        self._starts.extend(sorted(self.known, key=lambda candidate: self.key(self.known[candidate]))[:most])

    def take(self, candidate: PlanCandidate, figures: Figures) -> None:
        """Record a planned candidate, and move to it if it beats all before it or the present position."""
        if not allows_candidate(self.requirements, candidate):
            return
        key = self.key(figures)
        if key < self._best:
            self._best, self._here = key, None
            self._starts.appendleft(candidate)
        else:
            self._go_if_better(candidate)

    def next_candidate(self) -> PlanCandidate | None:
        """The candidate to plan next; `None` if no start is left."""
        while self._here is not None or self._starts:
            if self._here is None:
                self._go(self._starts.popleft())
            elif (candidate := next(self._neighbours, None)) is None:
                self._here = None
            elif candidate in self.known:
                self._go_if_better(candidate)
            elif candidate not in self.asked and allows_candidate(self.requirements, candidate) and self.is_worth(candidate):
                self.asked.add(candidate)
                return candidate
        return None

    def _go(self, candidate: PlanCandidate) -> None:
        """Move to a candidate, unless it was visited."""
        self._here = None
        if candidate not in self._visited:
            self._visited.add(candidate)
            self._here, self._neighbours = candidate, iter(self._list_neighbours(candidate))

    def _go_if_better(self, candidate: PlanCandidate) -> None:
        here = self._here
        if here is not None and self.key(self.known[candidate]) < self.key(self.known[here]):
            self._go(candidate)

    def _list_neighbours(self, candidate: PlanCandidate) -> list[PlanCandidate]:
        """Neighbors, the cheapest to try first: another number of micro-batches needs another traced network, and a
        layout per operation or per stage takes seconds to find.
        """
        neighbours = sorted(list_neighbours(self.space, candidate), key=lambda pair: _COSTLY.get(pair[0], 0))
        return sorted((other for _, other in neighbours), key=lambda other: self.space.find_layout(other.layout).takes_search)
