"""Partitioning a sequence of blocks into consecutive pieces (virtual stages) of balanced cost.

Letters: n blocks with costs c_0 .. c_{n-1}, K pieces; piece k holds blocks s_k to s_{k+1} - 1 and costs their sum, and what is sent at its
two ends, or the longer of the two where they overlap. The method here is exact: dynamic programming over (pieces so far, blocks so far)
finds the least possible cost of the most expensive piece, and among the partitions that have it the most even one (the least sum of
squares): K passes over a table of n^2 pieces.

`bucket_rule` is what GPipe's own code did (lingvo, `gpipe.PartitionSequentialLayers`), for comparison: block i goes to piece
min(int(K x share of the work up to and with i), K - 1).
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
from workbench.tracing.stage_partition.network_blocks import Block, Network
from workbench.tracing.stage_partition.partition_network import StageValue, starts_at
from workbench.tracing.stage_partition.trace_network import known_network, network_of

Starts = tuple[int, ...]
Table = NDArray[np.float64]
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
) -> Balance:
    """The partition whose most expensive piece is cheapest; `costs` are seconds, to balance time, or bytes, to balance memory.

    - `sent[i]`: what a boundary behind block i adds to the pieces on both its sides, in the same unit;
    - `overlapped`: what is sent goes on beside the work, and a piece costs the longer of the two;
    - `fixed`: blocks that begin a piece in any case.

    Raises `PipelineError` if there are fewer blocks than pieces.

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
    """The cost of blocks a to b - 1 as a piece, by a and b; infinite where there is none, or a `fixed` start would be inside."""
    n = len(costs)
    sums, ends = np.array([*accumulate(costs, initial=0.0)], float), np.zeros(n + 1)
    if sent:
        ends[1:n] = sent[: n - 1]  # what is sent behind so many blocks: nothing before the first, nor behind the last
    first, end = np.arange(n)[:, None], np.arange(n + 1)
    inside, sending = sums[end] - sums[first], ends[first] + ends[end]
    earliest = [max((start for start in fixed if start < b), default=0) for b in range(n + 1)]
    is_piece = (first < end) & (first >= earliest)
    return np.where(is_piece, np.maximum(inside, sending) if overlapped else inside + sending, _IMPOSSIBLE)


def _evaluate(table: Table, starts: Starts) -> Balance:
    return Balance(starts, tuple(table[a, b].item() for a, b in pairwise((0, *starts, len(table)))))


def _solve(costs: Table, pieces: int, combine: Callable[[Table, Table], Table]) -> tuple[float, Starts]:
    """The least combined cost of so many pieces, and the starts of all but the first; of equal ones those that begin latest."""
    backward = np.ascontiguousarray(costs[::-1].T)  # by end and start, the last start first: of equals NumPy finds the first
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
    """The costs of a given partition."""
    return _evaluate(_cost_table(costs, sent), tuple(starts))


def bucket_rule(costs: Sequence[float], pieces: int) -> tuple[int, ...]:
    """How many blocks lingvo's rule puts into each piece; it may leave one empty. Blocks count alike if all costs are zero.

    >>> bucket_rule([1] * 4, 2), bucket_rule([1] * 8, 4), bucket_rule([1] * 24, 4)
    ((1, 3), (1, 2, 2, 3), (5, 6, 6, 7))
    """
    weights = costs if sum(costs) > 0 else [1.0] * len(costs)
    total = sum(weights)
    places = [min(int(share * pieces / total), pieces - 1) for share in accumulate(weights)]
    return tuple(places.count(piece) for piece in range(pieces))


# Where a pipeline's boundaries are by balance, sending counted: the few partitions that may be best, and the one whose step is shortest.
#
# How much of what a boundary sends is hidden depends on the schedule and on its micro-batches: GPipe fills a link while its devices
# compute, one-forward-one-backward waits for each micro-batch there and back. So blocks are balanced in three ways: alone, as if sending
# took no time; with what is sent at a stage's two ends, as if a device did nothing meanwhile; and by the longer of the two, as if all of it
# went on beside. Where these are different partitions, the step is simulated with each.


@dataclass(frozen=True, slots=True)
class Sending:
    """What blocks send: `values` of the network partitioned at every block, their `sizes` in bytes on one device (`value_bytes`), by a
    `transfer`."""

    values: tuple[StageValue, ...]
    sizes: tuple[int, ...]
    transfer: Transfer

    def seconds_behind(self, blocks: int) -> list[float]:
        """Seconds that a boundary behind each block sends a micro-batch forward: what was made up to there and is read later."""
        crossing = [0] * blocks
        for value, size in zip(self.values, self.sizes, strict=True):
            for block in range(value.maker, max(value.readers)):
                crossing[block] += size
        return [self.transfer.seconds(count) for count in crossing]


def assign_blocks(bounds: Sequence[int]) -> tuple[int, ...]:
    """The stage of each block, where stage k has the blocks from `bounds[k]` up to `bounds[k + 1]`.

    >>> assign_blocks((0, 1, 3))
    (0, 1, 1)
    """
    return tuple(stage for stage, (a, b) in enumerate(pairwise(bounds)) for _ in range(a, b))


def list_sends(values: Sequence[StageValue], sizes: Sequence[int], stage_of: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
    """For each stage: (later stage, bytes of one micro-batch on one device) for each stage that reads what it makes; `sizes` are those of
    the values."""
    found: list[dict[int, int]] = [{} for _ in range(max(stage_of) + 1)]
    for value, size in zip(values, sizes, strict=True):
        stage = stage_of[value.maker]
        for reader in {stage_of[each] for each in value.readers} - {stage}:
            found[stage][reader] = found[stage].get(reader, 0) + size
    return [tuple(sorted(each.items())) for each in found]


def balanced_starts(network: Network, spec: PipelineSpec, costs: Sequence[BlockCost], sending: Sending) -> Starts:
    """The block each virtual stage but the first begins with: those the user named, and for the rest, of the partitions that balance the
    blocks, the one whose simulated step is shortest."""
    candidates = list_balanced_starts(network, spec, costs, sending)
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=partial(_step_seconds, spec, costs, sending))


def list_balanced_starts(network: Network, spec: PipelineSpec, costs: Sequence[BlockCost], sending: Sending) -> tuple[Starts, ...]:
    """The partitions that balance the blocks, each once: alone, with what is sent at their ends, with that beside them. One alone where all
    stages are one program, which is to be of equal stages."""
    fixed = starts_at(network, spec.boundaries)
    verify_enough_blocks(network.name, network.paths, spec)
    work, sent = [each.work for each in costs], sending.seconds_behind(len(costs))
    even = balance(work, spec.virtual_stages, fixed=fixed).starts
    if spec.engine == "spmd" or not any(sent):
        return (even,)
    others = (balance(work, spec.virtual_stages, sent=sent, overlapped=each, fixed=fixed).starts for each in (False, True))
    return tuple(dict.fromkeys((even, *others)))


def _step_seconds(spec: PipelineSpec, costs: Sequence[BlockCost], sending: Sending, starts: Starts) -> float:
    bounds = (0, *starts, len(costs))
    pieces = [costs[a:b] for a, b in pairwise(bounds)]
    stages = [
        StageCost(
            sum(each.forward for each in piece),
            sum(each.backward_input for each in piece),
            sum(each.backward_weight for each in piece),
            sends=sends,
        )
        for piece, sends in zip(pieces, list_sends(sending.values, sending.sizes, assign_blocks(bounds)), strict=True)
    ]
    return simulate(spec, stages, sending.transfer).seconds


# Where a pipeline partitions a network: at the boundaries it names, and for the rest by balance.


def find_starts(network: Network, spec: PipelineSpec) -> tuple[int, ...]:
    """The block each virtual stage but the first begins with: those the user named, the others by balance of operations."""
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
    """The most chunks, and the most stages, with which every virtual stage has a block; both, where one alone does not do."""
    chunks, stages = blocks // spec.stages, blocks // spec.chunks
    fewer_chunks = [f"make chunks {chunks}"] if spec.chunks > 1 and chunks else []
    fewer_stages = [f"make stages {stages} or less"] if stages > 1 or (stages and not fewer_chunks) else []
    return [*fewer_chunks, *fewer_stages] or [f"make stages {blocks} or less and chunks 1"]


def program_blocks(program: Program, micro_batches: int) -> tuple[str, ...]:
    """The paths before which a boundary may be put, in order."""
    return network_of(program, micro_batches).paths


def network_blocks(program: Program, micro_batches: int = 1) -> tuple[Block, ...]:
    """The blocks that a boundary may separate, each with its cost for one micro-batch."""
    return network_of(program, micro_batches).blocks


def verify_partition(program: Program, spec: PipelineSpec) -> None:
    """Raises `PipelineError` where the program cannot be partitioned so: a boundary where none can be, a virtual stage without a block."""
    find_starts(network_of(program, spec.micro_batches), spec)


def apply_edit(plan: Plan, edit: Edit) -> Plan:
    """The plan after one edit. Raises a `WorkbenchError` where that would be illegal, and `PipelineError` where the edit asks for stages
    that the program is known not to have."""
    after = edit.apply(plan)
    _verify_change(plan, after)
    return after


def _verify_change(before: Plan, after: Plan) -> None:
    """Raises `PipelineError` for stages that the program is known not to have. Nothing is traced for it: where the blocks are not known
    yet, or the program is no training step and has none, the report says so."""
    spec, program = after.pipeline, after.program
    if spec is None or program.step.training is None or (spec == before.pipeline and program is before.program):
        return
    if network := known_network(program, spec.micro_batches):
        starts_at(network, spec.boundaries)
        verify_enough_blocks(network.name, network.paths, spec)
