"""What no schedule and no partition can beat: the least seconds of a step and the least bytes of a device, from the costs of blocks alone.

Letters: p devices, v chunks, K = p v virtual stages, m micro-batches, n blocks; block i takes W_i seconds of a micro-batch, recomputation
with it. A device cannot begin before a micro-batch has gone through the blocks before its first one, and after its last backward pass one
must go back through them:

    step >= forward of the blocks before + m x work of its blocks + backward of the blocks before         (backward in one task)
    step >= forward of the blocks before + m x work of its blocks + its update                            (in two)

GPipe and one-forward-one-backward with equal stages and free transfers reach it: (m + p - 1) (F + B). Which blocks a stage has is not
decided here: the bound is that of the partition for which it is least. With one chunk a device that is found by bisection (how far can each
stage reach, in order, if none may need more than T?). With several, of the mean over devices: they do m times all the work, and wait for
the chunks before. Where the first stages alone recompute, there are two means, of those that do and of those that do not, which share the
blocks as suits them best. No candidate recomputes all micro-batches but the last (`except_last`), and none has a bound here.
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
"""Of bisection: the bound is that much of itself below the least for all partitions, at most."""
_ROUNDING = 1 - 1e-9
_TINY = 1e-30
"""Seconds: of a block without work, whose place among the others is of no account."""


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
    problem = _StageProblem(spec, schedule, shape, blocks, update_seconds(blocks, bandwidth, sum_seconds))
    return LeastFigures(problem.least_seconds() * _ROUNDING, problem.least_memory() * _ROUNDING)


def least_slowdown(schedule: str, stages: int, micro_batches: int, chunks: int) -> float:
    """How many times as long as its devices work on average a step takes at least, whatever is known of its blocks.

    With one chunk a device, and backward in one task, the first bound above is `T >= sum of W_j for j < i  +  m W_i` for each stage i. The
    least such T has equality for all stages, each of which takes `1 - 1/m` of the work of the one before: `T = W / (1 - (1 - 1/m)^p)`.

    >>> round(least_slowdown("1f1b", 8, 6, 1), 3), round(least_slowdown("1f1b", 1, 6, 1), 3)
    (1.737, 1.0)
    """
    if chunks > 1 or schedule_named(schedule).splits_backward:
        return 1.0
    return max(1.0, _ROUNDING * stages / micro_batches / (1 - (1 - 1 / micro_batches) ** stages))


def update_seconds(blocks: BlockTotals, bandwidth: float, sum_seconds: Callable[[int], float]) -> Array:
    """float64[blocks]: seconds of each block's part of an update. A sum has a latency besides, which is shared out here."""
    total = float(blocks.summed.sum())
    slope = sum_seconds(int(total)) / total if total else 0.0
    return blocks.resident * (2 / bandwidth) + blocks.summed * slope


_Bound = tuple[list[float], list[float]]
"""A lower bound of a stage's figure, as what its end and its beginning add, by block: a stage that begins at block `start` gets to the last
block whose end, with its beginning, is within a limit. Lists, for `bisect` looks into them faster than NumPy into an array."""


def _before(values: Array) -> Array:
    """float64[blocks + 1]: the sum of the values before each block, and of all."""
    return np.concatenate(([0.0], np.cumsum(values)))


@cache
def chunk_flights(schedule: Schedule, device: int, shape: PipelineShape) -> tuple[int, ...]:
    """How many micro-batches of each chunk of a device, in the order of the network, are in flight when its first backward task begins."""
    tasks = takewhile(lambda task: task.kind is Kind.FORWARD, schedule.order(device, shape))
    counts = Counter(task.stage for task in tasks)
    stages = (stage for stage in range(shape.stages) if schedule.device_of(stage, shape) == device)
    return tuple(counts[stage] for stage in stages)


@dataclass(frozen=True, eq=False)
class _StageProblem:
    """`update`: seconds of each block's part of it."""

    spec: PipelineSpec
    schedule: Schedule
    shape: PipelineShape
    blocks: BlockTotals
    update: Array

    def _work(self, *, recomputed: bool) -> Array:
        """float64[blocks]: seconds of a micro-batch."""
        return self.blocks.work + self.blocks.forward if recomputed else self.blocks.work

    def _back(self, *, recomputed: bool) -> Array:
        """float64[blocks + 1]: seconds back through the blocks before each, `recomputed` or those that are however the network is
        partitioned; none where a device may end with gradients of weights."""
        if self.schedule.splits_backward:
            return np.zeros(len(self.blocks.forward) + 1)
        sure = len(self.blocks.forward) if recomputed else self._sure_again()
        again = np.where(np.arange(len(self.blocks.forward)) < sure, self.blocks.forward, 0.0)
        return _before(self.blocks.work - self.blocks.forward + again)

    def _sure_again(self) -> int:
        """How many blocks, the first ones, are recomputed whatever the partition: one for each of the first virtual stages that are."""
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
        """Of a device with one chunk: two lower bounds of its seconds, each as what its end and its beginning add. What is before a device
        that recomputes is recomputed too."""
        work, update = self.spec.micro_batches * _before(self._work(recomputed=recomputed)), _before(self.update)
        forward, back = _before(self.blocks.forward), self._back(recomputed=recomputed)
        return (work + update, forward - work - update), (work, forward + back - work)

    def _least_mean(self, once: Array, passed: Array) -> float:
        """The least seconds of the device that takes longest, from the mean of those that recompute and of those that do not: blocks are
        shared out, in parts if need be, so that the longer mean is least. The block whose recomputation costs least for its work goes first
        to those that do. `once` a step for each block: float64[blocks]; `passed` before each: float64[blocks + 1]."""
        m, p, first = self.spec.micro_batches, self.spec.stages, self.spec.recomputing_stages
        plain, again = (m * self._work(recomputed=recomputed) + once for recomputed in (False, True))
        waits = self._waits(passed)
        if first in (0, p):
            return float((sum(waits) + (again if first else plain).sum()) / p)
        order = np.argsort(again / np.maximum(plain, _TINY))
        ours = (sum(waits[:first]) + _before(again[order])) / first
        theirs = (sum(waits[first:]) + plain.sum() - _before(plain[order])) / (p - first)
        places = np.arange(len(ours), dtype=float)
        at = np.interp(0.0, ours - theirs, places)
        return float(max(np.interp(at, places, ours), np.interp(at, places, theirs)))

    def _waits(self, passed: Array) -> list[float]:
        """Seconds that each device waits for the chunks before its first: each of these has one block at least."""
        firsts = {self._device_of(k): k for k in reversed(range(self.spec.virtual_stages))}
        return [float(passed[min(firsts[device], len(passed) - 1)]) for device in range(self.spec.stages)]

    def _device_of(self, stage: int) -> int:
        return self.schedule.device_of(stage, self.shape)

    def least_memory(self) -> float:
        if self.spec.chunks > 1:
            return self._least_shared_memory()
        resident, kept = _before(self.blocks.resident), _before(self.blocks.kept)
        waiting = [chunk_flights(self.schedule, device, self.shape)[0] for device in range(self.spec.stages)]
        devices = [(count, device < self.spec.recomputing_stages) for device, count in enumerate(waiting)]
        known = {each: self._held(*each, resident, kept) for each in dict.fromkeys(devices)}
        bounds = [known[each] for each in devices]
        received = float(self.blocks.received.sum())
        return self._bisect(bounds, float(resident[-1] / self.spec.stages), float(resident[-1] + max(waiting) * (kept[-1] + received)))

    def _held(self, count: int, recomputes: bool, resident: Array, kept: Array) -> list[_Bound]:
        """Bytes of a device with one chunk and so many micro-batches in flight: what its blocks keep, or what they were sent."""
        end = resident + (0 if recomputes else count) * kept
        received = np.where(np.arange(len(end)) > 0, count * self._entry if recomputes else 0.0, 0.0)
        return [(end.tolist(), (received - end).tolist())]

    @cached_property
    def _entry(self) -> float:
        """The least bytes that a stage is sent which begins behind the first block."""
        return float(self.blocks.received[1:].min()) if len(self.blocks.received) > 1 else 0.0

    def _least_shared_memory(self) -> float:
        """The least bytes of the fullest device where each has several chunks: all blocks must find room, in parts if need be.

        A device that keeps residuals holds, of each of its blocks, those of as many micro-batches as its least full chunk has in flight,
        and of a chunk that has more, those of one block besides; one that recomputes holds what its chunks were sent. For any weights of
        the devices, the mean of what they hold is at least that of the devices on which each block weighs least (duality of linear
        programs); the weights are those with which all devices are equally good for the blocks as a whole.
        """
        flights = [chunk_flights(self.schedule, device, self.shape) for device in range(self.spec.stages)]
        kept, resident = self.blocks.kept, self.blocks.resident
        recomputes = np.arange(self.spec.stages) < self.spec.recomputing_stages
        counts = np.where(recomputes, 0, [min(each) for each in flights])
        beside = np.array([self._held_beside(device, each) for device, each in enumerate(flights)])
        holding = resident.sum() + counts * kept.sum()
        weights = 1 / holding if holding.min() > 0 else np.ones(self.spec.stages)
        least = (weights[:, None] * (resident + counts[:, None] * kept)).min(axis=0).sum()
        return float((least + (weights * beside).sum()) / weights.sum())

    def _held_beside(self, device: int, flights: Sequence[int]) -> float:
        """Bytes that a device holds whatever its blocks, with so many micro-batches of each of its chunks in flight."""
        if device < self.spec.recomputing_stages:
            return self._entry * sum(flights[1:] if device == 0 else flights)
        return float(self.blocks.kept.min()) * sum(each - min(flights) for each in flights)

    def _bisect(self, bounds: Sequence[Sequence[_Bound]], low: float, high: float) -> float:
        """The least limit, from below, within which every stage in order, with these bounds, reaches far enough. One that begins later
        ends no earlier."""
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
        """Whether the stages get past all blocks. One that fits nothing more is passed over: if the one before left it a block, they
        would be no further."""
        start, blocks = 0, len(self.blocks.forward)
        furthest = blocks - len(bounds)
        for of_stage in bounds:
            furthest += 1  # a block is left for each stage behind
            reached = furthest
            for end, begin in of_stage:
                reached = min(reached, bisect_right(end, limit - begin[start]) - 1)
            start = max(start, reached)
        return start == blocks
