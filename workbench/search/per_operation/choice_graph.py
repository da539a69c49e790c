"""A choice problem as a graph that can be reduced: remove strategies, merge nodes, and restore the full choice.

There is one edge between two nodes, with the merged costs; a merged node takes memory in several intervals. Every
change is exact: the minimum cost stays, and `restore` gives the strategies of all nodes from those of the remaining
nodes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from workbench.search.per_operation.choice_problem import ChoiceProblem, Floats, Ints, Mask

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
