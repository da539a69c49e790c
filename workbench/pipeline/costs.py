"""What one stage costs for one micro-batch: all that balancing and simulation know of a network."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageCost:
    """Seconds and bytes of one stage, on one device of it; consecutive pieces of a network are numbered from 0 as the stages are.

    - `forward`, `backward_input`, `backward_weight`: seconds of one micro-batch: forward, the gradient of what the stage was given, the
      gradient of its weights. Recomputation is not in them: it costs `forward` once more, and the simulation adds it.
    - `held`: bytes throughout: parameters, their gradients, optimiser state.
    - `kept`: bytes that a micro-batch's backward pass reads, from its forward pass on, without recomputation.
    - `entering`: bytes of what the stage is given for one micro-batch; with recomputation all that is kept of one. Batch data counts.
    - `passing`: bytes beyond `held` and `kept` while a micro-batch is worked on.
    - `sends`: (later stage, bytes of one micro-batch) for each stage that reads what this one makes: the next one, and those of skips.
    - `remade`: bytes beyond `held` while a backward task that recomputes is at its worst, `passing` included; not said, `kept` and
      `passing` (a compiler fuses, and need not have all of them at once).
    - `update`: seconds of the optimiser's step and of the sum over replicas, once a step.

    **Invariants**

    - No figure is negative; stages of `sends` are later than this one, each named once.
    """

    forward: float
    backward_input: float
    backward_weight: float
    held: int = 0
    kept: int = 0
    passing: int = 0
    entering: int = 0
    sends: tuple[tuple[int, int], ...] = ()
    update: float = 0.0
    remade: int | None = None

    @property
    def recomputed(self) -> int:
        """Bytes more than `passing` while a backward task that recomputes is at work.

        >>> StageCost(1.0, 1.0, 1.0, kept=8, passing=2).recomputed, StageCost(1.0, 1.0, 1.0, kept=8, passing=2, remade=7).recomputed
        (8, 5)
        """
        return self.kept if self.remade is None else max(self.remade - self.passing, 0)

    @property
    def backward(self) -> float:
        """Seconds of both gradients.

        >>> StageCost(1.0, 1.0, 0.5).backward
        1.5
        """
        return self.backward_input + self.backward_weight

    @property
    def work(self) -> float:
        """Seconds of a micro-batch without recomputation."""
        return self.forward + self.backward


def equal_stages(
    stages: int, forward: float = 1.0, backward_input: float = 1.0, backward_weight: float = 1.0, sent: int = 0
) -> tuple[StageCost, ...]:
    """Stages that cost alike, each sending `sent` bytes of a micro-batch to the next.

    >>> [stage.sends for stage in equal_stages(3, sent=8)]
    [((1, 8),), ((2, 8),), ()]
    """
    return tuple(
        StageCost(
            forward, backward_input, backward_weight, entering=sent, sends=((stage + 1, sent),) if sent and stage + 1 < stages else ()
        )
        for stage in range(stages)
    )


def receives(costs: Sequence[StageCost]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Of each stage: (earlier stage, bytes of one micro-batch), as those stages' `sends` say; the stage before always, with 0 bytes if
    it sends nothing, for a stage waits for it all the same."""
    found: list[dict[int, int]] = [{stage - 1: 0} if stage else {} for stage in range(len(costs))]
    for stage, cost in enumerate(costs):
        for later, count in cost.sends:
            found[later][stage] = count
    return tuple(tuple(sorted(each.items())) for each in found)
