"""The problem as a graph that is made smaller: strategies taken away, nodes joined with a neighbour, and how to undo it all.

Costs are merged, so that there is one edge between two nodes; a node that was joined with others takes memory in several intervals. Each
change is exact: the least cost stays, and `restore` gives the strategies of all nodes for those of the nodes that are left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from workbench.search.per_operation.choice_problem import ChoiceProblem, Floats, Ints, Mask

Interval = tuple[int, int]
Restorer = Callable[[dict[int, int]], None]


@dataclass(eq=False)
class ChoiceGraph:
    """What is left of a problem.

    `costs[v]` is `float64[strategies]`, `usages[v]` the memory of each strategy by interval, `edges[v][w]` is
    `float64[strategies of v, strategies of w]` and the transpose of `edges[w][v]`, `original[v]` the numbers of the strategies that are
    left. Nodes that are gone have no costs. `constant` is a cost that every choice has, `base` memory that every choice takes.
    """

    costs: dict[int, Floats]
    usages: dict[int, dict[Interval, Floats]]
    edges: dict[int, dict[int, Floats]]
    original: dict[int, Ints]
    constant: float = 0.0
    base: dict[Interval, float] = field(default_factory=dict)
    restorers: list[Restorer] = field(default_factory=list)

    def connect(self, first: int, second: int, costs: Floats) -> None:
        """Adds `costs` to the edge between two nodes, which is made where there is none."""
        known = self.edges[first].get(second)
        total = costs if known is None else known + costs
        self.edges[first][second], self.edges[second][first] = total, total.T

    def disconnect(self, first: int, second: int) -> None:
        """Takes away the edge between two nodes."""
        del self.edges[first][second], self.edges[second][first]

    def keep_strategies(self, node: int, kept: Mask) -> None:
        """Takes away the other strategies of `node`."""
        self.costs[node] = self.costs[node][kept]
        self.original[node] = self.original[node][kept]
        self.usages[node] = {interval: usage[kept] for interval, usage in self.usages[node].items()}
        for neighbour, costs in self.edges[node].items():
            self.edges[node][neighbour] = left = costs[kept]
            self.edges[neighbour][node] = left.T

    def follow(self, node: int, leader: int, chosen: Ints) -> None:
        """Joins `node` with its neighbour `leader`: for strategy i of the leader it takes its own strategy `chosen[i]`."""
        own = self.edges[node][leader][chosen, np.arange(len(chosen))]
        self.disconnect(node, leader)
        self.costs[leader] = self.costs[leader] + own + self.costs[node][chosen]
        for interval, usage in self.usages[node].items():
            self._add_usage(leader, interval, usage[chosen])
        for other, costs in list(self.edges[node].items()):
            self.disconnect(node, other)
            self.connect(leader, other, costs[chosen])
        self._restore_by(node, (leader,), self.original[node][chosen])
        self._remove(node)

    def eliminate(self, node: int) -> None:
        """Takes away a node whose memory does not depend on its strategy, with at most two neighbours: it takes what is best for them."""
        neighbours = tuple(self.edges[node])
        total = self.costs[node].reshape(-1, *(1 for _ in neighbours))
        for axis, other in enumerate(neighbours):
            costs = self.edges[node][other]
            total = total + costs.reshape(len(costs), *(costs.shape[1] if axis == each else 1 for each in range(len(neighbours))))
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
        """Strategies of all nodes, as the problem numbers them, for the strategies (as the graph numbers them) of those that are left."""
        found = {node: int(self.original[node][index]) for node, index in chosen.items()}
        for restorer in reversed(self.restorers):
            restorer(found)
        return found

    def _add_usage(self, node: int, interval: Interval, usage: Floats) -> None:
        known = self.usages[node].get(interval)
        self.usages[node][interval] = usage if known is None else known + usage

    def fix_constant_usages(self, node: int) -> None:
        """Counts memory that does not depend on the strategy as memory of every choice; what all strategies take at least, too."""
        for interval, usage in list(self.usages[node].items()):
            least = float(usage.min())
            self.base[interval] = self.base.get(interval, 0.0) + least
            if (usage == least).all():
                del self.usages[node][interval]
            elif least:
                self.usages[node][interval] = usage - least

    def _restore_by(self, node: int, neighbours: tuple[int, ...], chosen: Ints) -> None:
        positions = [{int(strategy): index for index, strategy in enumerate(self.original[each])} for each in neighbours]

        def restorer(found: dict[int, int]) -> None:
            index = tuple(position[found[each]] for position, each in zip(positions, neighbours, strict=True))
            found[node] = int(chosen[index])

        self.restorers.append(restorer)

    def _remove(self, node: int) -> None:
        del self.costs[node], self.usages[node], self.edges[node], self.original[node]


def choice_graph(problem: ChoiceProblem) -> ChoiceGraph:
    """The whole problem as a graph."""
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
