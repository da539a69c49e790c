"""A lower bound on the cost, and near-optimal choices, by message passing (TRW-S) with multipliers for memory.

The limit at time t has a multiplier `m[t] >= 0`: a choice pays `m` for its memory and gets `m @ left` back, so feasible
choices cost no more than before (Lagrangian relaxation). The remaining problem has no limit; sequential tree-reweighted
message passing bounds its minimum from below (Kolmogorov, "Convergent tree-reweighted message passing", PAMI 2006; in
his letters, theta is a potential and gamma its share for an edge). Every sweep gives a valid bound for any multipliers
and messages; both only tighten it. The multipliers follow the subgradient: the memory of the decoded choice above the
limit.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from workbench.search.per_operation.choice_problem import Floats, Ints
from workbench.search.per_operation.reduce_problem import ReducedProblem

# Edges are updated in batches of one level and one shape, each with one array operation.
#
# The level of a decision is one above the highest level of its preceding neighbors. Decisions of one level are therefore not adjacent,
# and a sweep over the levels equals a sweep over the single decisions. The strategies of all decisions are consecutive in one flat
# array, and so are the messages of all edges.

EdgesByLevel = defaultdict[int, defaultdict[tuple[int, ...], list[tuple[int, int]]]]  # then by shape
MembersByLevel = defaultdict[int, defaultdict[int, list[Ints]]]  # then by number of strategies


@dataclass(frozen=True, eq=False)
class EdgeBatch:
    """Edges e of one shape from decisions of one level: `costs[e, i, j]`.

    `source[e, i]`, `target[e, j]`: indices of the strategies; `sent[e, j]`, `answered[e, i]`: indices of the messages
    to the target and back; `share[e, 0]`: share of the source's potential that each of its edges gets.
    """

    costs: Floats
    source: Ints
    target: Ints
    sent: Ints
    answered: Ints
    share: Floats


@dataclass(frozen=True, eq=False)
class Sweep:
    """One direction: per level, the decisions by number of strategies and the edges.

    Decisions are indices `int64[decisions, strategies]`. `rest` is the share of a decision's potential that no edge
    gets.
    """

    levels: tuple[tuple[tuple[Ints, ...], tuple[EdgeBatch, ...]], ...]
    rest: Floats


@dataclass(frozen=True, eq=False)
class MessageBatches:
    """Both sweeps; `offsets[v]` is the index of the first strategy of decision v; messages have `size` entries."""

    forward: Sweep
    backward: Sweep
    offsets: Ints
    size: int


def message_batches(problem: ReducedProblem) -> MessageBatches:
    """Batch the edges of `problem` in the order of its decisions and in reverse order."""
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
            tuple(np.array(indices) for indices in members[index].values()),
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


_MARGIN = 1e-9  # relative rounding error of a bound, of the sum of magnitudes


@dataclass(frozen=True, eq=False)
class DualStep:
    """A lower bound on the cost, the decoded choice, and its memory above the limit at each time."""

    bound: float
    chosen: Ints
    excess: Floats


class DualAscent:
    def __init__(self, problem: ReducedProblem) -> None:
        self.problem, self.batches = problem, message_batches(problem)
        self.messages = np.zeros(self.batches.size)
        self.multipliers = np.zeros(len(problem.memory.left))
        self.direction: Floats | None = None
        self._owners = np.repeat(np.arange(len(problem.costs)), np.diff(self.batches.offsets))
        self._charge_memory()

    def step(self) -> DualStep:
        self._gather_messages()
        bound = self._sweep(self.batches.forward)
        chosen = self._decode()
        bound = max(bound, self._sweep(self.batches.backward))
        return DualStep(bound, chosen, self.problem.memory.profile(chosen) - self.problem.memory.left)

    def move_multipliers(self, excess: Floats, length: float) -> None:
        """Move the multipliers along the smoothed subgradient by a step that could raise the bound by `length`."""
        self.direction = excess if self.direction is None else 0.7 * self.direction + 0.3 * excess
        ascent = np.where((self.multipliers <= 0) & (self.direction < 0), 0.0, self.direction)
        norm = float(ascent @ ascent)
        if norm > 0:
            self.multipliers = np.maximum(0.0, self.multipliers + length / norm * ascent)
            self._charge_memory()

    def _charge_memory(self) -> None:
        charges = self.problem.memory.charges(self.multipliers)
        parts = [cost + charge for cost, charge in zip(self.problem.costs, charges, strict=True)]
        self.unary = np.concatenate([*parts, np.zeros(0)])
        self.constant = self.problem.constant - float(self.multipliers @ self.problem.memory.left)

    def _gather_messages(self) -> None:
        self.theta = self.unary.copy()
        for _, batches in self.batches.forward.levels:
            for batch in batches:
                np.add.at(self.theta, batch.target, self.messages[batch.sent])
                np.add.at(self.theta, batch.source, self.messages[batch.answered])

    def _sweep(self, sweep: Sweep) -> float:
        taken = 0.0
        for _, batches in sweep.levels:
            for batch in batches:
                taken += self._send(batch)
        least = np.minimum.reduceat(self.theta, self.batches.offsets[:-1]) if len(self.theta) else np.zeros(0)
        bound = self.constant + taken + float(sweep.rest @ least)
        magnitude = abs(self.constant) + abs(taken) + float(sweep.rest @ np.abs(least))
        return bound - _MARGIN * magnitude

    def _send(self, batch: EdgeBatch) -> float:
        potential = batch.share * self.theta[batch.source] - self.messages[batch.answered]
        message = (batch.costs + potential[:, :, None]).min(1)
        least = message.min(1, keepdims=True)
        message -= least
        np.add.at(self.theta, batch.target, message - self.messages[batch.sent])
        self.messages[batch.sent] = message
        return float(least.sum())

    def _decode(self) -> Ints:
        """Decide in order: the best strategy given the decisions before, and the messages of those after."""
        beliefs = self.unary.copy()
        for _, batches in self.batches.forward.levels:
            for batch in batches:
                np.add.at(beliefs, batch.source, self.messages[batch.answered])
        chosen = np.zeros(len(self.problem.costs), np.int64)
        for members, batches in self.batches.forward.levels:
            for places in members:
                chosen[self._owners[places[:, 0]]] = beliefs[places].argmin(1)
            for batch in batches:
                taken = chosen[self._owners[batch.source[:, 0]]]
                np.add.at(beliefs, batch.target, batch.costs[np.arange(len(taken)), taken])
        return chosen
