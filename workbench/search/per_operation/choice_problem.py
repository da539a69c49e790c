"""The choice problem: one strategy per node, minimum total node and edge cost, memory limited at every time.

This is the problem that XLA's auto-sharding passes to its solver, in the form of the IOPDDL contest (ASPLOS / EuroSys
2025, https://github.com/google/iopddl). An infinite cost forbids a strategy or a pair of strategies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from workbench.errors import SearchError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ChoiceNode:
    """An operation with its possible strategies.

    `costs` and `usages` are `float64[strategies]`. The node is live at times `start <= time < end` and then takes the
    usage of its strategy; if `end <= start` it takes no memory.
    """

    costs: Floats
    usages: Floats
    start: int = 0
    end: int = 0


@dataclass(frozen=True, eq=False)
class ChoiceEdge:
    """Joint cost `costs[i, j]` of strategy i of `first` and strategy j of `second`."""

    first: int
    second: int
    costs: Floats


@dataclass(frozen=True, eq=False)
class ChoiceProblem:
    """Nodes, edges, and the limit on memory in use at any time (`None`: no limit).

    **Invariants**

    - Every node has at least one strategy and as many usages as costs, none below 0; usages are whole numbers.
    - Every edge joins two different nodes, with a cost for each pair of their strategies.
    - No cost is negative or NaN; infinity means forbidden.
    """

    nodes: tuple[ChoiceNode, ...]
    edges: tuple[ChoiceEdge, ...] = ()
    usage_limit: float | None = None
    name: str = ""

    def without_limit(self) -> "ChoiceProblem":
        return replace(self, usage_limit=None)

    def __post_init__(self) -> None:
        for index, node in enumerate(self.nodes):
            _verify_node(index, node)
        for index, edge in enumerate(self.edges):
            _verify_edge(index, edge, self.nodes)


@dataclass(frozen=True)
class Assessment:
    """Cost and peak memory of a choice; feasible if the cost is finite and the peak within the limit."""

    cost: float
    peak_usage: float
    is_feasible: bool


def assess(problem: ChoiceProblem, strategies: Sequence[int]) -> Assessment:
    """Cost and peak memory of `strategies`, one per node. Raises `SearchError` for a wrong number."""
    if len(strategies) != len(problem.nodes):
        raise SearchError(f"The choice has {len(strategies)} strategies for {len(problem.nodes)} nodes.", ["give one for each node"])
    cost = sum(float(node.costs[chosen]) for node, chosen in zip(problem.nodes, strategies, strict=True))
    cost += sum(float(edge.costs[strategies[edge.first], strategies[edge.second]]) for edge in problem.edges)
    peak = _peak_usage(problem, strategies)
    return Assessment(float(cost), peak, bool(np.isfinite(cost)) and (problem.usage_limit is None or peak <= problem.usage_limit))


def _peak_usage(problem: ChoiceProblem, strategies: Sequence[int]) -> float:
    live = [(node, int(chosen)) for node, chosen in zip(problem.nodes, strategies, strict=True) if node.start < node.end]
    if not live:
        return 0.0
    times, change = np.unique([(node.start, node.end) for node, _ in live], return_inverse=True)
    usages = np.array([node.usages[chosen] for node, chosen in live])
    deltas = np.zeros(len(times))
    starts, ends = change.reshape(-1, 2).T
    np.add.at(deltas, starts, usages)
    np.add.at(deltas, ends, -usages)
    return float(np.cumsum(deltas).max())


def _verify_node(index: int, node: ChoiceNode) -> None:
    if not len(node.costs):
        raise SearchError(f"Node {index} has no strategy.", ["give it at least one", "leave the node out"])
    if len(node.costs) != len(node.usages):
        raise SearchError(f"Node {index} has {len(node.costs)} costs and {len(node.usages)} usages.", ["give one of each per strategy"])
    if not (np.asarray(node.costs) >= 0).all() or not (np.asarray(node.usages) >= 0).all():
        raise SearchError(f"Node {index} has a cost or a usage that is below 0 or not a number.", ["add a constant to all its costs"])
    if not np.isfinite(node.usages).all() or (node.usages != np.floor(node.usages)).any():
        ways_out = ["give whole numbers of bytes", "forbid a strategy by an infinite cost"]
        raise SearchError(f"Node {index} has a usage that is not a whole number.", ways_out)


def _verify_edge(index: int, edge: ChoiceEdge, nodes: Sequence[ChoiceNode]) -> None:
    ends = f"Edge {index} joins nodes {edge.first} and {edge.second}"
    if not (0 <= edge.first < len(nodes) and 0 <= edge.second < len(nodes)):
        raise SearchError(f"{ends}, and there are {len(nodes)} nodes.", ["number them from 0"])
    if edge.first == edge.second:
        raise SearchError(f"{ends}, which are one.", ["add the diagonal of its costs to the node's costs"])
    expected = (len(nodes[edge.first].costs), len(nodes[edge.second].costs))
    if edge.costs.shape != expected:
        message = f"{ends} of {expected[0]} and {expected[1]} strategies, and has costs of shape {edge.costs.shape}."
        raise SearchError(message, [f"give {expected[0]} rows of {expected[1]}"])
    if not (edge.costs >= 0).all():
        raise SearchError(f"{ends} with a cost that is below 0 or not a number.", ["add a constant to all its costs"])


# A choice problem as a graph that can be reduced: remove strategies, merge nodes, and restore the full choice.
#
# There is one edge between two nodes, with the merged costs; a merged node takes memory in several intervals. Every
# change is exact: the minimum cost stays, and `restore` gives the strategies of all nodes from those of the remaining
# nodes.


Interval = tuple[int, int]
Restorer = Callable[[dict[int, int]], None]


@dataclass(eq=False)
class ChoiceGraph:
    """The remaining part of a problem. Mutable.

    `costs[v]` is `float64[strategies]`, `usages[v]` the memory of each strategy by interval, `edges[v][w]` is
    `float64[strategies of v, strategies of w]` and the transpose of `edges[w][v]`, `original[v]` the original numbers
    of the remaining strategies. Removed nodes have no costs. `constant` is a cost of every choice, `base` the memory of
    every choice.
    """

    costs: dict[int, Floats]
    usages: dict[int, dict[Interval, Floats]]
    edges: dict[int, dict[int, Floats]]
    original: dict[int, Ints]
    constant: float = 0.0
    base: dict[Interval, float] = field(default_factory=dict)
    restorers: list[Restorer] = field(default_factory=list)

    def connect(self, first: int, second: int, costs: Floats) -> None:
        """Add `costs` to the edge between two nodes, which is created if necessary."""
        previous = self.edges[first].get(second)
        total = costs if previous is None else previous + costs
        self.edges[first][second], self.edges[second][first] = total, total.T

    def disconnect(self, first: int, second: int) -> None:
        del self.edges[first][second], self.edges[second][first]

    def keep_strategies(self, node: int, kept: Mask) -> None:
        self.costs[node] = self.costs[node][kept]
        self.original[node] = self.original[node][kept]
        self.usages[node] = {interval: usage[kept] for interval, usage in self.usages[node].items()}
        for neighbour, costs in self.edges[node].items():
            self.edges[node][neighbour] = left = costs[kept]
            self.edges[neighbour][node] = left.T

    def follow(self, node: int, leader: int, chosen: Ints) -> None:
        """Merge `node` into its neighbor `leader`: strategy `chosen[i]` of the node for strategy i of the leader."""
        edge_costs = self.edges[node][leader][chosen, np.arange(len(chosen))]
        self.disconnect(node, leader)
        self.costs[leader] = self.costs[leader] + edge_costs + self.costs[node][chosen]
        for interval, usage in self.usages[node].items():
            self._add_usage(leader, interval, usage[chosen])
        for other, costs in list(self.edges[node].items()):
            self.disconnect(node, other)
            self.connect(leader, other, costs[chosen])
        self._restore_by(node, (leader,), self.original[node][chosen])
        self._remove(node)

    def eliminate(self, node: int) -> None:
        """Remove a node with at most two neighbors and constant memory: it takes their best strategy."""
        neighbours = tuple(self.edges[node])
        total = self.costs[node].reshape(-1, *(1 for _ in neighbours))
        for axis, other in enumerate(neighbours):
            costs = self.edges[node][other]
            total = total + costs.reshape(len(costs), *(costs.shape[1] if axis == position else 1 for position in range(len(neighbours))))
        best = total.argmin(0)
        least = total.min(0)
        for other in neighbours:
            self.disconnect(node, other)
        if not neighbours:
            self.constant += float(least)
        elif len(neighbours) == 1:
            self.costs[neighbours[0]] = self.costs[neighbours[0]] + least
        else:
            self.connect(neighbours[0], neighbours[1], least)
        self._restore_by(node, neighbours, self.original[node][best])
        self._remove(node)

    def restore(self, chosen: Mapping[int, int]) -> dict[int, int]:
        """Strategies of all nodes in the problem's numbers, from the graph's remaining ones."""
        strategies = {node: int(self.original[node][index]) for node, index in chosen.items()}
        for restorer in reversed(self.restorers):
            restorer(strategies)
        return strategies

    def _add_usage(self, node: int, interval: Interval, usage: Floats) -> None:
        previous = self.usages[node].get(interval)
        self.usages[node][interval] = usage if previous is None else previous + usage

    def fix_constant_usages(self, node: int) -> None:
        """Move the minimum usage over the strategies to `base`, and drop usages that do not depend on the strategy."""
        for interval, usage in list(self.usages[node].items()):
            least = float(usage.min())
            self.base[interval] = self.base.get(interval, 0.0) + least
            if (usage == least).all():
                del self.usages[node][interval]
            elif least:
                self.usages[node][interval] = usage - least

    def _restore_by(self, node: int, neighbours: tuple[int, ...], chosen: Ints) -> None:
        positions = [{int(strategy): index for index, strategy in enumerate(self.original[neighbour])} for neighbour in neighbours]

        def restorer(strategies: dict[int, int]) -> None:
            index = tuple(position[strategies[neighbour]] for position, neighbour in zip(positions, neighbours, strict=True))
            strategies[node] = int(chosen[index])

        self.restorers.append(restorer)

    def _remove(self, node: int) -> None:
        del self.costs[node], self.usages[node], self.edges[node], self.original[node]


def choice_graph(problem: ChoiceProblem) -> ChoiceGraph:
    live = {index: (node.start, node.end) for index, node in enumerate(problem.nodes) if node.start < node.end}
    graph = ChoiceGraph(
        {index: node.costs for index, node in enumerate(problem.nodes)},
        {index: {live[index]: node.usages} if index in live else {} for index, node in enumerate(problem.nodes)},
        {index: {} for index in range(len(problem.nodes))},
        {index: np.arange(len(node.costs)) for index, node in enumerate(problem.nodes)},
    )
    for edge in problem.edges:
        graph.connect(edge.first, edge.second, edge.costs)
    return graph
