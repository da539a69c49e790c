"""Partitioning a sequence of blocks into consecutive pieces (virtual stages) of balanced cost.

Letters: n blocks with costs c_0 .. c_{n-1}, K pieces; piece k holds blocks s_k to s_{k+1} - 1 and costs their sum, and what is sent at its
two ends, or the longer of the two where they overlap. The method here is exact: dynamic programming over (pieces so far, blocks so far)
finds the least possible cost of the most expensive piece, and among the partitions that have it the most even one (the least sum of
squares). O(K n^2) at worst; most is pruned.

`bucket_rule` is what GPipe's own code did (lingvo, `gpipe.PartitionSequentialLayers`), for comparison: block i goes to piece
min(int(K x share of the work up to and with i), K - 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from workbench.errors import PipelineError

Fits = Callable[[int, int, int], bool]
_IMPOSSIBLE = float("inf")


@dataclass(frozen=True, slots=True)
class Balance:
    """A partition. `starts`: the block each piece but the first begins with; `costs` of the pieces, what is sent at their ends included."""

    starts: tuple[int, ...]
    costs: tuple[float, ...]

    @property
    def worst(self) -> float:
        return max(self.costs)

    @property
    def factor(self) -> float:
        """The mean cost over that of the most expensive piece: 1 is perfect. If all costs are zero, they are balanced.

        >>> Balance((2,), (3.0, 1.0)).factor
        0.6666666666666666
        """
        return sum(self.costs) / len(self.costs) / self.worst if self.worst else 1.0

    def sizes(self, blocks: int) -> tuple[int, ...]:
        """Blocks in each piece."""
        bounds = (0, *self.starts, blocks)
        return tuple(b - a for a, b in pairwise(bounds))


def balance(
    costs: Sequence[float],
    pieces: int,
    *,
    sent: Sequence[float] = (),
    overlapped: bool = False,
    fixed: Sequence[int] = (),
    fits: Fits | None = None,
) -> Balance:
    """The partition whose most expensive piece is cheapest; `costs` are seconds, to balance time, or bytes, to balance memory.

    - `sent[i]`: what a boundary behind block i adds to the pieces on both its sides, in the same unit;
    - `overlapped`: what is sent goes on beside the work, and a piece costs the longer of the two;
    - `fixed`: blocks that begin a piece in any case;
    - `fits(piece, a, b)`: whether blocks a to b - 1 may be piece number `piece` (whether it fits into memory, say).

    Raises `PipelineError` if there are fewer blocks than pieces, or no partition fits.

    >>> balance([1, 2, 3, 4, 5, 6], 2).sizes(6), balance([0, 0], 2).starts
    ((4, 2), (1,))
    """
    n = len(costs)
    if not 1 <= pieces <= n:
        raise PipelineError(f"{n} blocks cannot make {pieces} virtual stages.", [f"make it 1 to {n} virtual stages"])
    if any(not 0 < start < n for start in fixed) or len(set(fixed)) >= pieces:
        raise PipelineError(
            f"Virtual stages that begin at {sorted(fixed)} are not {pieces} virtual stages of {n} blocks.", ["take out a boundary"]
        )
    problem = _BalanceProblem(tuple(accumulate(costs, initial=0.0)), tuple(sent), frozenset(fixed), fits, overlapped)
    worst = problem.solve(pieces, bound=_IMPOSSIBLE, combine=max)[0]
    if worst == _IMPOSSIBLE:
        raise PipelineError(
            f"No partition into {pieces} virtual stages fits the devices' memory.", ["take more stages", "take remat:always"]
        )
    starts = problem.solve(pieces, bound=worst, combine=lambda so_far, cost: so_far + cost * cost)[1]
    return problem.evaluate(starts)


@dataclass(frozen=True, slots=True)
class _BalanceProblem:
    """`sums[i]` is the cost of the first i blocks."""

    sums: tuple[float, ...]
    sent: tuple[float, ...]
    fixed: frozenset[int]
    fits: Fits | None
    overlapped: bool = False

    def cost(self, a: int, b: int) -> float:
        ends = (self.sent[a - 1] if a else 0.0) + (self.sent[b - 1] if b < len(self.sums) - 1 else 0.0) if self.sent else 0.0
        inside = self.sums[b] - self.sums[a]
        return max(inside, ends) if self.overlapped else inside + ends

    def solve(self, pieces: int, bound: float, combine: Callable[[float, float], float]) -> tuple[float, tuple[int, ...]]:
        """The least combined cost with no piece above `bound`, and the starts of its pieces, by dynamic programming.

        `best[b]` is that of the first b blocks in the pieces so far. A piece is extended to the left until its blocks alone cost too much.
        """
        n = len(self.sums) - 1
        best = [0.0] + [_IMPOSSIBLE] * n
        starts: list[tuple[int, ...]] = [()] * (n + 1)
        for piece in range(pieces):
            following = [_IMPOSSIBLE] * (n + 1)
            paths: list[tuple[int, ...]] = [()] * (n + 1)
            for b in range(piece + 1, n - (pieces - piece - 1) + 1):
                for a in range(b - 1, piece - 1, -1):
                    inside = self.sums[b] - self.sums[a]
                    if inside > bound or (inside >= following[b] and combine is max):
                        break
                    cost = self.cost(a, b)
                    if cost <= bound and best[a] < _IMPOSSIBLE and self._allows(piece, a, b):
                        total = combine(best[a], cost)
                        if total < following[b]:
                            following[b], paths[b] = total, (*starts[a], a) if a else starts[a]
                    if a in self.fixed:
                        break
            best, starts = following, paths
        return best[n], starts[n]

    def _allows(self, piece: int, a: int, b: int) -> bool:
        return self.fits is None or self.fits(piece, a, b)

    def evaluate(self, starts: tuple[int, ...]) -> Balance:
        bounds = (0, *starts, len(self.sums) - 1)
        return Balance(starts, tuple(self.cost(a, b) for a, b in pairwise(bounds)))


def evaluate_starts(costs: Sequence[float], starts: Sequence[int], sent: Sequence[float] = ()) -> Balance:
    """The costs of a given partition."""
    return _BalanceProblem(tuple(accumulate(costs, initial=0.0)), tuple(sent), frozenset(), None).evaluate(tuple(starts))


def bucket_rule(costs: Sequence[float], pieces: int) -> tuple[int, ...]:
    """How many blocks lingvo's rule puts into each piece; it may leave one empty. Blocks count alike if all costs are zero.

    >>> bucket_rule([1] * 4, 2), bucket_rule([1] * 8, 4), bucket_rule([1] * 24, 4)
    ((1, 3), (1, 2, 2, 3), (5, 6, 6, 7))
    """
    weights = costs if sum(costs) > 0 else [1.0] * len(costs)
    total = sum(weights)
    places = [min(int(share * pieces / total), pieces - 1) for share in accumulate(weights)]
    return tuple(places.count(piece) for piece in range(pieces))
