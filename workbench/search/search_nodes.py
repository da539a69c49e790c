"""What waits in a search: groups and candidates with their bounds."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from workbench.search.candidates import PlanCandidate
from workbench.search.figures import Figures
from workbench.search.questions import Question


@dataclass(frozen=True, slots=True)
class SearchNode:
    """What waits, with its bounds. By the `kind` of the question that opens it:

    - `work`: `members` are cores, each with its micro-batches, whose devices do the same work for one (`Evaluator.work_key`);
    - `candidates`: a core with its micro-batches;
    - `sharing`: `members` are its candidates whose replicas share parameters;
    - `partition`: `members` are its candidates with one stage of ZeRO, those of `UNSHARED` being one, that differ in the schedule;
    - `figures`: a candidate; `is_guess` where it is tried ahead of the node that it waits in, which has its bounds.
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
    """A candidate that is tried before anything is known of it."""
    return SearchNode(candidate, Figures(0.0, 0.0), "figures", is_guess=True)


def alternate(groups: Iterable[Sequence[SearchNode]]) -> Iterator[Sequence[SearchNode]]:
    """The groups, one of each traced network in turn: whoever holds a network has something to do at any time."""
    by_network: dict[Hashable, list[Sequence[SearchNode]]] = {}
    for members in groups:
        by_network.setdefault(Question("work", members[0].candidate).trace_key, []).append(members)
    for turn in zip_longest(*(by_network[key] for key in sorted(by_network, key=str))):
        yield from (each for each in turn if each is not None)
