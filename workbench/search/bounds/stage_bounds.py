"""Lower bounds for every schedule and partition, from block costs alone: seconds of a step and bytes of a device.

Letters: p devices, v chunks, K = p v virtual stages, m micro-batches, n blocks; block i takes W_i seconds of a
micro-batch, including recomputation. A device cannot begin before a micro-batch has passed through the blocks before
its first one, and after its last backward pass a micro-batch must go back through them.

A step takes at least
    step >= forward of the blocks before + m x work of its blocks + backward of the blocks before         (backward in one task)
    step >= forward of the blocks before + m x work of its blocks + its update                            (in two)

GPipe and 1F1B with equal stages and free transfers reach it: (m + p - 1) (F + B). The bound does not choose the blocks
of a stage: it is the bound of the best partition. With one chunk per device, bisection finds that partition (how far
can each stage reach, in order, if none may need more than T?). With several chunks, the bound uses the mean over
devices: together they do m times all the work, and each waits for the chunks before it. If only the first stages
recompute, there are two means, over recomputing and over other devices, which share the blocks in the best way. No
candidate uses `except_last` (recomputation of all micro-batches but the last), so it has no bound here.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules import PipelineShape, Schedule, schedule_named
from workbench.core.schedules.schedule import Kind

Array = NDArray[np.float64]
_PRECISION = 1e-4
"""Relative precision of bisection: the bound is at most this share below the minimum over all partitions."""
_ROUNDING = 1 - 1e-9
_TINY = 1e-30
"""Seconds; avoids division by zero for a block without work, whose place in the order does not matter."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockTotals:
    """Costs of the blocks of a network for one micro-batch on one device, each an array float64[blocks].

    - `forward`, `backward_input`, `backward_weight`: seconds;
    - `kept`: bytes of residuals inside a block; `received`: bytes of its input activations;
    - `resident`: bytes of parameters, gradients and optimizer state that the block uses first;
    - `summed`: bytes of the gradients among them that replicas sum at the end of the step.
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
    """Lower bounds: seconds of a step and bytes on the fullest device."""

    seconds: float
    memory: float


def least_figures(spec: PipelineSpec, blocks: BlockTotals, bandwidth: float, sum_seconds: Callable[[int], float]) -> LeastFigures:
    """Compute the bounds of a pipeline for every partition.

    - `bandwidth`: memory bandwidth of a device in bytes per second; the update reads and writes all resident bytes;
    - `sum_seconds`: time to sum a number of gradient bytes over the replicas, at least proportional to the bytes.
    """
    schedule, shape = schedule_named(spec.schedule), PipelineShape(spec.stages, spec.micro_batches, spec.chunks)
    problem = _StageProblem(spec, schedule, shape, blocks, update_seconds(blocks, bandwidth, sum_seconds))
    return LeastFigures(problem.least_seconds() * _ROUNDING, problem.least_memory() * _ROUNDING)


def least_slowdown(schedule: str, stages: int, micro_batches: int, chunks: int) -> float:
    """Lower bound on the step time as a multiple of the mean busy time per device, for any blocks.

    With one chunk per device and backward in one task, the first bound of the module is `T >= sum of W_j for j < i + m
    W_i` for each stage i. The smallest such T has equality for all stages, so each stage takes `1 - 1/m` of the work of
    the one before: `T = W / (1 - (1 - 1/m)^p)`.

    >>> round(least_slowdown("1f1b", 8, 6, 1), 3), round(least_slowdown("1f1b", 1, 6, 1), 3)
    (1.737, 1.0)
    """
    if chunks > 1 or schedule_named(schedule).splits_backward:
        return 1.0
    return max(1.0, _ROUNDING * stages / micro_batches / (1 - (1 - 1 / micro_batches) ** stages))


def update_seconds(blocks: BlockTotals, bandwidth: float, sum_seconds: Callable[[int], float]) -> Array:
    """Update seconds per block: float64[blocks]. The latency of the gradient sum is distributed over the blocks."""
    total = float(blocks.summed.sum())
    slope = sum_seconds(int(total)) / total if total else 0.0
    return blocks.resident * (2 / bandwidth) + blocks.summed * slope


_Bound = tuple[list[float], list[float]]
"""A lower bound of a stage's figure as two terms per block: of its end and of its beginning. A stage that begins at
block `start` reaches the last block whose two terms are within a limit. Lists, because `bisect` is faster on a list
than on a NumPy array.
"""


def _before(values: Array) -> Array:
    """Exclusive prefix sums with the total at the end: float64[blocks + 1]."""
    return np.concatenate(([0.0], np.cumsum(values)))


@cache
def in_flight_per_chunk(schedule: Schedule, device: int, shape: PipelineShape) -> tuple[int, ...]:
    """Micro-batches in flight per chunk of a device, in network order, when its first backward task begins."""
    tasks = takewhile(lambda task: task.kind is Kind.FORWARD, schedule.order(device, shape))
    counts = Counter(task.stage for task in tasks)
    stages = (stage for stage in range(shape.stages) if schedule.device_of(stage, shape) == device)
    return tuple(counts[stage] for stage in stages)


@dataclass(frozen=True, eq=False)
class _StageProblem:
    """`update`: seconds of each block's part of the update."""

    spec: PipelineSpec
    schedule: Schedule
    shape: PipelineShape
    blocks: BlockTotals
    update: Array

    def _work(self, *, recomputed: bool) -> Array:
        """Seconds of a micro-batch: float64[blocks]."""
        return self.blocks.work + self.blocks.forward if recomputed else self.blocks.work

    def _back(self, *, recomputed: bool) -> Array:
        """Backward seconds through the blocks before each block: float64[blocks + 1]. Includes the recomputation that
        every partition needs, or of all blocks if `recomputed`. Zero if a device may end with weight gradients.
        """
        if self.schedule.splits_backward:
            return np.zeros(len(self.blocks.forward) + 1)
        count = len(self.blocks.forward) if recomputed else self._sure_again()
        again = np.where(np.arange(len(self.blocks.forward)) < count, self.blocks.forward, 0.0)
        return _before(self.blocks.work - self.blocks.forward + again)

    def _sure_again(self) -> int:
        """Number of leading blocks that every partition recomputes: one per leading virtual stage that recomputes."""
        stages = range(self.spec.virtual_stages)
        first = next((k for k in stages if self._device_of(k) >= self.spec.recomputing_stages), None)
        return len(self.blocks.forward) if first is None else first

    def least_seconds(self) -> float:
        forward, nothing = _before(self.blocks.forward), np.zeros_like(self.update)
        mean = self._least_mean(self.update, forward)
        if self.spec.chunks > 1:
            return max(mean, self._least_mean(nothing, forward + self._back(recomputed=False)))
        first, ends = self.spec.recomputing_stages, {recomputed: self._ends(recomputed=recomputed) for recomputed in (False, True)}
        bounds = {key: [(end.tolist(), begin.tolist()) for end, begin in pairs] for key, pairs in ends.items()}
        (whole, _), _ = ends[first > 0]
        of_stages = [bounds[device < first] for device in range(self.spec.stages)]
        return self._bisect(of_stages, mean, float(whole[-1] + forward[-1] + self._back(recomputed=first > 0)[-1]))

    def _ends(self, *, recomputed: bool) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Two lower bounds of the seconds of a device with one chunk, as terms of its end and its beginning."""
        work, update = self.spec.micro_batches * _before(self._work(recomputed=recomputed)), _before(self.update)
        forward, back = _before(self.blocks.forward), self._back(recomputed=recomputed)
        return (work + update, forward - work - update), (work, forward + back - work)

    def _least_mean(self, once: Array, passed: Array) -> float:
        """Lower bound on the seconds of the slowest device, from the means over recomputing and over other devices.
        Blocks are distributed, in fractions if necessary, so that the longer mean is minimal; recomputing devices
        first get the blocks that are cheapest to recompute relative to their work. `once`: seconds per step of each
        block, float64[blocks]; `passed`: seconds before each block, float64[blocks + 1].
        """
        m, p, first = self.spec.micro_batches, self.spec.stages, self.spec.recomputing_stages
        plain, again = (m * self._work(recomputed=recomputed) + once for recomputed in (False, True))
        waits = self._waits(passed)
        if first in (0, p):
            return float((sum(waits) + (again if first else plain).sum()) / p)
        order = np.argsort(again / np.maximum(plain, _TINY))
        ours = (sum(waits[:first]) + _before(again[order])) / first
        theirs = (sum(waits[first:]) + plain.sum() - _before(plain[order])) / (p - first)
        places = np.arange(len(ours), dtype=float)
        crossing = np.interp(0.0, ours - theirs, places)
        return float(max(np.interp(crossing, places, ours), np.interp(crossing, places, theirs)))

    def _waits(self, passed: Array) -> list[float]:
        """Seconds that each device waits for the chunks before its first; each of these has at least one block."""
        firsts = {self._device_of(k): k for k in reversed(range(self.spec.virtual_stages))}
        return [float(passed[min(firsts[device], len(passed) - 1)]) for device in range(self.spec.stages)]

    def _device_of(self, stage: int) -> int:
        return self.schedule.device_of(stage, self.shape)

    def least_memory(self) -> float:
        if self.spec.chunks > 1:
            return self._least_shared_memory()
        resident, kept = _before(self.blocks.resident), _before(self.blocks.kept)
        waiting = [in_flight_per_chunk(self.schedule, device, self.shape)[0] for device in range(self.spec.stages)]
        devices = [(count, device < self.spec.recomputing_stages) for device, count in enumerate(waiting)]
        bounds_of = {kind: self._held(*kind, resident, kept) for kind in dict.fromkeys(devices)}
        bounds = [bounds_of[kind] for kind in devices]
        received = float(self.blocks.received.sum())
        return self._bisect(bounds, float(resident[-1] / self.spec.stages), float(resident[-1] + max(waiting) * (kept[-1] + received)))

    def _held(self, count: int, recomputes: bool, resident: Array, kept: Array) -> list[_Bound]:
        """Bytes of a device with one chunk and `count` micro-batches in flight: residuals, or inputs if it recomputes."""
        end = resident + (0 if recomputes else count) * kept
        received = np.where(np.arange(len(end)) > 0, count * self._entry if recomputes else 0.0, 0.0)
        return [(end.tolist(), (received - end).tolist())]

    @cached_property
    def _entry(self) -> float:
        """Smallest input activation bytes of a stage that begins after the first block."""
        return float(self.blocks.received[1:].min()) if len(self.blocks.received) > 1 else 0.0

    def _least_shared_memory(self) -> float:
        """Lower bound on the bytes of the fullest device with several chunks per device, from fractional placement of
        all blocks. A device that keeps residuals holds those of each of its blocks for as many micro-batches as its
        least full chunk has in flight, and for each fuller chunk those of one more block. A recomputing device holds
        the inputs of its chunks. For any weights of the devices, the weighted mean of their bytes is at least the
        mean with each block on the device where it weighs least (linear programming duality). The weights make all
        devices equally good for the blocks as a whole.
        """
        flights = [in_flight_per_chunk(self.schedule, device, self.shape) for device in range(self.spec.stages)]
        kept, resident = self.blocks.kept, self.blocks.resident
        recomputes = np.arange(self.spec.stages) < self.spec.recomputing_stages
        counts = np.where(recomputes, 0, [min(counts_of) for counts_of in flights])
        fixed = np.array([self._held_beside(device, counts_of) for device, counts_of in enumerate(flights)])
        holding = resident.sum() + counts * kept.sum()
        weights = 1 / holding if holding.min() > 0 else np.ones(self.spec.stages)
        least = (weights[:, None] * (resident + counts[:, None] * kept)).min(axis=0).sum()
        return float((least + (weights * fixed).sum()) / weights.sum())

    def _held_beside(self, device: int, flights: Sequence[int]) -> float:
        """Bytes that a device holds for any blocks, with these numbers of micro-batches in flight per chunk."""
        if device < self.spec.recomputing_stages:
            return self._entry * sum(flights[1:] if device == 0 else flights)
        return float(self.blocks.kept.min()) * sum(count - min(flights) for count in flights)

    def _bisect(self, bounds: Sequence[Sequence[_Bound]], low: float, high: float) -> float:
        """The least limit, approximated from below, at which the stages cover all blocks."""
        if self._fits(bounds, low):
            return low
        step = max(low, high * _PRECISION) / 8
        while low + step < high and not self._fits(bounds, low + step):
            low, step = low + step, 2 * step
        high = min(high, low + step)
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self._fits(bounds, middle) else (middle, high)
        return low

    def _fits(self, bounds: Sequence[Sequence[_Bound]], limit: float) -> bool:
        """Whether the stages cover all blocks; stages that fit no further block are skipped."""
        start, blocks = 0, len(self.blocks.forward)
        furthest = blocks - len(bounds)
        for of_stage in bounds:
            furthest += 1  # leave one block for each later stage
            reached = furthest
            for end, begin in of_stage:
                reached = min(reached, bisect_right(end, limit - begin[start]) - 1)
            start = max(start, reached)
        return start == blocks
