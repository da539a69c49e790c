"""The choice problem: one strategy per node, minimum total node and edge cost, memory limited at every time.

This is the problem that XLA's auto-sharding passes to its solver, in the form of the IOPDDL contest (ASPLOS / EuroSys
2025, https://github.com/google/iopddl). An infinite cost forbids a strategy or a pair of strategies.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
