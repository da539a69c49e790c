from collections.abc import Sequence

from workbench.multimodel.policies.policy import Candidate


class RoundRobin:
    """The model that has waited longest for a turn.

    devices = 2, three models of 4 units     0 | a c b c b b      fair; of models that differ in length the longest ends late
                                             1 | b a a a c c
    """

    name = "round-robin"
    about = "the model that has waited longest for a turn"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: (each.started, each.model))
