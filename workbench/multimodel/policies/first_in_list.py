from collections.abc import Sequence

from workbench.multimodel.policies.policy import Candidate


class FirstInList:
    """The first idle model of the list: what a queue of jobs does.

    devices = 2, three models of 4 units     0 | a a a a c c c c      makespan 8; the lower bound is 6
                                             1 | b b b b
    """

    name = "first-in-list"
    about = "the first idle model of the list"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: each.model)
