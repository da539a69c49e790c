"""Seconds and bytes of every possible stage, blocks a to b - 1 for each a and b, to choose a partition by.

They are the sums over blocks of `estimate_stage_costs` and the peaks of `stage_bytes`; a value that several blocks of a
stage use counts once. A value used in blocks u and v adds its bytes to each stage that contains one of them: at column
u + 1 for rows up to u, at column v + 1 for rows after u, and so on; cumulative sums along the rows give the table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules import PipelineShape, schedule_named
from workbench.core.schedules.schedule import Kind
from workbench.cost.on_chip_memory import placeable_bytes
from workbench.pipeline.block_layouts import tasks_of
from workbench.pipeline.estimate_block_cost import BlockCost, TogetherBytes, make_stage_context
from workbench.pipeline.estimate_stage_costs import block_costs, estimate_blocks_as_one
from workbench.pipeline.stage_bytes import (
    HandedBytes,
    activation_bytes,
    handed_bytes,
    param_slice_bytes,
    sum_value_bytes,
    value_bytes,
)
from workbench.pipeline.staged_program import StagedProgram, count_batch_shards
from workbench.tracing.stage_partition.partition_network import StageValue

# Bytes of a micro-batch at work on every possible stage: the peaks of `stage_bytes`, for blocks a to b
# - 1, each a and b.
#
# Along a row a stage grows by a block at its end. The bytes that earlier blocks keep, and their peaks, do not change, so
# a row is a running maximum over the needs of its blocks.

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class AtWorkTables:
    """Inputs of the bytes at work; `sent`, `received`: float64[blocks, blocks + 1]; `capacity`: on-chip bytes."""

    blocks: Sequence[BlockCost]
    sent: Table
    received: Table
    capacity: float

    def keeping(self, residuals: Table) -> tuple[Table, Table]:
        """Peak bytes of the forward and the backward task if residuals are kept (`bytes_keeping_residuals`)."""
        extra = self._largest([max(block.at_forward.working - block.at_backward.staying, 0) for block in self.blocks])
        anywhere = self._largest(
            [block_cost.at_backward.anywhere + block_cost.at_backward.arriving + block_cost.at_backward.made for block_cost in self.blocks]
        )
        transient = np.maximum(self._largest([block_cost.at_backward.beside for block_cost in self.blocks]), self.received)
        passing = np.where(anywhere <= self.capacity, self.sent + self.received, transient)
        return residuals + self.sent + extra, residuals + passing

    def recomputing(self, together: Sequence[TogetherBytes], inputs: Table) -> tuple[Table, Table]:
        """Peak bytes if a stage keeps only its `inputs` and recomputes its forward pass (`bytes_recomputing`)."""
        passed = self._largest([block.at_forward.staying + block.at_forward.anywhere + block.at_forward.made for block in self.blocks])
        forward = inputs + np.where(passed <= self.capacity, self.sent, self._forward_moments())
        on_chip = self._backward_moments(together, [merged.anywhere for merged in together])
        whole = inputs + np.maximum(self.received, self._backward_moments(together, [merged.most for merged in together]))
        return forward, np.where(on_chip <= self.capacity, inputs + self.sent + self.received, np.maximum(forward, whole))

    def _largest(self, needed: Sequence[float]) -> Table:
        return _largest_so_far(np.broadcast_to(np.asarray(needed, float), (len(needed), len(needed))).copy())

    def _forward_moments(self) -> Table:
        """Forward bytes besides inputs: results and work space of the first block, all of others."""
        needed = np.broadcast_to([float(block.at_forward.whole) for block in self.blocks], (len(self.blocks),) * 2).copy()
        np.fill_diagonal(needed, [block.at_forward.made + block.at_forward.working for block in self.blocks])
        return _largest_so_far(needed)

    def _backward_moments(self, together: Sequence[TogetherBytes], working: Sequence[int]) -> Table:
        """Backward bytes besides the stage's inputs, at the peak of the most expensive block."""
        read = np.array([activation_bytes(block) for block in self.blocks], float)
        kept = np.array([both.kept for both in together], float)
        arriving, made = (np.array([getattr(block.at_backward, name) for block in self.blocks], float) for name in ("arriving", "made"))
        sums = np.concatenate(([0.0], np.cumsum(read + kept)[:-1]))
        before = sums[None, :] - (sums + read)[:, None]
        np.fill_diagonal(before, 0.0)
        needed = before + np.asarray(working, float) + arriving + np.maximum(read, made)
        np.fill_diagonal(needed, np.asarray(working, float) + arriving + made)
        return _largest_so_far(needed)


def _largest_so_far(needed: Table) -> Table:
    """float64[blocks, blocks + 1]: largest of `needed[a, a:b]` for stages a to b, 0 if empty."""
    inside = np.where(np.tri(len(needed), k=-1, dtype=bool), 0.0, needed)
    return np.concatenate((np.zeros((len(needed), 1)), np.maximum.accumulate(inside, axis=1)), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class StageTables:
    """Costs of the stage with blocks a to b - 1 on one device, each a float64[blocks, blocks + 1].

    - `forward`, `backward`: seconds of a micro-batch without recomputation; `forward` is infinite unless b > a;
    - `resident`: permanent bytes; `reduced`: gradient bytes that replicas sum for the update; `batch`: batch data of a
      micro-batch;
    - `residuals`, `received`: bytes kept per micro-batch without and with recomputation, including batch data;
    - `keeping`, `recomputing`: bytes of a micro-batch during its forward and backward task, without and with
      recomputation;
    - `made`: bytes that the first half of a backward task makes for the second; `handed`: residual bytes that the
      second half reads too.
    """

    forward: Table
    backward: Table
    resident: Table
    batch: Table
    residuals: Table
    received: Table
    keeping: tuple[Table, Table]
    recomputing: tuple[Table, Table]
    reduced: Table
    made: Table
    handed: Table

    def seconds(self, *, recomputed: bool) -> Table:
        return self.backward + self.forward * (2 if recomputed else 1)

    def peaks(self, spec: PipelineSpec, device: int) -> Table:
        """Peak bytes on a device under a schedule with one chunk, including the update. One micro-batch is at work;
        others are to come, kept, or between two halves. Early arrivals do not count.
        """
        recomputed = spec.recomputes(0, device)
        kept = self.received if recomputed else self.residuals
        forward, whole = self.recomputing if recomputed else self.keeping
        keeping = self.keeping[1]
        waiting = np.minimum(self.handed, self.residuals) + self.made
        first = np.maximum(whole, waiting) if recomputed else keeping + self.made
        second = waiting + keeping - self.residuals
        if device == 0:  # no input gradient is needed, so the whole backward task is the second half
            waiting = first = kept
            second = whole
        at_work = {Kind.FORWARD: forward, Kind.BACKWARD: whole, Kind.BACKWARD_INPUT: first, Kind.BACKWARD_WEIGHT: second}
        most = self.reduced
        for moment in list_in_flight(spec, device):
            others = moment.coming * self.batch + moment.kept * kept + moment.waiting * waiting
            most = np.maximum(most, others + at_work[moment.kind])
        return self.resident + most


class InFlight(NamedTuple):
    """A task at work on a device, and the number of other micro-batches to come, kept, and between two halves."""

    kind: Kind
    coming: int
    kept: int
    waiting: int


@lru_cache(maxsize=1 << 12)
def list_in_flight(spec: PipelineSpec, device: int) -> tuple[InFlight, ...]:
    """Moments of a device that no other moment with a task of the same kind dominates in micro-batches held.

    >>> [(str(kind), *others) for kind, *others in list_in_flight(PipelineSpec(2, 4), 0)]
    [('backward', 2, 1, 0), ('forward', 2, 1, 0)]
    """
    coming, kept, waiting = spec.micro_batches, 0, 0
    moments: dict[InFlight, None] = {}
    for kind, _, _ in schedule_named(spec.schedule).order(device, PipelineShape(spec.stages, spec.micro_batches)):
        coming -= kind is Kind.FORWARD
        kept -= kind in (Kind.BACKWARD, Kind.BACKWARD_INPUT)
        waiting -= kind is Kind.BACKWARD_WEIGHT
        now = InFlight(kind, coming, kept, waiting)
        if not any(_holds_more(moment, now) for moment in moments):
            moments = {moment: None for moment in moments if not _holds_more(now, moment)} | {now: None}
        kept += kind is Kind.FORWARD
        waiting += kind is Kind.BACKWARD_INPUT
    return tuple(sorted(moments))


def _holds_more(one: InFlight, other: InFlight) -> bool:
    """Whether a moment holds at least as much as another of its kind; kept micro-batches include batch data."""
    is_more = one.kept >= other.kept and one.waiting >= other.waiting and one.kept + one.coming >= other.kept + other.coming
    return one.kind == other.kind and is_more


def make_stage_tables(staged: StagedProgram) -> StageTables:
    """Make the tables of a plan's network."""
    costs, tasks, shards = block_costs(staged), tasks_of(staged.network), count_batch_shards(staged.plan)
    count, functions, context = len(costs), [task.stage.virtual_stage for task in tasks], make_stage_context(staged)
    chip = staged.plan.hardware.chip if staged.plan.hardware else None
    tile, values = chip.array_tile if chip else (), tasks[0].stage.partition.values
    batch = _sum_used(count, ((users, size, 0) for size, users in _batch_uses(staged, costs, shards, tile)))
    sizes = [value.held for value in value_bytes(context, staged.network)]
    kept = _find_users(task.residuals.values for task in tasks)
    read = _find_users(function.input_activations for function in functions)
    inside = _sum_blocks([block.kept(task.residuals.inside) for block, task in zip(costs, tasks, strict=True)])
    weights = param_slice_bytes(staged.plan, staged.network)
    owners = _find_users(function.param_slices for function in functions)
    at_once = {i for task in tasks for i in {*task.stage.virtual_stage.param_slices} - {*task.list_partial_sums(context.parts)}}
    resident = _sum_used(count, ((users, weights[i].resident, 0) for i, users in owners))
    residuals = batch + inside + _sum_used(count, ((users, sizes[v], 0) for v, users in kept))
    entries = _sum_used(count, ((users, sizes[v], values[v].maker + 1) for v, users in read))
    tables = AtWorkTables(costs, _sum_sent(count, values, sizes), entries, placeable_bytes(chip) if chip else 0)
    keeping = tables.keeping(residuals)
    together = estimate_blocks_as_one(context, staged.network) if staged.spec.recomputing_stages else ()
    splits = schedule_named(staged.spec.schedule).splits_backward
    handed = handed_bytes(context, staged.network) if splits else [HandedBytes(0, 0)] * count
    return StageTables(
        _sum_blocks([cost.forward for cost in costs], np.inf),
        _sum_blocks([cost.backward_input + cost.backward_weight for cost in costs]),
        resident + _sum_used(count, ((users[:1], weights[i].state, 0) for i, users in owners)),
        batch,
        residuals,
        batch + entries,
        keeping,
        tables.recomputing(together, batch + entries) if together else keeping,
        _sum_used(count, ((users, weights[i].sums, 0) for i, users in owners if i not in at_once)),
        _sum_blocks([cost.made for cost in handed]),
        _sum_blocks([cost.kept for cost in handed]),
    )


def _batch_uses(staged: StagedProgram, costs: Sequence[BlockCost], shards: int, tile: tuple[int, ...]) -> list[tuple[int, list[int]]]:
    network, read = staged.network, dict(entry for block in costs for entry in block.at_forward.read)
    uses = _find_users(task.stage.virtual_stage.batch for task in tasks_of(network))
    paths = network.batch_paths
    sizes = [read.get(path, sum_value_bytes([var.aval], shards, tile)) for path, var in zip(paths, network.flat.batch, strict=True)]
    return [(sizes[leaf], users) for leaf, users in uses]


def _sum_sent(count: int, values: Sequence[StageValue], sizes: Sequence[int]) -> Table:
    table = np.zeros((count, count + 1))
    for value, size in zip(values, sizes, strict=True):
        table[: value.maker + 1, value.maker + 1 : max(value.readers, default=-1) + 1] += size
    return table


def _find_users(used: Iterable[Iterable[int]]) -> list[tuple[int, list[int]]]:
    users: dict[int, list[int]] = {}
    for block, items in enumerate(used):
        for item in {*items}:
            users.setdefault(item, []).append(block)
    return list(users.items())


def _sum_used(count: int, uses: Iterable[tuple[Sequence[int], float, int]]) -> Table:
    """Total bytes per stage, each item once; `uses`: users, bytes, and the least a for which it counts."""
    added = np.zeros((count, count + 1))
    for users, size, least in uses:
        for before, user in zip((least - 1, *users), users, strict=False):
            added[max(before + 1, least) : user + 1, user + 1] += size
    return np.cumsum(added, axis=1)


def _sum_blocks(values: Sequence[float], nothing: float = 0.0) -> Table:
    """Sum over the blocks of each stage; `nothing` for empty stages."""
    row = np.concatenate(([0.0], np.asarray(values, float)))  # the value of block i at column i + 1
    table = np.cumsum(np.triu(np.broadcast_to(row, (len(values), len(row))), 1), axis=1)
    table[np.tri(*table.shape) > 0] = nothing
    return table
