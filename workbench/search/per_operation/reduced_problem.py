"""What is left of a problem after reduction: decisions numbered from 0, one edge between two of them, memory at the times that matter."""

from dataclasses import dataclass

import numpy as np

from workbench.search.per_operation.choice_graph import ChoiceGraph, choice_graph
from workbench.search.per_operation.choice_problem import ChoiceProblem, Floats, Ints
from workbench.search.per_operation.memory_over_time import MemoryOverTime, intervals_of, memory_over_time
from workbench.search.per_operation.reduce import reduce

_MOST_ROUNDS = 10


@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """Decisions v with strategies i: `constant` + the sum of `costs[v][i]` and `edges[v][w][i, j]` is the cost of the whole problem.

    `edges[w][v]` is the transpose of `edges[v][w]`. `graph` restores the strategies of all nodes.
    """

    costs: tuple[Floats, ...]
    edges: tuple[dict[int, Floats], ...]
    memory: MemoryOverTime
    constant: float
    graph: ChoiceGraph
    nodes: tuple[int, ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The edges (v, w), v < w."""
        return [(node, other) for node, others in enumerate(self.edges) for other in others if node < other]

    def cost_of(self, chosen: Ints) -> float:
        """The cost of the whole problem."""
        own = sum(float(costs[index]) for costs, index in zip(self.costs, chosen, strict=True))
        return self.constant + own + sum(float(self.edges[one][two][chosen[one], chosen[two]]) for one, two in self.pairs)

    def restore(self, chosen: Ints) -> list[int]:
        """The strategies of all nodes of the problem."""
        found = self.graph.restore({node: int(index) for node, index in zip(self.nodes, chosen, strict=True)})
        return [found[node] for node in range(len(found))]


def reduced_problem(problem: ChoiceProblem) -> ReducedProblem:
    """Reduces `problem`, in turn its graph and the times that matter. Raises `SearchError` where a node is left without a strategy."""
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
    """The memory of the graph at the times that matter, which become the times of its intervals, too.

    `limit` is one limit, or one for each of the times 0, 1, ... of the intervals.
    """
    for node in graph.costs:
        graph.fix_constant_usages(node)
    nodes = sorted(graph.costs)
    memory = memory_over_time([graph.usages[node] for node in nodes], [len(graph.costs[node]) for node in nodes], graph.base, limit)
    graph.base.clear()
    for node, each in zip(nodes, memory.nodes, strict=True):
        graph.usages[node] = intervals_of(each)
    return memory


def _size(graph: ChoiceGraph) -> tuple[int, int]:
    return len(graph.costs), sum(map(len, graph.costs.values()))
