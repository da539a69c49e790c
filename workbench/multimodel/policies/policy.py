"""The interface of a policy: which of the eligible models runs its next unit on a device that is free (Hydra's scheduler)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Candidate:
    """An idle model with a unit to run.

    - `remaining`: seconds it still has to compute (`Job.remaining`), `seconds` those of its next unit;
    - `started`: when its last unit began, minus infinity if none did;
    - `here`: its state is on the asking device, so that no transfer is needed; `unit`: the number of that unit in its whole sequence.
    """

    model: int
    remaining: float
    seconds: float
    started: float = float("-inf")
    here: bool = False
    unit: int = 0


class Policy(Protocol):
    """A stateless rule: the same candidates and number give the same choice.

    `candidates` are in the order of the list, the one that is `here` first, so that ties keep locality; `decision` counts the decisions,
    from 0.
    """

    name: str
    about: str

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:
        """One of the candidates."""
        ...


@dataclass(frozen=True)
class ExactOrder:
    """The order of the shortest schedule, as a solver found it for small fleets (`optimal_schedule.prepare_policy`).

        devices = 2, models of 4, 4 and 8 units  0 | c c c c c c c c      `starts` of each (model, unit) are the solver's;
                                                 1 | a a a a b b b b      makespan 8 = the lower bound 16 / 2

    Units that the solver did not know, of a model added later say, follow those it did, the model with most left first.
    """

    starts: Mapping[tuple[int, int], float] = field(default_factory=dict)

    name = "exact"
    about = "the optimal schedule by a solver, without transfers; small fleets only"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: (self.starts.get((each.model, each.unit), float("inf")), -each.remaining))


class FirstInList:
    """The first idle model of the list: what a queue of jobs does.

    devices = 2, three models of 4 units     0 | a a a a c c c c      makespan 8; the lower bound is 6
                                             1 | b b b b
    """

    name = "first-in-list"
    about = "the first idle model of the list"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: each.model)


@dataclass(frozen=True, slots=True)
class RandomOrder:
    """Any idle model with equal probability: the baseline of Hydra's figure 7. The same seed gives the same schedule."""

    seed: int = 0
    name = "random"
    about = "a random idle model"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:
        return random.Random(f"{self.seed} {decision}").choice(candidates)  # noqa: S311 - not for cryptography


class RoundRobin:
    """The model that has waited longest for a turn.

    devices = 2, three models of 4 units     0 | a c b c b b      fair; of models that differ in length the longest ends late
                                             1 | b a a a c c
    """

    name = "round-robin"
    about = "the model that has waited longest for a turn"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: (each.started, each.model))


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


class Shortest:
    """Shortest remaining time first: models finish early one by one, and a long one is left over for the end.

    devices = 2, models of 4, 4 and 8 units  0 | a a a a c c c c c c c c      makespan 12; the lower bound is 8
                                             1 | b b b b
    """

    name = "shortest"
    about = "shortest remaining time first"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: each.remaining)
