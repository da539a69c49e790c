"""Large neighborhood search: reoptimizes a block of decisions exactly while all others stay fixed.

The block is a small problem of the same kind: edges to the outside become node costs, and the memory of the outside is
subtracted from the limit. It is reduced like the whole problem (`reduce`), and the exact solver takes the rest, which
is often empty.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.search.per_operation.choice_problem import ChoiceGraph, Floats, Ints, Mask
from workbench.search.per_operation.reduce_problem import MemoryOverTime, ReducedProblem, intervals_of, reduce, shorten_memory


@dataclass(frozen=True, eq=False)
class ChoiceBlock:
    """Decisions to reoptimize, with allowed strategies `bool[strategies]`; the current ones are always allowed."""

    allowed: dict[int, Mask]


@dataclass(frozen=True, eq=False)
class BlockResult:
    """An improved choice, or `None`, and whether the solver finished the block."""

    chosen: Ints | None
    is_proven: bool


def improve_block(
    problem: ReducedProblem, chosen: Ints, block: ChoiceBlock, usage: Floats, effort: float, seconds: float = np.inf
) -> BlockResult:
    """Find the best strategies of `block`, given the strategies in `chosen` of the other decisions.

    The solver stops after `effort` (deterministic seconds), and the whole call after `seconds`. `usage` is the memory
    of `chosen` at each time. Where it exceeds the limit, the block may take its present memory at that time, not more.
    """
    from workbench.search.per_operation.exact_choice import ExactChoice, solve_exactly  # OR-tools: 30 MiB that a served page does not need

    start, nodes = time.monotonic(), list(block.allowed)
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
    choice = (
        solve_exactly(graph, left, _positions(graph, hint), effort, seconds - (time.monotonic() - start))
        if graph.costs
        else ExactChoice({}, graph.constant, is_proven=True)
    )
    if choice.chosen is None:
        return BlockResult(None, choice.is_proven)
    after = chosen.copy()
    for node, strategy in graph.restore(choice.chosen).items():
        after[node] = strategy
    is_better = block_cost_with_edges(problem, after, nodes) < block_cost_with_edges(problem, chosen, nodes)
    return BlockResult(after if is_better else None, choice.is_proven)


def block_cost_with_edges(problem: ReducedProblem, chosen: Ints, block: Sequence[int]) -> float:
    """Sum of the costs of the nodes of `block` and of all their edges."""
    inside, total = set(block), 0.0
    for node in block:
        total += problem.costs[node][chosen[node]]
        for other, costs in problem.edges[node].items():
            if other not in inside or node < other:
                total += costs[chosen[node], chosen[other]]
    return float(total)


def _block_graph(problem: ReducedProblem, chosen: Ints, block: Sequence[int]) -> ChoiceGraph:
    inside = set(block)
    outside = {node: [costs[:, chosen[other]] for other, costs in problem.edges[node].items() if other not in inside] for node in block}
    return ChoiceGraph(
        {node: sum(outside[node], problem.costs[node]) for node in block},
        {node: intervals_of(problem.memory.nodes[node]) for node in block},
        {node: {other: costs for other, costs in problem.edges[node].items() if other in inside} for node in block},
        {node: np.arange(len(problem.costs[node])) for node in block},
    )


def _positions(graph: ChoiceGraph, chosen: dict[int, int]) -> dict[int, int]:
    """Positions of the `chosen` strategies among the remaining ones; removed strategies are left out."""
    positions = {node: np.flatnonzero(graph.original[node] == chosen[node]) for node in graph.costs}
    return {node: int(matches[0]) for node, matches in positions.items() if len(matches)}
