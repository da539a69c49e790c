from collections.abc import Sequence

from workbench.multimodel.policies.policy import Candidate


class Shortest:
    """Shortest remaining time first: models finish early one by one, and a long one is left over for the end.

    devices = 2, models of 4, 4 and 8 units  0 | a a a a c c c c c c c c      makespan 12; the lower bound is 8
                                             1 | b b b b
    """

    name = "shortest"
    about = "shortest remaining time first"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: each.remaining)
