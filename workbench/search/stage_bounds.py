"""What no schedule and no partition can beat: the least seconds of a step and the least bytes of a device, from the costs of blocks alone.

Letters: p devices, v chunks, K = p v virtual stages, m micro-batches, n blocks; block i takes W_i seconds of a micro-batch, recomputation
with it. A device cannot begin before a micro-batch has gone through the blocks before its first one, and after its last backward pass one
must go back through them:

    step >= forward of the blocks before + m x work of its blocks + backward of the blocks before         (backward in one task)
    step >= forward of the blocks before + m x work of its blocks + its update                            (in two)

GPipe and one-forward-one-backward with equal stages and free transfers reach it: (m + p - 1) (F + B). Which blocks a stage has is not
decided here: the bound is that of the partition for which it is least. With one chunk a device that is found by bisection (how far can each
stage reach, in order, if none may need more than T?). With several, of the mean over devices: they do m times all the work, and wait for
the chunks before.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules import PipelineShape, Schedule, schedule_named

Array = NDArray[np.float64]
_PRECISION = 1e-4
"""Of bisection: the bound is that much of itself below the least for all partitions, at most."""
_ROUNDING = 1 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BlockTotals:
    """Costs of the blocks of a network for one micro-batch on one device, each an array float64[blocks]: seconds forward and of the two
    gradients; bytes kept inside a block for its backward pass, bytes of what it is sent (`received`), of parameters, gradients and
    optimiser's state that it is the first to use (`resident`), and of those gradients that replicas sum at the end of the step (`summed`).
    """

    forward: Array
    backward_input: Array
    backward_weight: Array
    kept: Array
    received: Array
    resident: Array
    summed: Array

    @property
    def work(self) -> Array:
        return self.forward + self.backward_input + self.backward_weight


@dataclass(frozen=True, slots=True)
class LeastFigures:
    """Least seconds of a step, least bytes of the fullest device."""

    seconds: float
    memory: float


def least_figures(spec: PipelineSpec, blocks: BlockTotals, bandwidth: float, sum_seconds: Callable[[int], float]) -> LeastFigures:
    """The bounds of a pipeline, whatever its partition.

    `bandwidth`: of a device's memory, bytes a second, which the update needs twice over for all that is resident; `sum_seconds`: of summing
    so many bytes of gradients over the replicas, at least in proportion to the bytes.
    """
    schedule, shape = schedule_named(spec.schedule), PipelineShape(spec.stages, spec.micro_batches, spec.chunks)
    problem = _StageProblem(spec, schedule, shape, blocks, _update_seconds(blocks, bandwidth, sum_seconds))
    return LeastFigures(problem.least_seconds() * _ROUNDING, problem.least_memory() * _ROUNDING)


def _update_seconds(blocks: BlockTotals, bandwidth: float, sum_seconds: Callable[[int], float]) -> Array:
    """float64[blocks]: seconds of each block's part of an update. A sum has a latency besides, which is shared out here."""
    total = float(blocks.summed.sum())
    slope = sum_seconds(int(total)) / total if total else 0.0
    return blocks.resident * (2 / bandwidth) + blocks.summed * slope


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far a stage gets that begins at block `start`: to the last block whose `end`, with what the stage's `begin` adds, is within a
    limit. Lists, for `bisect` looks into them faster than NumPy into an array."""

    end: list[float]
    begin: list[float]

    def of(self, start: int, limit: float) -> int:
        return bisect_right(self.end, limit - self.begin[start]) - 1


def _before(values: Array) -> Array:
    """float64[blocks + 1]: the sum of the values before each block, and of all."""
    return np.concatenate(([0.0], np.cumsum(values)))


@dataclass(frozen=True, slots=True, eq=False)
class _StageProblem:
    """`update`: seconds of each block's part of it."""

    spec: PipelineSpec
    schedule: Schedule
    shape: PipelineShape
    blocks: BlockTotals
    update: Array

    @property
    def again(self) -> Array:
        """Seconds of recomputation."""
        return self.blocks.forward if self.spec.remat == "always" else np.zeros_like(self.blocks.forward)

    def least_seconds(self) -> float:
        m, work = self.spec.micro_batches, _before(self.again + self.blocks.work)
        forward, update = _before(self.blocks.forward), _before(self.update)
        back = np.zeros_like(work) if self.schedule.splits_backward else work - forward
        mean = (m * work[-1] + update[-1] + self._mean_wait(forward)) / self.spec.stages
        if self.spec.chunks > 1:
            return float(max(mean, (m * work[-1] + self._mean_wait(forward + back)) / self.spec.stages))
        ends = ((m * work + update, forward - m * work - update), (m * work, forward + back - m * work))

        reaches = [_Reach(end.tolist(), begin.tolist()) for end, begin in ends]

        def reach(_: int, start: int, limit: float) -> int:
            return min(each.of(start, limit) for each in reaches)

        return self._bisect(reach, float(mean), float(m * work[-1] + update[-1] + forward[-1] + back[-1]))

    def _mean_wait(self, passed: Array) -> float:
        """Seconds that all devices together wait for the chunks before their first: each of these has one block at least."""
        firsts = [min(k for k in range(self.spec.virtual_stages) if self._device_of(k) == device) for device in range(self.spec.stages)]
        return float(sum(passed[min(first, len(passed) - 1)] for first in firsts))

    def _device_of(self, stage: int) -> int:
        return self.schedule.device_of(stage, self.shape)

    def least_memory(self) -> float:
        resident, kept = _before(self.blocks.resident), _before(self.blocks.kept)
        recomputes, received = self.spec.remat == "always", self.blocks.received
        entry = float(received[1:].min(initial=np.inf)) if len(received) > 1 else 0.0  # of a stage that begins behind the first block
        waiting = [1 if self.schedule.splits_backward else self.schedule.in_flight(d, self.shape) for d in range(self.spec.stages)]
        if self.spec.chunks > 1:
            least = entry if recomputes else float(self.blocks.kept.min())
            held = [0.0 if recomputes and not device else count * least for device, count in enumerate(waiting)]
            return float((resident[-1] + sum(held)) / self.spec.stages)

        ends = {count: (resident if recomputes else resident + count * kept).tolist() for count in {*waiting}}
        reaches = {count: _Reach(end, [-each for each in end]) for count, end in ends.items()}

        def reach(device: int, start: int, limit: float) -> int:
            held = waiting[device] * entry if recomputes and start else 0.0
            return reaches[waiting[device]].of(start, limit - held)

        return self._bisect(
            reach, float(resident[-1] / self.spec.stages), float(resident[-1] + max(waiting) * (kept[-1] + float(received.sum())))
        )

    def _bisect(self, reach: Callable[[int, int, float], int], low: float, high: float) -> float:
        """The least limit, from below, within which every stage in order reaches far enough: `reach(stage, start, limit)` is the end of the
        longest stage that begins at block `start`; it ends no earlier for a later start."""
        if self._fits(reach, low):
            return low
        step = max(low, high * _PRECISION) / 8
        while low + step < high and not self._fits(reach, low + step):
            low, step = low + step, 2 * step
        high = min(high, low + step)
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self._fits(reach, middle) else (middle, high)
        return low

    def _fits(self, reach: Callable[[int, int, float], int], limit: float) -> bool:
        """Whether the stages get past all blocks. One that fits nothing more is passed over: if the one before left it a block, they
        would be no further."""
        start, blocks = 0, len(self.blocks.forward)
        for stage in range(self.spec.stages):
            start = max(start, min(reach(stage, start, limit), blocks - (self.spec.stages - stage - 1)))
        return start == blocks
