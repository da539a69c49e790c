"""The interface of a policy: which of the eligible models runs its next unit on a device that is free (Hydra's scheduler)."""

from collections.abc import Sequence
from dataclasses import dataclass
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
