"""Brings a choice under the memory limit: decisions take smaller strategies, those first that save most for what they cost."""

import numpy as np

from workbench.search.per_operation.choice_problem import Floats, Ints
from workbench.search.per_operation.reduced_problem import ReducedProblem

_MOST_ROUNDS = 60  # after which a choice is given up


def repair_memory(problem: ReducedProblem, chosen: Ints) -> Ints | None:
    """A choice within the limit near `chosen`, or None if it was not found."""
    chosen = chosen.copy()
    for _ in range(_MOST_ROUNDS):
        excess = problem.memory.profile(chosen) - problem.memory.left
        short = excess > 0
        if not short.any():
            return chosen
        moves = sorted(_saving_moves(problem, chosen, short / short.sum()))
        if not moves:
            return None
        _apply(moves, chosen, float(excess[short].mean()))
    return None


def _apply(moves: list[tuple[float, float, int, int]], chosen: Ints, wanted: float) -> None:
    """Makes moves in order until they save what is wanted."""
    for _, saved, node, strategy in moves:
        chosen[node] = strategy
        wanted -= saved
        if wanted <= 0:
            return


def _saving_moves(problem: ReducedProblem, chosen: Ints, weights: Floats) -> list[tuple[float, float, int, int]]:
    """For each decision its best strategy that takes less memory at the times of `weights`: (cost per byte, bytes, decision, strategy)."""
    moves = []
    for node, charge in enumerate(problem.memory.charges(weights)):
        smaller = np.flatnonzero(charge < charge[chosen[node]])
        if len(smaller):
            saved = charge[chosen[node]] - charge[smaller]
            ratio = _added_costs(problem, chosen, node)[smaller] / saved
            best = int(ratio.argmin())
            if ratio[best] < np.inf:
                moves.append((float(ratio[best]), float(saved[best]), node, int(smaller[best])))
    return moves


def _added_costs(problem: ReducedProblem, chosen: Ints, node: int) -> Floats:
    """What each strategy of `node` costs more than its present one, `float64[strategies]`."""
    total = problem.costs[node]
    for other, costs in problem.edges[node].items():
        total = total + costs[:, chosen[other]]
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(total - total[chosen[node]], nan=0.0, posinf=np.inf, neginf=-np.inf)
