"""Solves a problem: reduce it, bound it by message passing, then improve the best choice block by block until the time is over.

Improvements and better bounds are handed to `on_progress` as they are found, at most once a second. With `iterations` the work is counted
and not timed, so that the same seed gives the same answer on every machine.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.errors import SearchError
from workbench.search.per_operation.block_search import improve_block
from workbench.search.per_operation.choice_problem import ChoiceProblem, Ints, assess
from workbench.search.per_operation.dual_ascent import DualAscent, DualStep
from workbench.search.per_operation.exact_choice import solve_exactly
from workbench.search.per_operation.neighbourhoods import Neighbourhoods
from workbench.search.per_operation.reduced_problem import reduced_problem
from workbench.search.per_operation.repair import repair_memory

_SMALL = 3_000  # pairs of strategies up to which the whole problem goes to the exact solver first
_EFFORT = 2.0  # deterministic seconds of the solver on a block
_MOST_EFFORT = 60.0  # the same on a whole problem
_DUAL_SHARE = 0.35  # of the time
_FIRST_LENGTH, _LAST_LENGTH = 0.1, 1e-4  # of a step of the multipliers, as a part of what the bound can rise
_TOLERANCE = 1e-9  # the part of a cost by which a bound may miss it
_SECONDS_BETWEEN = 1.0  # between two solutions that are handed out
_PUBLICATION_SHARE = 0.05  # of the time, which it takes to restore and hand out solutions
_REPAIRED_EVERY, _REPAIRED_LATER = 5, 25  # sweeps, until and after a choice was found, whose choice is brought under the limit
_PATIENCE = 15  # sweeps without a better bound before the steps become shorter


@dataclass(frozen=True)
class Solution:
    """The best choice so far.

    `strategies` has an index for each node (None: no allowed choice is known yet). No allowed choice costs less than `bound`; where it is
    infinite, there is none.
    """

    strategies: tuple[int, ...] | None
    cost: float
    bound: float
    seconds: float

    @property
    def is_feasible(self) -> bool:
        """Whether a choice under the memory limit was found."""
        return self.strategies is not None

    @property
    def is_proven(self) -> bool:
        """Whether nothing better exists, to one part in a billion: the bound is computed in floating point."""
        return _meets(self.cost, self.bound)

    @property
    def gap(self) -> float:
        """How much less the optimum can cost at most, as a part of the cost."""
        return 0.0 if self.is_proven else 1.0 - max(self.bound, 0.0) / self.cost if self.is_feasible else 1.0


def _meets(cost: float, bound: float, gap: float = _TOLERANCE) -> bool:
    return cost <= bound or cost - bound <= gap * abs(cost) < np.inf


def solve(
    problem: ChoiceProblem,
    seconds: float = 60.0,
    seed: int = 0,
    on_progress: Callable[[Solution], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
    iterations: int | None = None,
    gap: float = _TOLERANCE,
) -> Solution:
    """The best choice found in `seconds`, or after `iterations` sweeps and blocks whatever they take; ends early where it is proven that
    none costs less by more than a part `gap` of its cost.

    `is_cancelled` is asked between two steps, of a second or less.
    """
    search = _ChoiceSearch(problem, seconds, iterations, on_progress, is_cancelled, gap)
    if search.start(seed):
        search.ascend()
        search.improve()
    search.publish()
    return search.best


class _ChoiceSearch:
    """The state of one search."""

    def __init__(
        self,
        problem: ChoiceProblem,
        seconds: float,
        iterations: int | None,
        on_progress: Callable[[Solution], None] | None,
        is_cancelled: Callable[[], bool] | None,
        gap: float,
    ) -> None:
        self.problem, self.seconds, self.iterations = problem, seconds, iterations
        self.on_progress, self.is_cancelled, self.gap = on_progress, is_cancelled, gap
        self.began = self.started = time.monotonic()
        self.next_publication = self.began
        self.work = 0
        self.best = Solution(None, np.inf, 0.0, 0.0)  # as it was handed out last
        self.chosen: Ints | None = None
        self.cost, self.published, self.bound = np.inf, np.inf, 0.0

    def start(self, seed: int) -> bool:
        """Reduces the problem, and solves it at once if it is small; False where the least that all nodes take is over the limit."""
        try:
            self.reduced = reduced_problem(self.problem)
        except SearchError:
            self.bound = np.inf
            return False
        self.neighbourhoods = Neighbourhoods(self.reduced, seed)
        self.started = time.monotonic()
        if (self.reduced.memory.left < 0).any():
            self.bound = np.inf
        elif sum(costs.size for others in self.reduced.edges for costs in others.values()) <= 2 * _SMALL:
            self._solve_whole()
        return self.bound < np.inf

    def report(self, chosen: Ints | None, bound: float) -> None:
        """Keeps a choice that is better than the best, and a bound that is higher; hands them out unless that was done just now."""
        cost = np.inf if chosen is None else self.reduced.cost_of(chosen)
        if cost < self.cost:
            self.chosen, self.cost = chosen, cost
        self.bound = max(bound, self.bound)
        first = self.chosen is not None and not self.best.is_feasible
        if first or time.monotonic() > self.next_publication:
            self.publish()

    def publish(self) -> None:
        """Hands out the best choice, restored to all nodes, and the bound, if either is new."""
        if self.bound == self.best.bound and (self.chosen is None or self.cost == self.published):
            return
        began, strategies, cost = time.monotonic(), self.best.strategies, self.best.cost
        if self.chosen is not None and self.cost < self.published:
            strategies = tuple(self.reduced.restore(self.chosen))
            cost, self.published = assess(self.problem, strategies).cost, self.cost
        self.best = Solution(strategies, cost, self.bound, time.monotonic() - self.began)
        if self.on_progress:
            self.on_progress(self.best)
        taken = time.monotonic() - began
        self.next_publication = began + max(_SECONDS_BETWEEN, taken / _PUBLICATION_SHARE)

    def ascend(self) -> None:
        """Raises the bound until it hardly rises; every choice that the messages suggest is repaired and kept if it is better."""
        dual, length, since = DualAscent(self.reduced), _FIRST_LENGTH, 0
        while not self._is_over(_DUAL_SHARE) and length > _LAST_LENGTH:
            step = dual.step()
            since = 0 if step.bound > self.bound else since + 1
            self._keep_decoded(step)
            if since > _PATIENCE:
                length, since = length * 0.7, 0
            rise = max(min(self.cost - self.bound, abs(self.bound)), 1e-6 * abs(self.bound), 1e-9)
            dual.move_multipliers(step.excess, length * rise)
        dual.step()
        self.neighbourhoods.rank_by(np.split(dual.theta, dual.batches.offsets[1:-1]))

    def improve(self) -> None:
        """Makes block after block anew."""
        if self.chosen is None and not self._is_over():
            self._solve_whole()
        if self.chosen is None:
            return
        usage = self.reduced.memory.profile(self.chosen)
        while not self._is_over():
            width, block = self.neighbourhoods.draw(usage)
            result = improve_block(self.reduced, self.chosen, block, usage, _EFFORT, self._seconds_left())
            self.neighbourhoods.adapt(width, result.is_proven)
            if result.chosen is not None:
                self.report(result.chosen, -np.inf)
                usage = self.reduced.memory.profile(self.chosen)

    def _keep_decoded(self, step: DualStep) -> None:
        chosen: Ints | None = step.chosen
        cost = self.reduced.cost_of(step.chosen)
        if (step.excess > 0).any():
            is_due = cost < self.cost and self.work % (_REPAIRED_EVERY if self.chosen is None else _REPAIRED_LATER) == 0
            chosen = repair_memory(self.reduced, step.chosen) if is_due else None
        self.report(chosen if chosen is not None and self.reduced.cost_of(chosen) < np.inf else None, step.bound)

    def _solve_whole(self) -> None:
        """Solves the whole problem at once, exactly if the time suffices."""
        found = solve_exactly(self.reduced.graph, self.reduced.memory.left, effort=_MOST_EFFORT, seconds=self._seconds_left())
        chosen = np.array([found.chosen[node] for node in self.reduced.nodes], np.int64) if found.chosen is not None else None
        self.report(chosen, found.bound)

    def _seconds_left(self) -> float:
        return np.inf if self.iterations is not None else max(self.seconds - (time.monotonic() - self.began), 0.1)

    def _is_over(self, share: float = 1.0) -> bool:
        """Whether `share` of the work is done, the best is proven, or nobody waits for it. Counts a step."""
        self.work += 1
        if _meets(self.cost, self.bound, self.gap) or (self.is_cancelled and self.is_cancelled()):
            return True
        if self.iterations is not None:
            return self.work > self.iterations * share
        return time.monotonic() - self.started > (self.seconds - (self.started - self.began)) * share
