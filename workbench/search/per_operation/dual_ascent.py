"""A lower bound on the cost, and choices that are near it, by message passing (TRW-S) with a cost for every byte.

The limit at time t has a multiplier `m[t] >= 0`: a choice pays for its memory by it, and `m @ left` is given back, so that allowed choices
cost no more than before (Lagrange relaxation). What remains is a problem without a limit, whose least cost sequential tree-reweighted
message passing bounds from below (Kolmogorov, "Convergent tree-reweighted message passing", PAMI 2006; the letters are his: theta is a
potential, gamma the share of it that goes into an edge). Every sweep gives a bound, whatever the multipliers and the messages are;
both only make it better. The multipliers follow the subgradient, the memory of the decoded choice above the limit.
"""

from dataclasses import dataclass

import numpy as np

from workbench.search.per_operation.choice_problem import Floats, Ints
from workbench.search.per_operation.message_batches import EdgeBatch, Sweep, message_batches
from workbench.search.per_operation.reduced_problem import ReducedProblem

_MARGIN = 1e-9  # the part of the magnitudes summed that rounding may have added to a bound


@dataclass(frozen=True, eq=False)
class DualStep:
    """A lower bound on the cost of any allowed choice, and the choice that the messages suggest."""

    bound: float
    chosen: Ints
    excess: Floats


class DualAscent:
    """Messages and multipliers of one problem."""

    def __init__(self, problem: ReducedProblem) -> None:
        self.problem, self.batches = problem, message_batches(problem)
        self.messages = np.zeros(self.batches.size)
        self.multipliers = np.zeros(len(problem.memory.left))
        self.direction: Floats | None = None
        self._owners = np.repeat(np.arange(len(problem.costs)), np.diff(self.batches.offsets))
        self._charge_memory()

    def step(self) -> DualStep:
        """One sweep forth and back."""
        self._gather_messages()
        bound = self._sweep(self.batches.forward)
        chosen = self._decode()
        bound = max(bound, self._sweep(self.batches.backward))
        return DualStep(bound, chosen, self.problem.memory.profile(chosen) - self.problem.memory.left)

    def move_multipliers(self, excess: Floats, length: float) -> None:
        """Moves along the mean of the latest subgradients, so that the bound could rise by `length`."""
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
        """Sends every message of one direction, and gives the bound that the messages prove."""
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
        """Each decision in turn takes what is best beside those before it, and by the messages of those after it."""
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
