"""A pipelined step from the reports of its parts, in closed form.

Letters: p stages, m micro-batches a step, v chunks of layers a device holds (interleaving; 1 is none), t_k the time of one micro-batch's
forward and backward pass on stage k.

- Time: the slowest stage works without a gap, m t_max, while the pipeline fills and drains over the others, once for each chunk
  (GPipe, Huang et al. 2019, section 2.3; one-forward-one-backward takes as long, Narayanan et al. 2021a; interleaved, Narayanan et al.
  2021b, arXiv:2104.04473, section 2.2, where it is 1/v as long): m t_max + (sum of the other t_k) / v. With equal stages this is the
  bubble (p - 1) / (v m).
- Between stages: a micro-batch's activations go one way and their gradients the other, 2 v times over; the same fill and drain.
- Memory: stage k (from 0) keeps what the backward pass reads of p - k micro-batches, and at most m (one-forward-one-backward); with
  interleaving of 1 + (p - 1) / (p v) times p (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.3) on the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """One-forward-one-backward over `stages`, each device with `chunks` of the layers, `micro_batches` a step.

    **Invariants**

    - All three are whole numbers from 1.
    """

    stages: int
    micro_batches: int
    chunks: int = 1

    @property
    def bubble(self) -> float:
        """Idle share of a step, in working time of equal stages.

        >>> Schedule(stages=4, micro_batches=8).bubble, Schedule(stages=8, micro_batches=64, chunks=3).bubble
        (0.375, 0.036458333333333336)
        """
        return (self.stages - 1) / (self.chunks * self.micro_batches)

    def in_flight(self, stage: int) -> float:
        """Micro-batches whose activations a stage keeps at its worst moment.

        >>> Schedule(stages=4, micro_batches=8).in_flight(0), Schedule(stages=4, micro_batches=8, chunks=2).in_flight(0)
        (4, 5.5)
        """
        one = min(self.stages - stage, self.micro_batches)
        if self.chunks == 1:
            return one
        return min(self.stages - stage + (self.stages - 1) / self.chunks, self.micro_batches)


@dataclass(frozen=True, slots=True)
class PipelineTime:
    """Seconds of one step: `work` of the slowest stage, `bubble`, `transfer` between stages, `update` (reduction of gradients over
    replicas, optimiser)."""

    work: float
    bubble: float
    transfer: float
    update: float

    @property
    def total(self) -> float:
        return self.work + self.bubble + self.transfer + self.update


def pipeline_time(schedule: Schedule, micro_batch: Sequence[float], transfer: float = 0.0, update: float = 0.0) -> PipelineTime:
    """A step from the seconds of one micro-batch on each stage, of one transfer between stages, and of the slowest update.

    >>> pipeline_time(Schedule(stages=4, micro_batches=8), [1.0] * 4).total
    11.0
    """
    slowest = max(micro_batch)
    transfers = 2 * schedule.chunks * (schedule.micro_batches + (schedule.stages - 1) / schedule.chunks) if schedule.stages > 1 else 0
    return PipelineTime(
        work=schedule.micro_batches * slowest,
        bubble=(sum(micro_batch) - slowest) / schedule.chunks,
        transfer=transfers * transfer,
        update=update,
    )


def stage_memory(held: int, kept: int, passing: int, in_flight: float) -> float:
    """Bytes of a stage at its worst moment: `held` throughout (parameters, gradients, optimiser state), `kept` of each micro-batch between
    its forward and backward pass, `passing` while one is worked on, beyond what it keeps."""
    return held + kept * in_flight + passing
