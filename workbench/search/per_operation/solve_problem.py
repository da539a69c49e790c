"""Solves a problem: reduce it, bound it by message passing, then improve the best choice block by block until the time is over.

Improvements and better bounds are handed to `on_progress` as they are found, at most once a second. With `iterations` the work is counted
and not timed, so that the same seed gives the same answer on every machine.
"""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from workbench.errors import SearchError
from workbench.search.per_operation.block_search import ChoiceBlock, improve_block
from workbench.search.per_operation.choice_problem import ChoiceProblem, Floats, Ints, assess
from workbench.search.per_operation.dual_ascent import DualAscent, DualStep
from workbench.search.per_operation.reduce_problem import ReducedProblem, reduced_problem

_SMALL = 3_000  # pairs of strategies up to which the whole problem goes to the exact solver first
_EFFORT = 2.0  # deterministic seconds of the solver on a block
_MOST_EFFORT = 60.0  # the same on a whole problem
_DUAL_SHARE = 0.35  # of the time
_FIRST_LENGTH, _LAST_LENGTH = 0.1, 1e-4  # of a step of the multipliers, as a part of what the bound can rise
_TOLERANCE = 1e-9  # the part of a cost by which a bound may miss it
_SECONDS_BETWEEN = 1.0  # between two solutions that are handed out
_PUBLICATION_SHARE = 0.05  # of the time, which it takes to restore and hand out solutions
_FORGOTTEN = 0.9  # what is left, after each step, of the longest before it
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
    """The best choice found and handed out in `seconds`, or after `iterations` sweeps and blocks whatever they take; ends early where it is
    proven that none costs less by more than a part `gap` of its cost.

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
        self.handing_out, self.longest_step = 0.0, 0.0  # seconds, by what they took before
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
        self.handing_out = max(self.handing_out, taken)
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
        while not self._is_over() and self._seconds_left() > self.longest_step:
            began = time.monotonic()
            width, block = self.neighbourhoods.draw(usage)
            result = improve_block(self.reduced, self.chosen, block, usage, _EFFORT, self._seconds_left())
            self.neighbourhoods.adapt(width, result.is_proven)
            if result.chosen is not None:
                self.report(result.chosen, -np.inf)
                usage = self.reduced.memory.profile(self.chosen)
            self.longest_step = max(_FORGOTTEN * self.longest_step, time.monotonic() - began)

    def _keep_decoded(self, step: DualStep) -> None:
        chosen: Ints | None = step.chosen
        cost = self.reduced.cost_of(step.chosen)
        if (step.excess > 0).any():
            is_due = cost < self.cost and self.work % (_REPAIRED_EVERY if self.chosen is None else _REPAIRED_LATER) == 0
            chosen = repair_memory(self.reduced, step.chosen) if is_due else None
        self.report(chosen if chosen is not None and self.reduced.cost_of(chosen) < np.inf else None, step.bound)

    def _solve_whole(self) -> None:
        """Solves the whole problem at once, exactly if the time suffices."""
        from workbench.search.per_operation.exact_choice import solve_exactly  # OR-tools: 30 MiB that a served page does without

        found = solve_exactly(self.reduced.graph, self.reduced.memory.left, effort=_MOST_EFFORT, seconds=self._seconds_left())
        chosen = np.array([found.chosen[node] for node in self.reduced.nodes], np.int64) if found.chosen is not None else None
        self.report(chosen, found.bound)

    def _seconds_left(self) -> float:
        """Until the last choice must be handed out."""
        return np.inf if self.iterations is not None else self.seconds - (time.monotonic() - self.began) - self.handing_out

    def _is_over(self, share: float = 1.0) -> bool:
        """Whether `share` of the work is done, the best is proven, or nobody waits for it. Counts a step."""
        self.work += 1
        if _meets(self.cost, self.bound, self.gap) or (self.is_cancelled and self.is_cancelled()):
            return True
        if self.iterations is not None:
            return self.work > self.iterations * share
        return time.monotonic() - self.started > (self.seconds - (self.started - self.began)) * share


# Which decisions to make anew: connected ones, or live ones when memory is short, with the strategies that the messages favour.

_WIDTHS = (3, 6, 12, 1_000)  # strategies per decision that a block may take
_MOST_NODES = 1_500


class Neighbourhoods:
    """Draws blocks of a problem, of a size that follows what the solver can do."""

    def __init__(self, problem: ReducedProblem, seed: int) -> None:
        self.problem, self.random = problem, random.Random(seed)  # noqa: S311
        self.room = dict.fromkeys(_WIDTHS, 4_000.0)  # pairs of strategies in a block
        self.ranks = [np.zeros(len(costs), np.int64) for costs in problem.costs]
        nodes = problem.memory.nodes
        self._owners = np.repeat(np.arange(len(nodes)), [len(each.starts) for each in nodes])
        self._starts = np.concatenate([*(each.starts for each in nodes), np.zeros(0, np.int64)])
        self._ends = np.concatenate([*(each.ends for each in nodes), np.zeros(0, np.int64)])

    def rank_by(self, potentials: Iterable[Floats]) -> None:
        """Orders each decision's strategies, the least potential first."""
        self.ranks = [np.argsort(np.argsort(each, kind="stable"), kind="stable") for each in potentials]

    def draw(self, usage: Floats) -> tuple[int, ChoiceBlock]:
        """A width and a block of it; `usage` is the memory in use at each time."""
        width = self.random.choice(_WIDTHS)
        first = self._live_when_short(usage) if len(usage) and self.random.random() < 0.5 else []
        first = first or [self.random.randrange(len(self.problem.costs))]
        return width, ChoiceBlock({node: self.ranks[node] < width for node in self._grown(first, width)})

    def adapt(self, width: int, is_proven: bool) -> None:
        """Larger blocks of `width` where the solver came to the end of one, smaller ones where it did not."""
        self.room[width] = min(max(self.room[width] * (1.08 if is_proven else 0.8), 500.0), 500_000.0)

    def _grown(self, first: list[int], width: int) -> list[int]:
        """The nodes `first` and neighbours of theirs, as long as the pairs of strategies fit in the block."""
        inside: set[int] = set()
        border, pairs = list(first), 0.0
        while border and len(inside) < _MOST_NODES:
            node = self._pop(border)
            if node in inside:
                continue
            added = sum(self._pairs(node, other, width) for other in self.problem.edges[node] if other in inside)
            pairs += added + len(self.ranks[node])
            if pairs > self.room[width] and inside:
                break
            inside.add(node)
            border.extend(other for other in self.problem.edges[node] if other not in inside)
        return sorted(inside)

    def _pop(self, border: list[int]) -> int:
        index = self.random.randrange(len(border))
        border[index], border[-1] = border[-1], border[index]
        return border.pop()

    def _pairs(self, one: int, other: int, width: int) -> int:
        return min(len(self.ranks[one]), width) * min(len(self.ranks[other]), width)

    def _live_when_short(self, usage: Floats) -> list[int]:
        """A few decisions that take memory at one time, mostly one at which little is left."""
        left = self.problem.memory.left - usage
        time = min(self.random.choices(range(len(left)), k=4), key=lambda each: left[each])
        live = np.unique(self._owners[(self._starts <= time) & (time < self._ends)]).tolist()
        return self.random.sample(live, min(len(live), self.random.randint(2, 20)))


# Brings a choice under the memory limit: decisions take smaller strategies, those first that save most for what they cost.

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
