from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workbench.multimodel.policies.policy import Candidate


@dataclass(frozen=True)
class ExactOrder:
    """The order of the shortest schedule, as a solver found it for small fleets (`optimal_schedule.prepare_policy`).

        devices = 2, models of 4, 4 and 8 units  0 | c c c c c c c c      `starts` of each (model, unit) are the solver's;
                                                 1 | a a a a b b b b      makespan 8 = the lower bound 16 / 2

    Units that the solver did not know, of a model added later say, follow those it did, the model with most left first.
    """

    starts: Mapping[tuple[int, int], float] = field(default_factory=dict)

    name = "exact"
    about = "the shortest there is, by a solver, transfers not counted; small fleets only"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: (self.starts.get((each.model, each.unit), float("inf")), -each.remaining))
