from collections.abc import Sequence

from workbench.multimodel.policies.policy import Candidate


class ShardedLrtf:
    """Sharded longest remaining time first: the model that still has most to compute (Hydra, Algorithm 2).

        devices = 2, three models of 4 units     0 | a c c c b b      ties stay where their shard is, else go by the list
                                                 1 | b b a a a c      makespan 6 = the lower bound 12 / 2

    It avoids a long model being left over for the end, when other devices have nothing to do. A list schedule, so at most (2 - 1/P) times
    the optimum (Graham 1966); linear in the number of models.
    """

    name = "sharded-lrtf"
    about = "longest remaining time first"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return max(candidates, key=lambda each: each.remaining)  # the first of ties
