"""Nodes of a search: groups and candidates with their bounds."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from workbench.search.make_space import AXES, SCHEDULES
from workbench.search.plan_candidate import RECOMPUTING, WHOLE, PlanCandidate
from workbench.search.search_figures import Figures
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
