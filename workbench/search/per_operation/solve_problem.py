"""Solver of choice problems: reduction, bounds by message passing, then block-wise improvement until the time limit.

New choices and bounds go to `on_progress`, at most once a second. `iterations` counts work instead of time, so that a
seed gives the same result on every machine.
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

_SMALL = 3_000  # with fewer pairs of strategies the exact solver tries the whole problem first
_EFFORT = 2.0  # deterministic seconds of the solver on a block
_MOST_EFFORT = 60.0  # the same on a whole problem
_DUAL_SHARE = 0.35  # of the time
_FIRST_LENGTH, _LAST_LENGTH = 0.1, 1e-4  # step of the multipliers, relative to the possible rise of the bound
_TOLERANCE = 1e-9  # relative distance at which a bound counts as reaching a cost
_SECONDS_BETWEEN = 1.0  # between two published solutions
_PUBLICATION_SHARE = 0.05  # largest share of the time for restoring and publishing solutions
_FORGOTTEN = 0.9  # decay per step of the longest step time
_REPAIRED_EVERY, _REPAIRED_LATER = 5, 25  # sweeps between repairs of the decoded choice, before and after the first feasible choice
_PATIENCE = 15  # sweeps without a better bound before the steps become shorter


@dataclass(frozen=True)
class Solution:
    """The best choice: a strategy index per node (`None`: none feasible yet); no feasible choice is below `bound`."""

    strategies: tuple[int, ...] | None
    cost: float
    bound: float
    seconds: float

    @property
    def is_feasible(self) -> bool:
        return self.strategies is not None

    @property
    def is_proven(self) -> bool:
        """Whether the choice is optimal to one part in a billion; the bound is computed in floating point."""
        return _meets(self.cost, self.bound)

    @property
    def gap(self) -> float:
        """Largest relative distance of the cost from the optimum."""
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
    """Return the best choice found within `seconds`, or after `iterations` sweeps and blocks regardless of time.

    Ends early if the relative distance to the optimum is proven to be at most `gap`. `is_cancelled` is called between
    steps of a second or less.
    """
    search = _ChoiceSearch(problem, seconds, iterations, on_progress, is_cancelled, gap)
    if search.start(seed):
        search.ascend()
        search.improve()
    search.publish()
    return search.best


class _ChoiceSearch:
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
        self.handing_out, self.longest_step = 0.0, 0.0  # expected seconds, from earlier ones
        self.work = 0
        self.best = Solution(None, np.inf, 0.0, 0.0)  # published last
        self.chosen: Ints | None = None
        self.cost, self.published, self.bound = np.inf, np.inf, 0.0

    def start(self, seed: int) -> bool:
        """Reduce the problem and solve it at once if it is small; false if it is infeasible."""
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
        """Keep a better choice and a higher bound, and publish them unless the last publication was just now."""
        cost = np.inf if chosen is None else self.reduced.cost_of(chosen)
        if cost < self.cost:
            self.chosen, self.cost = chosen, cost
        self.bound = max(bound, self.bound)
        first = self.chosen is not None and not self.best.is_feasible
        if first or time.monotonic() > self.next_publication:
            self.publish()

    def publish(self) -> None:
        """Publish the best choice, restored to all nodes, and the bound, if either is new."""
        if self.bound == self.best.bound and (self.chosen is None or self.cost == self.published):
            return
        began_at, strategies, cost = time.monotonic(), self.best.strategies, self.best.cost
        if self.chosen is not None and self.cost < self.published:
            strategies = tuple(self.reduced.restore(self.chosen))
            cost, self.published = assess(self.problem, strategies).cost, self.cost
        self.best = Solution(strategies, cost, self.bound, time.monotonic() - self.began)
        if self.on_progress:
            self.on_progress(self.best)
        duration = time.monotonic() - began_at
        self.handing_out = max(self.handing_out, duration)
        self.next_publication = began_at + max(_SECONDS_BETWEEN, duration / _PUBLICATION_SHARE)

    def ascend(self) -> None:
        """Raise the bound until it stagnates; repair each decoded choice and keep it if it is better."""
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
        if self.chosen is None and not self._is_over():
            self._solve_whole()
        if self.chosen is None:
            return
        usage = self.reduced.memory.profile(self.chosen)
        while not self._is_over() and self._seconds_left() > self.longest_step:
            began_at = time.monotonic()
            width, block = self.neighbourhoods.draw(usage)
            result = improve_block(self.reduced, self.chosen, block, usage, _EFFORT, self._seconds_left())
            self.neighbourhoods.adapt(width, result.is_proven)
            if result.chosen is not None:
                self.report(result.chosen, -np.inf)
                usage = self.reduced.memory.profile(self.chosen)
            self.longest_step = max(_FORGOTTEN * self.longest_step, time.monotonic() - began_at)

    def _keep_decoded(self, step: DualStep) -> None:
        chosen: Ints | None = step.chosen
        cost = self.reduced.cost_of(step.chosen)
        if (step.excess > 0).any():
            is_due = cost < self.cost and self.work % (_REPAIRED_EVERY if self.chosen is None else _REPAIRED_LATER) == 0
            chosen = repair_memory(self.reduced, step.chosen) if is_due else None
        self.report(chosen if chosen is not None and self.reduced.cost_of(chosen) < np.inf else None, step.bound)

    def _solve_whole(self) -> None:
        from workbench.search.per_operation.exact_choice import solve_exactly  # OR-tools: 30 MiB that a served page does not need

        choice = solve_exactly(self.reduced.graph, self.reduced.memory.left, effort=_MOST_EFFORT, seconds=self._seconds_left())
        chosen = np.array([choice.chosen[node] for node in self.reduced.nodes], np.int64) if choice.chosen is not None else None
        self.report(chosen, choice.bound)

    def _seconds_left(self) -> float:
        return np.inf if self.iterations is not None else self.seconds - (time.monotonic() - self.began) - self.handing_out

    def _is_over(self, share: float = 1.0) -> bool:
        self.work += 1
        if _meets(self.cost, self.bound, self.gap) or (self.is_cancelled and self.is_cancelled()):
            return True
        if self.iterations is not None:
            return self.work > self.iterations * share
        return time.monotonic() - self.started > (self.seconds - (self.started - self.began)) * share


# Blocks consist of connected decisions, or of live ones where memory is short, with the strategies that the messages favor.

_WIDTHS = (3, 6, 12, 1_000)  # strategies per decision that a block may take
_MOST_NODES = 1_500


class Neighbourhoods:
    """Random blocks of a problem whose size adapts to the solver."""

    def __init__(self, problem: ReducedProblem, seed: int) -> None:
        self.problem, self.random = problem, random.Random(seed)  # noqa: S311
        self.room = dict.fromkeys(_WIDTHS, 4_000.0)  # pairs of strategies in a block
        self.ranks = [np.zeros(len(costs), np.int64) for costs in problem.costs]
        nodes = problem.memory.nodes
        self._owners = np.repeat(np.arange(len(nodes)), [len(node.starts) for node in nodes])
        self._starts = np.concatenate([*(node.starts for node in nodes), np.zeros(0, np.int64)])
        self._ends = np.concatenate([*(node.ends for node in nodes), np.zeros(0, np.int64)])

    def rank_by(self, potentials: Iterable[Floats]) -> None:
        self.ranks = [np.argsort(np.argsort(potential, kind="stable"), kind="stable") for potential in potentials]

    def draw(self, usage: Floats) -> tuple[int, ChoiceBlock]:
        width = self.random.choice(_WIDTHS)
        first = self._live_when_short(usage) if len(usage) and self.random.random() < 0.5 else []
        first = first or [self.random.randrange(len(self.problem.costs))]
        return width, ChoiceBlock({node: self.ranks[node] < width for node in self._grown(first, width)})

    def adapt(self, width: int, is_proven: bool) -> None:
        """Enlarge the blocks of `width` if the solver finished one, else shrink them."""
        self.room[width] = min(max(self.room[width] * (1.08 if is_proven else 0.8), 500.0), 500_000.0)

    def _grown(self, first: list[int], width: int) -> list[int]:
        """The nodes `first` and connected nodes around them, up to the block's number of strategy pairs."""
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
        """A few decisions that are live at one time, usually a time with little memory left."""
        left = self.problem.memory.left - usage
        time = min(self.random.choices(range(len(left)), k=4), key=lambda candidate: left[candidate])
        live = np.unique(self._owners[(self._starts <= time) & (time < self._ends)]).tolist()
        return self.random.sample(live, min(len(live), self.random.randint(2, 20)))


# Repair of a choice above the memory limit: decisions take smaller strategies, those with the least cost per saved byte first.

_MOST_ROUNDS = 60  # repair fails after this many rounds


def repair_memory(problem: ReducedProblem, chosen: Ints) -> Ints | None:
    """Find a choice near `chosen` within the memory limit; `None` without success."""
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
    for _, saved, node, strategy in moves:
        chosen[node] = strategy
        wanted -= saved
        if wanted <= 0:
            return


def _saving_moves(problem: ReducedProblem, chosen: Ints, weights: Floats) -> list[tuple[float, float, int, int]]:
    """Each decision's best move that saves memory at `weights`: (cost per byte, bytes, decision, strategy)."""
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
    """Added cost of each strategy of `node` compared with its present one, `float64[strategies]`."""
    total = problem.costs[node]
    for other, costs in problem.edges[node].items():
        total = total + costs[:, chosen[other]]
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(total - total[chosen[node]], nan=0.0, posinf=np.inf, neginf=-np.inf)
