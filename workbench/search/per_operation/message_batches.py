"""The edges of a problem in batches that one array operation updates: all of one level and one shape.

The level of a decision is one more than the highest of its neighbours that come before it, so that decisions of one level do not touch, and
a sweep over the levels equals a sweep over the decisions one by one. Every decision's strategies lie one after the other in one flat array,
and so do the messages of every edge.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from workbench.search.per_operation.choice_problem import Floats, Ints
from workbench.search.per_operation.reduced_problem import ReducedProblem

EdgesByLevel = defaultdict[int, defaultdict[tuple[int, ...], list[tuple[int, int]]]]  # then by shape
MembersByLevel = defaultdict[int, defaultdict[int, list[Ints]]]  # then by number of strategies


@dataclass(frozen=True, eq=False)
class EdgeBatch:
    """Edges e from decisions of one level, all of one shape: `costs[e, i, j]`.

    `source[e, i]`, `target[e, j]`: where the strategies lie; `sent[e, j]`, `answered[e, i]`: where the messages to the target and back lie;
    `share[e, 0]` is the part of the source's potential that goes into each of its edges.
    """

    costs: Floats
    source: Ints
    target: Ints
    sent: Ints
    answered: Ints
    share: Floats


@dataclass(frozen=True, eq=False)
class Sweep:
    """One direction: per level its decisions by number of strategies (`int64[decisions, strategies]`, where they lie) and its edges.

    `rest` is, per decision, the part of its potential that no edge takes.
    """

    levels: tuple[tuple[tuple[Ints, ...], tuple[EdgeBatch, ...]], ...]
    rest: Floats


@dataclass(frozen=True, eq=False)
class MessageBatches:
    """Both sweeps; `offsets[v]` is where the strategies of decision v begin; messages have `size` entries."""

    forward: Sweep
    backward: Sweep
    offsets: Ints
    size: int


def message_batches(problem: ReducedProblem) -> MessageBatches:
    """The batches of `problem`, in the order of its decisions and in the reverse."""
    counts = [len(costs) for costs in problem.costs]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    places, size = {}, 0
    for one, two in problem.pairs:
        for pair, count in (((one, two), counts[two]), ((two, one), counts[one])):
            places[pair] = size + np.arange(count)
            size += count
    order = range(len(counts))
    return MessageBatches(
        _sweep(problem, list(order), offsets, places), _sweep(problem, list(reversed(order)), offsets, places), offsets, size
    )


def _sweep(problem: ReducedProblem, order: list[int], offsets: Ints, places: dict[tuple[int, int], Ints]) -> Sweep:
    position = {node: index for index, node in enumerate(order)}
    ahead = {node: [other for other in problem.edges[node] if position[other] > position[node]] for node in order}
    share = {node: 1.0 / max(len(ahead[node]), len(problem.edges[node]) - len(ahead[node]), 1) for node in order}
    level: dict[int, int] = {}
    for node in order:
        level[node] = 1 + max((level[other] for other in problem.edges[node] if other in level), default=-1)
    edges: EdgesByLevel = defaultdict(lambda: defaultdict(list))
    members: MembersByLevel = defaultdict(lambda: defaultdict(list))
    for node in order:
        members[level[node]][len(problem.costs[node])].append(offsets[node] + np.arange(len(problem.costs[node])))
        for other in ahead[node]:
            edges[level[node]][problem.edges[node][other].shape].append((node, other))
    levels = tuple(
        (
            tuple(np.array(each) for each in members[index].values()),
            tuple(_batch(problem, pairs, offsets, places, share) for pairs in edges[index].values()),
        )
        for index in sorted(members)
    )
    return Sweep(levels, np.array([1.0 - share[node] * len(ahead[node]) for node in range(len(order))]))


def _batch(
    problem: ReducedProblem, pairs: list[tuple[int, int]], offsets: Ints, places: dict[tuple[int, int], Ints], share: dict[int, float]
) -> EdgeBatch:
    return EdgeBatch(
        np.array([problem.edges[one][two] for one, two in pairs]),
        np.array([offsets[one] + np.arange(len(problem.costs[one])) for one, _ in pairs]),
        np.array([offsets[two] + np.arange(len(problem.costs[two])) for _, two in pairs]),
        np.array([places[pair] for pair in pairs]),
        np.array([places[two, one] for one, two in pairs]),
        np.array([[share[one]] for one, _ in pairs]),
    )
