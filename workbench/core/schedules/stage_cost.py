"""The cost of one stage for one micro-batch: all that balancing and simulation know of a network."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Payload = tuple[tuple[tuple[tuple[str, ...], str], int], ...]
"""Payload bytes on one device, by (mesh axes, kind), of the collectives inside a stage."""


class Halves(NamedTuple):
    """Bytes beyond `resident` of one micro-batch whose backward task is done in two halves: while the gradient of the stage's input is
    computed, what then waits for the second half, and while the gradient of the weights is computed; each with the micro-batch's
    residuals."""

    input: int
    waiting: int
    weight: int


class AtWork(NamedTuple):
    """Bytes beyond `resident` of one micro-batch during its forward task and during its whole backward task, at the worst moment of each:
    what they read, what they return and what they have besides."""

    forward: int
    backward: int


@dataclass(frozen=True, slots=True)
class StageCost:
    """Seconds and bytes of one stage, on one device of it; virtual stages are numbered from 0 in the order of the network.

    - `forward`, `backward_input`, `backward_weight`: seconds of one micro-batch: forward, the gradient of the stage's input, the gradient
      of its weights. Recomputation is not in them: it costs `forward` once more, and the simulation adds it.
    - `resident`: bytes throughout: parameters, their gradients, optimiser state.
    - `batch_inputs`: bytes of one micro-batch's batch data; those of all of them are held from the start of the step, each until its last
      read.
    - `residuals`: bytes that a micro-batch's backward pass reads, from its forward pass on, without recomputation. Batch data counts.
    - `input_activations`: bytes of the stage's inputs for one micro-batch; with recomputation all that is kept of one. Batch data counts.
    - `transient`: bytes beyond `resident` and `residuals` while a task runs, where `at_work` is not given.
    - `sends`: (later stage, bytes of one micro-batch) for each stage that reads what this one makes: the next one, and those of skips.
    - `at_work`: for a micro-batch that is not recomputed and for one that is; if not given, residuals, recomputed or not, and `transient`.
    - `halves`: for a micro-batch that is not recomputed and for one that is; if not given, all residuals wait for both halves.
    - `sent_forward`, `sent_both`: payload of the collectives inside the stage in a forward task, and in a forward and a backward one.
    - `outgoing_forward`, `outgoing_both`: bytes that leave one device in these collectives, on rings.
    - `flops_forward`, `flops_both`: FLOP of dots on one device in a forward task, and in a forward and a backward one.
    - `update`, `sent_update`: once a step, seconds of the optimiser and of summing gradients over the devices that share the micro-batches,
      and the payload of that sum.
    - `borrowed_grads`: bytes of accumulated gradients that come from other stages, or from among the devices, for the update.

    **Invariants**

    - No figure is negative; stages of `sends` are later than this one, each named once.
    """

    forward: float
    backward_input: float
    backward_weight: float
    resident: int = 0
    residuals: int = 0
    transient: int = 0
    input_activations: int = 0
    sends: tuple[tuple[int, int], ...] = ()
    update: float = 0.0
    batch_inputs: int = 0
    borrowed_grads: int = 0
    at_work: tuple[AtWork, AtWork] | None = None
    halves: tuple[Halves, Halves] | None = None
    sent_forward: Payload = ()
    sent_both: Payload = ()
    sent_update: Payload = ()
    outgoing_forward: int = 0
    outgoing_both: int = 0
    flops_forward: int = 0
    flops_both: int = 0

    def at_work_of(self, *, recomputed: bool) -> AtWork:
        """Bytes at work of one micro-batch.

        >>> cost = StageCost(1.0, 1.0, 1.0, residuals=8, transient=2, input_activations=4)
        >>> cost.at_work_of(recomputed=False), cost.at_work_of(recomputed=True)
        (AtWork(forward=10, backward=10), AtWork(forward=6, backward=14))
        """
        if self.at_work is not None:
            return self.at_work[recomputed]
        between = self.residuals_of(recomputed=recomputed)
        return AtWork(between + self.transient, between + self.transient + (self.residuals if recomputed else 0))

    def halves_of(self, *, recomputed: bool) -> Halves:
        """Bytes of the two halves of one micro-batch's backward task.

        >>> StageCost(1.0, 1.0, 1.0, residuals=8, transient=2).halves_of(recomputed=False)
        Halves(input=10, waiting=8, weight=10)
        """
        if self.halves is not None:
            return self.halves[recomputed]
        waiting = self.residuals_of(recomputed=recomputed) + (self.residuals if recomputed else 0)
        return Halves(waiting + self.transient, waiting, waiting + self.transient)

    def residuals_of(self, *, recomputed: bool) -> int:
        """Bytes of one micro-batch between its forward and its backward task."""
        return self.input_activations if recomputed else self.residuals

    @property
    def backward(self) -> float:
        """Seconds of both gradients of one micro-batch.

        >>> StageCost(1.0, 1.0, 0.5).backward
        1.5
        """
        return self.backward_input + self.backward_weight

    @property
    def work(self) -> float:
        """Seconds of a micro-batch without recomputation."""
        return self.forward + self.backward


def sum_payloads(payloads: Iterable[Payload], times: int = 1) -> Payload:
    """Several payloads added, `times` over.

    >>> sum_payloads([(((("data",), "all-reduce"), 2),)] * 2, times=3)
    (((('data',), 'all-reduce'), 12),)
    """
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for payload in payloads:
        for key, count in payload:
            sums[key] = sums.get(key, 0) + times * count
    return tuple(sums.items())


def equal_stages(
    stages: int, forward: float = 1.0, backward_input: float = 1.0, backward_weight: float = 1.0, sent: int = 0
) -> tuple[StageCost, ...]:
    """Stages that cost alike, each sending `sent` bytes of a micro-batch to the next.

    >>> [stage.sends for stage in equal_stages(3, sent=8)]
    [((1, 8),), ((2, 8),), ()]
    """
    return tuple(
        StageCost(
            forward,
            backward_input,
            backward_weight,
            input_activations=sent,
            sends=((stage + 1, sent),) if sent and stage + 1 < stages else (),
        )
        for stage in range(stages)
    )


def receives(costs: Sequence[StageCost]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each stage: (earlier stage, bytes of one micro-batch), as those stages' `sends` say; the stage before it is always listed, with 0
    bytes if it sends nothing, for a stage waits for it all the same."""
    found: list[dict[int, int]] = [{stage - 1: 0} if stage else {} for stage in range(len(costs))]
    for stage, cost in enumerate(costs):
        for later, count in cost.sends:
            found[later][stage] = count
    return tuple(tuple(sorted(each.items())) for each in found)
