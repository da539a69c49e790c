"""Large neighbourhoods: some decisions are made anew, exactly, while all others stay.

With its surroundings fixed, a block of decisions is a small problem of the same kind: the edges to the outside are costs of its nodes, and
the memory of the outside is taken off the limit. It is reduced as the whole problem was (`reduce`), and what is left goes to the exact
solver; often nothing is.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.search.per_operation.choice_graph import ChoiceGraph
from workbench.search.per_operation.choice_problem import Floats, Ints, Mask
from workbench.search.per_operation.memory_over_time import MemoryOverTime, intervals_of
from workbench.search.per_operation.reduce_problem import ReducedProblem, reduce, shorten_memory


@dataclass(frozen=True, eq=False)
class ChoiceBlock:
    """Decisions to make anew, and which strategies each may take (`bool[strategies]`; the current one may always stay)."""

    allowed: dict[int, Mask]


@dataclass(frozen=True, eq=False)
class BlockResult:
    """The choice, better than before or (None) not, and whether the solver came to the end of the block."""

    chosen: Ints | None
    is_proven: bool


def improve_block(
    problem: ReducedProblem, chosen: Ints, block: ChoiceBlock, usage: Floats, effort: float, seconds: float = np.inf
) -> BlockResult:
    """The best strategies of `block` beside what `chosen` says of the others.

    The solver works for `effort` (deterministic seconds) at most, and ends after `seconds` of all together. `usage` is the memory of
    `chosen` at each time. Where it is over the limit, the block may take what it has at that time, not more.
    """
    from workbench.search.per_operation.exact_choice import ExactChoice, solve_exactly  # OR-tools: 30 MiB that a served page does without

    began, nodes = time.monotonic(), list(block.allowed)
    within = MemoryOverTime(tuple(problem.memory.nodes[node] for node in nodes), problem.memory.left)
    taken = within.profile(chosen[nodes])
    graph = _block_graph(problem, chosen, nodes)
    for node, allowed in block.allowed.items():
        allowed[chosen[node]] = True
        graph.keep_strategies(node, allowed)
    left = shorten_memory(graph, np.maximum(problem.memory.left - usage + taken, taken)).left
    reduce(graph)
    left = shorten_memory(graph, left).left
    hint = {node: int(chosen[node]) for node in nodes}
    found = (
        solve_exactly(graph, left, _positions(graph, hint), effort, seconds - (time.monotonic() - began))
        if graph.costs
        else ExactChoice({}, graph.constant, is_proven=True)
    )
    if found.chosen is None:
        return BlockResult(None, found.is_proven)
    after = chosen.copy()
    for node, strategy in graph.restore(found.chosen).items():
        after[node] = strategy
    is_better = cost_around(problem, after, nodes) < cost_around(problem, chosen, nodes)
    return BlockResult(after if is_better else None, found.is_proven)


def cost_around(problem: ReducedProblem, chosen: Ints, block: Sequence[int]) -> float:
    """The costs of the nodes of `block` and of all their edges."""
    inside, total = set(block), 0.0
    for node in block:
        total += problem.costs[node][chosen[node]]
        for other, costs in problem.edges[node].items():
            if other not in inside or node < other:
                total += costs[chosen[node], chosen[other]]
    return float(total)


def _block_graph(problem: ReducedProblem, chosen: Ints, block: Sequence[int]) -> ChoiceGraph:
    """The block with its surroundings fixed, under the problem's numbers."""
    inside = set(block)
    outside = {node: [costs[:, chosen[other]] for other, costs in problem.edges[node].items() if other not in inside] for node in block}
    return ChoiceGraph(
        {node: sum(outside[node], problem.costs[node]) for node in block},
        {node: intervals_of(problem.memory.nodes[node]) for node in block},
        {node: {other: costs for other, costs in problem.edges[node].items() if other in inside} for node in block},
        {node: np.arange(len(problem.costs[node])) for node in block},
    )


def _positions(graph: ChoiceGraph, chosen: dict[int, int]) -> dict[int, int]:
    """Where the strategies `chosen` stand among those that are left, as far as they are."""
    at = {node: np.flatnonzero(graph.original[node] == chosen[node]) for node in graph.costs}
    return {node: int(found[0]) for node, found in at.items() if len(found)}
