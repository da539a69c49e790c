"""Policies: which eligible model runs its next unit on a free device (Hydra's scheduler).

Simulator and executor use the same code.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.errors import FleetError, unknown_name


@dataclass(frozen=True, slots=True)
class Candidate:
    """An idle model with a unit to run.

    - `remaining`: seconds left to compute (`Job.remaining`); `seconds`: of its next unit;
    - `started`: when its last unit began, minus infinity if none did;
    - `here`: whether its state is on the requesting device, so that no transfer is needed; `unit`: index of the unit in
      the model's whole sequence.
    """

    model: int
    remaining: float
    seconds: float
    started: float = float("-inf")
    here: bool = False
    unit: int = 0


class Policy(Protocol):
    """A stateless rule: the same candidates and decision number give the same choice.

    `candidates` are in list order, except that the one with `here` comes first, so that ties keep locality; `decision`
    counts decisions from 0.
    """

    name: str
    about: str

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:
        """Return one of the candidates."""
        ...


@dataclass(frozen=True)
class ExactOrder:
    """Order of the shortest schedule by a solver, for small fleets (`optimal_schedule.prepare_policy`).

        devices = 2, models of 4, 4 and 8 units  0 | c c c c c c c c      `starts` of each (model, unit) are the solver's;
                                                 1 | a a a a b b b b      makespan 8 = the lower bound 16 / 2

    Units unknown to the solver, such as those of a model added later, come last, with the longest remaining model first.
    """

    starts: Mapping[tuple[int, int], float] = field(default_factory=dict)

    name = "exact"
    about = "the optimal schedule by a solver, without transfers; small fleets only"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: (self.starts.get((each.model, each.unit), float("inf")), -each.remaining))


class FirstInList:
    """First idle model of the list, like a job queue.

    devices = 2, three models of 4 units     0 | a a a a c c c c      makespan 8; the lower bound is 6
                                             1 | b b b b
    """

    name = "first-in-list"
    about = "the first idle model of the list"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: each.model)


@dataclass(frozen=True, slots=True)
class RandomOrder:
    """Random idle model: the baseline of Hydra's figure 7. The same seed gives the same schedule."""

    seed: int = 0
    name = "random"
    about = "a random idle model"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:
        return random.Random(f"{self.seed} {decision}").choice(candidates)  # noqa: S311 - not for cryptography


class RoundRobin:
    """Model that has waited longest.

    devices = 2, three models of 4 units     0 | a c b c b b      fair; among unequal models the longest ends late
                                             1 | b a a a c c
    """

    name = "round-robin"
    about = "the model that has waited longest for a turn"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: (each.started, each.model))


class ShardedLrtf:
    """Sharded longest remaining time first: the model with the most compute left (Hydra, Algorithm 2).

        devices = 2, three models of 4 units     0 | a c c c b b      ties prefer the device with their shard, then list order
                                                 1 | b b a a a c      makespan 6 = the lower bound 12 / 2

    This avoids a long model running alone at the end while other devices idle. A list schedule is at most (2 - 1/P) times
    the optimum (Graham 1966); linear in the number of models.
    """

    name = "sharded-lrtf"
    about = "longest remaining time first"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return max(candidates, key=lambda each: each.remaining)  # the first of ties


class Shortest:
    """Shortest remaining time first: models finish early one by one, and a long one runs alone at the end.

    devices = 2, models of 4, 4 and 8 units  0 | a a a a c c c c c c c c      makespan 12; the lower bound is 8
                                             1 | b b b b
    """

    name = "shortest"
    about = "shortest remaining time first"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:  # noqa: ARG002
        return min(candidates, key=lambda each: each.remaining)


ALL_POLICIES: tuple[Policy, ...] = (ShardedLrtf(), RandomOrder(), FirstInList(), Shortest(), RoundRobin())
"""Policies that decide at run time."""

MENU: tuple[Policy, ...] = (*ALL_POLICIES, ExactOrder())
"""All policies, including the one that needs all units in advance (`optimal_schedule.prepare_policy`)."""


def policy_named(name: str) -> Policy:
    """Return the policy of that name; raises `FleetError` with the known names."""
    policy = next((candidate for candidate in MENU if candidate.name == name), None)
    if policy is None:
        raise FleetError(*unknown_name("policy", name, (candidate.name for candidate in MENU)))
    return policy
