"""The memory limit over time, as few constraints: only the times that say something new.

Memory changes only where an interval starts or ends. Of two neighbouring times one is left out where no choice can be nearer to the limit
there than at the other: the sum over the nodes of the least that they add, from the one to the other, is at least what the limit rises.
A time at which the largest usages together stay under the limit binds nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workbench.search.per_operation.choice_problem import Floats, Ints, Mask

Interval = tuple[int, int]
_FEW = 0.005  # the share of times below which another pass is not worth its time


@dataclass(frozen=True, eq=False)
class NodeMemory:
    """What one node's strategies take: `usages` is `float64[strategies, intervals]`, over the times `starts[i] <= t < ends[i]`."""

    starts: Ints
    ends: Ints
    usages: Floats


@dataclass(frozen=True, eq=False)
class MemoryOverTime:
    """The memory of all nodes over the times 0 to `len(left)`, and `left` at each: the limit less what every choice takes."""

    nodes: tuple[NodeMemory, ...]
    left: Floats

    def profile(self, chosen: Ints) -> Floats:
        """Memory in use at each time, `float64[times]`, when node v takes strategy `chosen[v]`."""
        return self.totals([each.usages[index] for each, index in zip(self.nodes, chosen, strict=True)])

    def totals(self, usages: list[Floats]) -> Floats:
        """Memory in use at each time for usages per node and interval."""
        if not self.nodes:
            return np.zeros(len(self.left))
        amounts = np.concatenate(usages)
        size = len(self.left) + 1
        starts, ends = np.concatenate([each.starts for each in self.nodes]), np.concatenate([each.ends for each in self.nodes])
        change = np.bincount(starts, amounts, size) - np.bincount(ends, amounts, size)
        return np.cumsum(change)[:-1]

    def charges(self, multipliers: Floats) -> list[Floats]:
        """What each node's strategies pay, `float64[strategies]`, when a byte at time t costs `multipliers[t]`."""
        paid = np.concatenate([[0.0], np.cumsum(multipliers)])
        return [each.usages @ (paid[each.ends] - paid[each.starts]) for each in self.nodes]


def intervals_of(memory: NodeMemory) -> dict[Interval, Floats]:
    """What each strategy takes, by interval: `float64[strategies]`."""
    spans = zip(memory.starts.tolist(), memory.ends.tolist(), strict=True)
    return dict(zip(spans, memory.usages.T, strict=True))


def memory_over_time(
    usages: list[dict[Interval, Floats]], strategies: list[int], base: Mapping[Interval, float], limit: Floats | float
) -> MemoryOverTime:
    """The constraints for `usages[v][interval]` (`float64[strategies[v]]`) and `base[interval]`, memory of every choice.

    `limit` is one limit, or one for each of the times 0, 1, ...
    """
    if isinstance(limit, np.ndarray):
        points = np.arange(len(limit) + 1)
    else:
        points = np.unique([point for each in (base, *usages) for interval in each for point in interval] or [0, 1])
    nodes = tuple(_node_memory(points, each, count) for each, count in zip(usages, strategies, strict=True))
    always = MemoryOverTime((_node_memory(points, {at: np.array([amount]) for at, amount in base.items()}, 1),), np.zeros(len(points) - 1))
    memory = MemoryOverTime(nodes, limit - always.profile(np.zeros(1, np.int64)))
    return _without_repetition(_at_times(memory, _can_bind(memory)))


def _node_memory(points: Ints, usages: Mapping[Interval, Floats], strategies: int) -> NodeMemory:
    if not usages:
        return NodeMemory(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((strategies, 0)))
    starts, ends = np.searchsorted(points, np.array(list(usages))).T
    return NodeMemory(starts, ends, np.stack(list(usages.values()), 1))


def _can_bind(memory: MemoryOverTime) -> Mask:
    return memory.totals([each.usages.max(0) for each in memory.nodes]) > memory.left


def _without_repetition(memory: MemoryOverTime) -> MemoryOverTime:
    """Leaves out times that a neighbour makes superfluous, until there are hardly any."""
    while len(memory.left) > 1:
        kept = _says_more_than_neighbours(memory)
        if np.count_nonzero(~kept) <= _FEW * len(kept):
            break
        memory = _at_times(memory, kept)
    return memory


def _says_more_than_neighbours(memory: MemoryOverTime) -> Mask:
    least, most = _changes(memory)
    rise = np.diff(memory.left)
    before_is_less, after_is_less = least >= rise, most <= rise  # of the times t and t + 1
    kept = np.ones(len(memory.left), bool)
    kept[:-1] &= ~before_is_less
    kept[1:] &= ~after_is_less | before_is_less  # of two times that are alike, the later one stays
    return kept


def _changes(memory: MemoryOverTime) -> tuple[Floats, Floats]:
    """The least and the most that all nodes together can take more at time t + 1 than at t, `float64[times - 1]` each."""
    least, most = np.zeros((2, len(memory.left) + 1))
    for each in memory.nodes:
        ends = np.concatenate([each.starts, each.ends])
        times, position = np.unique(ends, return_inverse=True)
        change = np.zeros((len(times), len(each.usages)))
        np.add.at(change, position, np.concatenate([each.usages, -each.usages], 1).T)
        least[times] += change.min(1)
        most[times] += change.max(1)
    return least[1:-1], most[1:-1]


def _at_times(memory: MemoryOverTime, kept: Mask) -> MemoryOverTime:
    """The constraints at the times `kept` alone."""
    position = np.concatenate([[0], np.cumsum(kept)])
    return MemoryOverTime(tuple(_moved(each, position) for each in memory.nodes), memory.left[kept])


def _moved(memory: NodeMemory, position: Ints) -> NodeMemory:
    """Intervals at new times; what is left of none is left out, and intervals that became one are added up."""
    starts, ends = position[memory.starts], position[memory.ends]
    lasting = starts < ends
    usages = memory.usages[:, lasting]
    size = int(position[-1]) + 1
    distinct, index = np.unique(starts[lasting] * size + ends[lasting], return_inverse=True)
    if len(distinct) == len(index):
        return NodeMemory(starts[lasting], ends[lasting], usages)
    total = np.zeros((len(distinct), len(usages)))
    np.add.at(total, index, usages.T)
    return NodeMemory(distinct // size, distinct % size, total.T)
