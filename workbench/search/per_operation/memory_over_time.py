"""The memory limit over time with the redundant times removed.

Memory changes only at the start or end of an interval. One of two neighboring times is redundant if no choice can be
nearer to the limit there than at the other: the sum over nodes of the least increase from the one to the other is at
least the rise of the limit. A time at which the largest usages together stay under the limit is redundant too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workbench.search.per_operation.choice_problem import Floats, Ints, Mask

Interval = tuple[int, int]
_FEW = 0.005  # another pass is not worth its time if it removes a smaller share of times


@dataclass(frozen=True, eq=False)
class NodeMemory:
    """`usages` of a node, `float64[strategies, intervals]`; interval i covers `starts[i] <= t < ends[i]`."""

    starts: Ints
    ends: Ints
    usages: Floats


@dataclass(frozen=True, eq=False)
class MemoryOverTime:
    """Memory of all nodes at times 0 to `len(left)`; `left` is the limit less the memory of every choice."""

    nodes: tuple[NodeMemory, ...]
    left: Floats

    def profile(self, chosen: Ints) -> Floats:
        """Memory in use at each time, `float64[times]`, if node v takes strategy `chosen[v]`."""
        return self.totals([node.usages[index] for node, index in zip(self.nodes, chosen, strict=True)])

    def totals(self, usages: list[Floats]) -> Floats:
        if not self.nodes:
            return np.zeros(len(self.left))
        amounts = np.concatenate(usages)
        size = len(self.left) + 1
        starts, ends = np.concatenate([node.starts for node in self.nodes]), np.concatenate([node.ends for node in self.nodes])
        change = np.bincount(starts, amounts, size) - np.bincount(ends, amounts, size)
        return np.cumsum(change)[:-1]

    def charges(self, multipliers: Floats) -> list[Floats]:
        """Charge of each strategy of each node, `float64[strategies]`, if a byte at time t costs `multipliers[t]`."""
        paid = np.concatenate([[0.0], np.cumsum(multipliers)])
        return [node.usages @ (paid[node.ends] - paid[node.starts]) for node in self.nodes]


def intervals_of(memory: NodeMemory) -> dict[Interval, Floats]:
    spans = zip(memory.starts.tolist(), memory.ends.tolist(), strict=True)
    return dict(zip(spans, memory.usages.T, strict=True))


def memory_over_time(
    usages: list[dict[Interval, Floats]], strategies: list[int], base: Mapping[Interval, float], limit: Floats | float
) -> MemoryOverTime:
    """Build the constraints from `usages[v][interval]` (`float64[strategies[v]]`) and `base[interval]`, memory of every
    choice.

    `limit` is one limit, or one for each of the times 0, 1, ...
    """
    if isinstance(limit, np.ndarray):
        points = np.arange(len(limit) + 1)
    else:
        points = np.unique([point for intervals in (base, *usages) for interval in intervals for point in interval] or [0, 1])
    nodes = tuple(_node_memory(points, usage, count) for usage, count in zip(usages, strategies, strict=True))
    always = MemoryOverTime((_node_memory(points, {at: np.array([amount]) for at, amount in base.items()}, 1),), np.zeros(len(points) - 1))
    memory = MemoryOverTime(nodes, limit - always.profile(np.zeros(1, np.int64)))
    return _without_repetition(_at_times(memory, memory.totals([node.usages.max(0) for node in memory.nodes]) > memory.left))


def _node_memory(points: Ints, usages: Mapping[Interval, Floats], strategies: int) -> NodeMemory:
    if not usages:
        return NodeMemory(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((strategies, 0)))
    starts, ends = np.searchsorted(points, np.array(list(usages))).T
    return NodeMemory(starts, ends, np.stack(list(usages.values()), 1))


def _without_repetition(memory: MemoryOverTime) -> MemoryOverTime:
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
    kept[1:] &= ~after_is_less | before_is_less  # of two equivalent times, keep the later one
    return kept


def _changes(memory: MemoryOverTime) -> tuple[Floats, Floats]:
    """Least and largest change of total memory from time t to t + 1, `float64[times - 1]` each."""
    least, most = np.zeros((2, len(memory.left) + 1))
    for node in memory.nodes:
        ends = np.concatenate([node.starts, node.ends])
        times, position = np.unique(ends, return_inverse=True)
        change = np.zeros((len(times), len(node.usages)))
        np.add.at(change, position, np.concatenate([node.usages, -node.usages], 1).T)
        least[times] += change.min(1)
        most[times] += change.max(1)
    return least[1:-1], most[1:-1]


def _at_times(memory: MemoryOverTime, kept: Mask) -> MemoryOverTime:
    position = np.concatenate([[0], np.cumsum(kept)])
    return MemoryOverTime(tuple(_moved(node, position) for node in memory.nodes), memory.left[kept])


def _moved(memory: NodeMemory, position: Ints) -> NodeMemory:
    """Map intervals to new times, drop empty ones, and merge equal ones."""
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
