"""The cost of one stage for one micro-batch: the only input of balancing and simulation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Payload = tuple[tuple[tuple[tuple[str, ...], str], int], ...]
"""Payload bytes per device of the collectives inside a stage, by (mesh axes, kind)."""


class Halves(NamedTuple):
    """Bytes beyond `resident` of a split backward task, with residuals: during and between its halves."""

    input: int
    waiting: int
    weight: int


class AtWork(NamedTuple):
    """Peak bytes beyond `resident` of one micro-batch in its forward and whole backward task, with inputs and results."""

    forward: int
    backward: int


@dataclass(frozen=True, slots=True)
class StageCost:
    """Seconds and bytes of one stage on one of its devices; virtual stages are numbered from 0 in network order.

    - `forward`, `backward_input`, `backward_weight`: seconds of one micro-batch: forward, gradient of the stage's
      input, gradient of its weights. Without recomputation, for which the simulation adds `forward` once more.
    - `resident`: bytes throughout: parameters, their gradients, optimizer state.
    - `batch_inputs`: bytes of one micro-batch's batch data; all of them are held from the start of the step, each until
      its last read.
    - `residuals`: bytes that a micro-batch's backward pass reads, from its forward pass on, without recomputation;
      includes batch data.
    - `input_activations`: bytes of the stage's inputs for one micro-batch, all that is kept with recomputation;
      includes batch data.
    - `transient`: bytes beyond `resident` and `residuals` while a task runs, if `at_work` is not given.
    - `sends`: (later stage, bytes of one micro-batch) for each stage that reads this one's results: the next one, and
      skips.
    - `at_work`: (without, with) recomputation; default: residuals, recomputed or not, and `transient`.
    - `halves`: (without, with) recomputation; default: all residuals wait for both halves.
    - `sent_forward`, `sent_both`: payload of the collectives inside the stage in a forward task, and in a forward and a
      backward task.
    - `outgoing_forward`, `outgoing_both`: bytes that leave one device in these collectives, on rings.
    - `flops_forward`, `flops_both`: FLOP of dots on one device, likewise.
    - `update`, `sent_update`: once per step, seconds of the optimizer and of the gradient sum over data-parallel
      devices, and the payload of that sum.
    - `borrowed_grads`: bytes of accumulated gradients that other stages or devices send for the update.

    **Invariants**

    - No figure is negative; stages in `sends` are later than this one and unique.
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
        """Return the bytes at work of one micro-batch.

        >>> cost = StageCost(1.0, 1.0, 1.0, residuals=8, transient=2, input_activations=4)
        >>> cost.at_work_of(recomputed=False), cost.at_work_of(recomputed=True)
        (AtWork(forward=10, backward=10), AtWork(forward=6, backward=14))
        """
        if self.at_work is not None:
            return self.at_work[recomputed]
        residuals = self.residuals_of(recomputed=recomputed)
        return AtWork(residuals + self.transient, residuals + self.transient + (self.residuals if recomputed else 0))

    def halves_of(self, *, recomputed: bool) -> Halves:
        """Return the bytes of the two halves of one micro-batch's backward task.

        >>> StageCost(1.0, 1.0, 1.0, residuals=8, transient=2).halves_of(recomputed=False)
        Halves(input=10, waiting=8, weight=10)
        """
        if self.halves is not None:
            return self.halves[recomputed]
        waiting = self.residuals_of(recomputed=recomputed) + (self.residuals if recomputed else 0)
        return Halves(waiting + self.transient, waiting, waiting + self.transient)

    def residuals_of(self, *, recomputed: bool) -> int:
        """Return the bytes of one micro-batch between its forward and its backward task."""
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
    """Sum payloads, multiplied by `times`.

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
    """Return stages of equal cost, each sending `sent` bytes per micro-batch to the next.

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
    """Return (earlier stage, bytes per micro-batch) of each stage, always with the previous one, which it awaits."""
    sources: list[dict[int, int]] = [{stage - 1: 0} if stage else {} for stage in range(len(costs))]
    for stage, cost in enumerate(costs):
        for later, count in cost.sends:
            sources[later][stage] = count
    return tuple(tuple(sorted(by_source.items())) for by_source in sources)
