import random
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.multimodel.policies.policy import Candidate


@dataclass(frozen=True, slots=True)
class RandomOrder:
    """Any idle model with equal probability: the baseline of Hydra's figure 7. The same seed gives the same schedule."""

    seed: int = 0
    name = "random"
    about = "any idle model, each as likely"

    def choose(self, candidates: Sequence[Candidate], decision: int) -> Candidate:
        return random.Random(f"{self.seed} {decision}").choice(candidates)  # noqa: S311 - not for cryptography
