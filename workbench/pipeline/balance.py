"""Partition a sequence of blocks into consecutive pieces (virtual stages) of balanced cost.

Notation: n blocks with costs c_0 .. c_{n-1}, K pieces. Piece k has blocks s_k to s_{k+1} - 1 and costs their sum plus
its sends at both ends, or the longer of the two if they overlap. The method is exact: dynamic programming over (number
of pieces, number of blocks) finds the least cost of the most expensive piece, and among those partitions the most even
one (least sum of squares), in K passes over a table of n^2 pieces.

`bucket_rule` is the rule of GPipe's code (lingvo, `gpipe.PartitionSequentialLayers`), for comparison: block i goes to
piece min(int(K x share of the work up to and including i), K - 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.schedules.stage_cost import StageCost
from workbench.core.text_tables import paths_text
from workbench.errors import PipelineError
from workbench.pipeline.estimate_block_cost import BlockCost
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import Transfer
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.tracing.stage_partition.partition_network import StageValue, starts_at
from workbench.tracing.stage_partition.trace_network import Block, Network, cached_network, network_of

Starts = tuple[int, ...]
Table = NDArray[np.float64]
_IMPOSSIBLE = float("inf")


@dataclass(frozen=True, slots=True)
class Balance:
    """A partition. `starts`: first blocks of all pieces but the first; `costs` of pieces, including their sends."""

    starts: tuple[int, ...]
    costs: tuple[float, ...]

    @property
    def worst(self) -> float:
        return max(self.costs)

    @property
    def factor(self) -> float:
        """Mean cost over the cost of the most expensive piece; 1 is perfect, also if all costs are zero.

        >>> Balance((2,), (3.0, 1.0)).factor
        0.6666666666666666
        """
        return sum(self.costs) / len(self.costs) / self.worst if self.worst else 1.0

    def sizes(self, blocks: int) -> tuple[int, ...]:
        bounds = (0, *self.starts, blocks)
        return tuple(b - a for a, b in pairwise(bounds))


def balance(
    costs: Sequence[float], pieces: int, *, sent: Sequence[float] = (), overlapped: bool = False, fixed: Sequence[int] = ()
) -> Balance:
    """Return the partition with the cheapest most expensive piece; `costs` are seconds or bytes.

    - `sent[i]`: cost that a boundary after block i adds to the pieces on both sides, in the same unit;
    - `overlapped`: sends overlap with the work, and a piece costs the longer of the two;
    - `fixed`: blocks that must begin a piece.

    Raises `PipelineError` for fewer blocks than pieces.

    >>> balance([1, 2, 3, 4, 5, 6], 2).sizes(6), balance([0, 0], 2).starts
    ((4, 2), (1,))
    """
    n = len(costs)
    if not 1 <= pieces <= n:
        raise PipelineError(f"{n} blocks cannot make {pieces} virtual stages.", [f"make it 1 to {n} virtual stages"])
    if any(not 0 < start < n for start in fixed) or len(set(fixed)) >= pieces:
        raise PipelineError(f"Starts {sorted(fixed)} do not give {pieces} virtual stages of {n} blocks.", ["remove a boundary"])
    table = _cost_table(costs, sent, fixed, overlapped=overlapped)
    even = np.where(table <= _solve(table, pieces, np.maximum)[0], table * table, _IMPOSSIBLE)
    return _evaluate(table, _solve(even, pieces, np.add)[1])


def _cost_table(costs: Sequence[float], sent: Sequence[float], fixed: Sequence[int] = (), *, overlapped: bool = False) -> Table:
    """Cost of blocks a to b - 1 as one piece, float64[a, b]; infinite if empty, or if a `fixed` start is inside."""
    n = len(costs)
    sums, end_sends = np.array([*accumulate(costs, initial=0.0)], float), np.zeros(n + 1)
    if sent:
        end_sends[1:n] = sent[: n - 1]  # sends after that many blocks: none before the first and after the last
    first, end = np.arange(n)[:, None], np.arange(n + 1)
    work, sends = sums[end] - sums[first], end_sends[first] + end_sends[end]
    earliest = [max((start for start in fixed if start < b), default=0) for b in range(n + 1)]
    is_piece = (first < end) & (first >= earliest)
    return np.where(is_piece, np.maximum(work, sends) if overlapped else work + sends, _IMPOSSIBLE)


def _evaluate(table: Table, starts: Starts) -> Balance:
    return Balance(starts, tuple(table[a, b].item() for a, b in pairwise((0, *starts, len(table)))))


def _solve(costs: Table, pieces: int, combine: Callable[[Table, Table], Table]) -> tuple[float, Starts]:
    """Return the least combined cost, and the starts of all pieces but the first; ties go to the latest starts."""
    backward = np.ascontiguousarray(costs[::-1].T)  # by end and start, last start first, because `argmin` returns the first of ties
    best, chosen = costs[0], []
    for _ in range(pieces - 1):
        totals = combine(best[-2::-1], backward)
        choice = totals.argmin(axis=1)
        best = totals[np.arange(len(best)), choice]
        chosen.append(choice)
    starts = [len(best) - 1]
    for choice in reversed(chosen):
        starts.append(len(costs) - 1 - int(choice[starts[-1]]))
    return float(best[-1]), tuple(reversed(starts[1:]))


def evaluate_starts(costs: Sequence[float], starts: Sequence[int], sent: Sequence[float] = ()) -> Balance:
    """Return the costs of a given partition."""
    return _evaluate(_cost_table(costs, sent), tuple(starts))


def bucket_rule(costs: Sequence[float], pieces: int) -> tuple[int, ...]:
    """Number of blocks per piece by lingvo's rule, which may leave a piece empty. All-zero costs count as equal.

    >>> bucket_rule([1] * 4, 2), bucket_rule([1] * 8, 4), bucket_rule([1] * 24, 4)
    ((1, 3), (1, 2, 2, 3), (5, 6, 6, 7))
    """
    weights = costs if sum(costs) > 0 else [1.0] * len(costs)
    total = sum(weights)
    places = [min(int(share * pieces / total), pieces - 1) for share in accumulate(weights)]
    return tuple(places.count(piece) for piece in range(pieces))


# Boundaries by balance, sends included: a few candidate partitions, of which the one with the shortest step is chosen.
#
# The schedule and its micro-batches determine how much of a boundary's sends is hidden: GPipe fills a link while its devices
# compute, one-forward-one-backward waits for each micro-batch's round trip. So blocks are balanced in three ways: alone, as if sending
# took no time; plus the sends at both ends of a stage, as if devices idled meanwhile; and by the longer of the two, as if everything
# overlapped. If the partitions differ, the step is simulated with each.


@dataclass(frozen=True, slots=True)
class Sending:
    """Values sent by a network partitioned at every block, their `sizes` in bytes on one device, and the transfer."""

    values: tuple[StageValue, ...]
    sizes: tuple[int, ...]
    transfer: Transfer

    def seconds_behind(self, blocks: int) -> list[float]:
        """Seconds of the forward send of a micro-batch at a boundary after each block."""
        crossing = [0] * blocks
        for value, size in zip(self.values, self.sizes, strict=True):
            for block in range(value.maker, max(value.readers)):
                crossing[block] += size
        return [self.transfer.seconds(count) for count in crossing]


def assign_blocks(bounds: Sequence[int]) -> tuple[int, ...]:
    """Return the stage of each block, where stage k has the blocks `bounds[k]` to `bounds[k + 1] - 1`.

    >>> assign_blocks((0, 1, 3))
    (0, 1, 1)
    """
    return tuple(stage for stage, (a, b) in enumerate(pairwise(bounds)) for _ in range(a, b))


def list_sends(values: Sequence[StageValue], sizes: Sequence[int], stage_of: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
    """Return for each stage (receiving stage, bytes per micro-batch and device); `sizes` are those of the values."""
    sends: list[dict[int, int]] = [{} for _ in range(max(stage_of) + 1)]
    for value, size in zip(values, sizes, strict=True):
        stage = stage_of[value.maker]
        for reader in {stage_of[block] for block in value.readers} - {stage}:
            sends[stage][reader] = sends[stage].get(reader, 0) + size
    return [tuple(sorted(targets.items())) for targets in sends]


def balanced_starts(network: Network, spec: PipelineSpec, costs: Sequence[BlockCost], sending: Sending) -> Starts:
    """Return the first blocks of virtual stages: user-defined ones, else of the balance with the shortest step."""
    candidates = list_balanced_starts(network, spec, costs, sending)
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=partial(_step_seconds, spec, costs, sending))


def list_balanced_starts(network: Network, spec: PipelineSpec, costs: Sequence[BlockCost], sending: Sending) -> tuple[Starts, ...]:
    """Return distinct balances without, with and with overlapped sends; only the first in one SPMD program."""
    fixed = starts_at(network, spec.boundaries)
    verify_enough_blocks(network.name, network.paths, spec)
    work, sent = [cost.work for cost in costs], sending.seconds_behind(len(costs))
    even = balance(work, spec.virtual_stages, fixed=fixed).starts
    if spec.engine == "spmd" or not any(sent):
        return (even,)
    others = (balance(work, spec.virtual_stages, sent=sent, overlapped=overlapped, fixed=fixed).starts for overlapped in (False, True))
    return tuple(dict.fromkeys((even, *others)))


def _step_seconds(spec: PipelineSpec, costs: Sequence[BlockCost], sending: Sending, starts: Starts) -> float:
    bounds = (0, *starts, len(costs))
    pieces = [costs[a:b] for a, b in pairwise(bounds)]
    stages = [
        StageCost(
            sum(block.forward for block in piece),
            sum(block.backward_input for block in piece),
            sum(block.backward_weight for block in piece),
            sends=sends,
        )
        for piece, sends in zip(pieces, list_sends(sending.values, sending.sizes, assign_blocks(bounds)), strict=True)
    ]
    return simulate(spec, stages, sending.transfer).seconds


# Partition of a network: at the boundaries named by the pipeline, else by balance.


def find_starts(network: Network, spec: PipelineSpec) -> tuple[int, ...]:
    """Return the first block of each virtual stage but the first: named by the user, else balanced by FLOPs."""
    fixed = starts_at(network, spec.boundaries)
    verify_enough_blocks(network.name, network.paths, spec)
    return balance([block.flops for block in network.blocks], spec.virtual_stages, fixed=fixed).starts


def verify_enough_blocks(name: str, paths: Sequence[str], spec: PipelineSpec) -> None:
    """Raises `PipelineError` for more virtual stages than blocks."""
    if spec.virtual_stages <= len(paths):
        return
    requirement = (
        f"{spec.stages} stages x {spec.chunks} chunks = {spec.virtual_stages} virtual stages"
        if spec.chunks > 1
        else f"{spec.stages} stages"
    )
    raise PipelineError(
        f"{name} has {len(paths)} blocks ({paths_text(paths)}); {requirement} need as many.",
        [*_suggest_fewer(len(paths), spec), "add named scopes to its layers to get more blocks"],
    )


def _suggest_fewer(blocks: int, spec: PipelineSpec) -> list[str]:
    chunks, stages = blocks // spec.stages, blocks // spec.chunks
    fewer_chunks = [f"make chunks {chunks}"] if spec.chunks > 1 and chunks else []
    fewer_stages = [f"make stages {stages} or less"] if stages > 1 or (stages and not fewer_chunks) else []
    return [*fewer_chunks, *fewer_stages] or [f"make stages {blocks} or less and chunks 1"]


def program_blocks(program: Program, micro_batches: int) -> tuple[str, ...]:
    """Return the paths before which a boundary may be placed, in order."""
    return network_of(program, micro_batches).paths


def network_blocks(program: Program, micro_batches: int = 1) -> tuple[Block, ...]:
    """Return the blocks that a boundary may separate, each with its cost for one micro-batch."""
    return network_of(program, micro_batches).blocks


def verify_partition(program: Program, spec: PipelineSpec) -> None:
    """Raises `PipelineError` for a boundary at an invalid place or a virtual stage without a block."""
    find_starts(network_of(program, spec.micro_batches), spec)


def apply_edit(plan: Plan, edit: Edit) -> Plan:
    """Return the plan after an edit; raises a `WorkbenchError`, such as `PipelineError` for stages without blocks."""
    after = edit.apply(plan)
    _verify_change(plan, after)
    return after


def _verify_change(before: Plan, after: Plan) -> None:
    """Raises `PipelineError` for stages that the program is known not to have; nothing is traced for it."""
    spec, program = after.pipeline, after.program
    if spec is None or program.step.training is None or (spec == before.pipeline and program is before.program):
        return
    if network := cached_network(program, spec.micro_batches):
        starts_at(network, spec.boundaries)
        verify_enough_blocks(network.name, network.paths, spec)
