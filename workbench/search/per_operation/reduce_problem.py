"""Reductions of a choice problem that keep its minimum cost, applied until none changes it.

- Arc consistency removes strategies that no strategy of some neighbor is compatible with at a finite cost.
- An edge whose costs are a sum of one part per end becomes costs of its ends.
- A node with one strategy for each strategy of a neighbor *follows* it and is merged. Most operations of a program
  follow (a transpose is sharded like its operand), so tens of thousands of operations leave a few hundred decisions.
- A strategy that another one *dominates* is removed: it is never cheaper, whatever the neighbors do, and never takes
  less memory.
- A node whose memory does not depend on its strategy, with at most two neighbors, is eliminated: it takes their best
  strategy.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from workbench.errors import SearchError
from workbench.search.per_operation.choice_problem import ChoiceGraph, ChoiceProblem, Floats, Ints, Mask, choice_graph

# The memory limit over time with the redundant times removed.
#
# Memory changes only at the start or end of an interval. One of two neighboring times is redundant if no choice can be
# nearer to the limit there than at the other: the sum over nodes of the least increase from the one to the other is at
# least the rise of the limit. A time at which the largest usages together stay under the limit is redundant too.


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


# The reductions.


_MOST_COMPARED = 30_000_000  # entries of the table that compares all pairs of strategies of a node, per neighbour
_MOST_FILLED = 20_000  # entries of an edge that an elimination makes


def reduce(graph: ChoiceGraph) -> None:
    """Apply all rules in place. Raises `SearchError` if a node is left without a strategy."""
    _until_nothing_changes(graph, (_keep_consistent, _split_edges, _follow))
    _until_nothing_changes(graph, (_keep_consistent, _split_edges, _keep_undominated, _follow, _eliminate))


Rule = Callable[[ChoiceGraph, int], Iterable[int] | None]


def _until_nothing_changes(graph: ChoiceGraph, rules: tuple[Rule, ...]) -> None:
    """Apply `rules` to every node, and again to each node that a rule reports as changed (`None`: no change)."""
    waiting = deque(sorted(graph.costs, key=lambda node: len(graph.edges[node])))
    queued = set(waiting)
    while waiting:
        node = waiting.popleft()
        queued.discard(node)
        for rule in rules:
            if node not in graph.costs:
                break
            for changed in rule(graph, node) or ():
                if changed not in queued and changed != node:
                    queued.add(changed)
                    waiting.append(changed)


def _keep_consistent(graph: ChoiceGraph, node: int) -> Iterable[int] | None:
    possible = np.isfinite(graph.costs[node])
    for costs in graph.edges[node].values():
        possible &= costs.min(1) < np.inf
    if possible.all():
        return None
    if not possible.any():
        message = f"Node {node} has no strategy that goes with those of its neighbours at a finite cost."
        raise SearchError(message, ["allow one of them"])
    graph.keep_strategies(node, possible)
    return list(graph.edges[node])


def _split_edges(graph: ChoiceGraph, node: int) -> Iterable[int] | None:
    changed = []
    for other, costs in list(graph.edges[node].items()):
        column = costs[:, 0] - costs[0, 0] if costs[0, 0] < np.inf else None
        if column is not None and np.array_equal(costs, column[:, None] + costs[0]) and np.isfinite(costs).all():
            graph.disconnect(node, other)
            shift = float(column.min())
            graph.costs[node] = graph.costs[node] + (column - shift)
            graph.costs[other] = graph.costs[other] + costs[0] + shift
            changed.append(other)
    return changed or None


def _follow(graph: ChoiceGraph, node: int) -> Iterable[int] | None:
    for other, costs in graph.edges[node].items():
        finite = costs < np.inf
        if costs.shape[0] <= costs.shape[1] and (finite.sum(0) == 1).all() and _may_follow(graph, node, other):
            changed = list(graph.edges[node])
            graph.follow(node, other, finite.argmax(0))
            return changed
    return None


def _may_follow(graph: ChoiceGraph, node: int, leader: int) -> bool:
    """Of two nodes that determine each other, the one with fewer edges follows."""
    same = len(graph.costs[node]) == len(graph.costs[leader])
    return not same or len(graph.edges[node]) <= len(graph.edges[leader])


def _keep_undominated(graph: ChoiceGraph, node: int) -> Iterable[int] | None:
    count = len(graph.costs[node])
    if count == 1 or any(count * costs.size > _MOST_COMPARED for costs in graph.edges[node].values()):
        return None
    dominates = _dominance(graph, node)
    kept = np.ones(count, bool)
    for strategy in range(count):
        kept[strategy] = not (dominates[:, strategy] & kept).any()
    if kept.all():
        return None
    graph.keep_strategies(node, kept)
    return list(graph.edges[node])


def _dominance(graph: ChoiceGraph, node: int) -> Mask:
    """`bool[i, j]`: i never costs more than j nor takes more memory; of two equivalent ones, the first."""
    worst = graph.costs[node][:, None] - graph.costs[node]
    for usage in _usages_over_time(graph.usages[node]):
        worst[usage[:, None] > usage] = np.inf
    np.fill_diagonal(worst, np.inf)
    for costs in graph.edges[node].values():
        one, other = np.nonzero(worst < np.inf)
        if not len(one):
            break
        worst[one, other] += _differences(costs[one], costs[other]).max(1)
    dominates = worst <= 0
    equivalent = dominates & dominates.T
    return dominates & ~np.tril(equivalent)


def _usages_over_time(usages: dict[tuple[int, int], Floats]) -> list[Floats]:
    """Total usage of each strategy, `float64[strategies]`, from every time at which an interval starts or ends."""
    change: dict[int, Floats] = {}
    for (start, end), usage in usages.items():
        change[start] = change.get(start, 0.0) + usage
        change[end] = change.get(end, 0.0) - usage
    return list(accumulate(change[time] for time in sorted(change)))


def _differences(one: Floats, other: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where(other == np.inf, -np.inf, one - other)


def _eliminate(graph: ChoiceGraph, node: int) -> Iterable[int] | None:
    graph.fix_constant_usages(node)
    neighbours = list(graph.edges[node])
    if graph.usages[node] or len(neighbours) > 2:
        return None
    if len(neighbours) == 2 and len(graph.costs[neighbours[0]]) * len(graph.costs[neighbours[1]]) > _MOST_FILLED:
        return None
    graph.eliminate(node)
    return neighbours


# The reduced problem: decisions numbered from 0, at most one edge between two of them, memory at the non-redundant times.

_MOST_ROUNDS = 10


@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """A reduced problem: decisions v with strategies i.

    The cost of the whole problem is `constant` plus the sum of `costs[v][i]` and `edges[v][w][i, j]`; `edges[w][v]` is
    the transpose of `edges[v][w]`. `graph` restores the strategies of all nodes.
    """

    costs: tuple[Floats, ...]
    edges: tuple[dict[int, Floats], ...]
    memory: MemoryOverTime
    constant: float
    graph: ChoiceGraph
    nodes: tuple[int, ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The edges (v, w) with v < w."""
        return [(node, other) for node, others in enumerate(self.edges) for other in others if node < other]

    def cost_of(self, chosen: Ints) -> float:
        node_costs = sum(float(costs[index]) for costs, index in zip(self.costs, chosen, strict=True))
        return self.constant + node_costs + sum(float(self.edges[one][two][chosen[one], chosen[two]]) for one, two in self.pairs)

    def restore(self, chosen: Ints) -> list[int]:
        strategies = self.graph.restore({node: int(index) for node, index in zip(self.nodes, chosen, strict=True)})
        return [strategies[node] for node in range(len(strategies))]


def reduced_problem(problem: ChoiceProblem) -> ReducedProblem:
    """Reduce the graph and the times of `problem`. Raises `SearchError` if a node has no strategy left."""
    graph = choice_graph(problem)
    reduce(graph)
    memory = shorten_memory(graph, np.inf if problem.usage_limit is None else float(problem.usage_limit))
    for _ in range(_MOST_ROUNDS):
        before = _size(graph)
        reduce(graph)
        memory = shorten_memory(graph, memory.left)
        if _size(graph) == before:
            break
    nodes = tuple(sorted(graph.costs))
    number = {node: index for index, node in enumerate(nodes)}
    edges = tuple({number[other]: costs for other, costs in graph.edges[node].items()} for node in nodes)
    return ReducedProblem(tuple(graph.costs[node] for node in nodes), edges, memory, graph.constant, graph, nodes)


def shorten_memory(graph: ChoiceGraph, limit: Floats | float) -> MemoryOverTime:
    """Remove redundant times and renumber intervals; `limit` is one, or one per time 0, 1, ..."""
    for node in graph.costs:
        graph.fix_constant_usages(node)
    nodes = sorted(graph.costs)
    memory = memory_over_time([graph.usages[node] for node in nodes], [len(graph.costs[node]) for node in nodes], graph.base, limit)
    graph.base.clear()
    for node, node_memory in zip(nodes, memory.nodes, strict=True):
        graph.usages[node] = intervals_of(node_memory)
    return memory


def _size(graph: ChoiceGraph) -> tuple[int, int]:
    return len(graph.costs), sum(map(len, graph.costs.values()))
