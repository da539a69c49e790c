"""Seconds and bytes of every stage that there may be, blocks a to b - 1 for each a and b, so that a partition can be chosen by them.

They are the sums over blocks of `estimate_stage_costs`, and the worst moments of `stage_bytes`: what several blocks of a stage use, counts
once. A value that is used in blocks u and v adds its bytes to a stage from a to b if one of them lies between: at column u + 1 for rows up
to u, at column v + 1 for those behind u, and so on; sums along the rows then are the table.
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
from workbench.pipeline.estimate_stage_costs import block_costs, blocks_together
from workbench.pipeline.stage_bytes import (
    HandedBytes,
    activation_bytes,
    handed_bytes,
    kept_in_one_program,
    sum_value_bytes,
    value_bytes,
    weigh_params,
)
from workbench.pipeline.staged_program import StagedProgram, count_batch_shards
from workbench.tracing.stage_partition.partition_network import StageValue

# Bytes of a micro-batch at work on every stage that there may be: the worst moments of `stage_bytes`, for blocks a to b
# - 1, each a and b.
#
# Along a row a stage grows by a block at its end: what the blocks before keep, and what each needs at its worst moment, stays as it is. So
# a row is a running maximum over what its blocks need.

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class AtWorkTables:
    """What at work depends on: the blocks; of each stage the bytes that it sends and that it is sent, float64[blocks, blocks + 1]; those
    of the chip's own memory."""

    blocks: Sequence[BlockCost]
    sent: Table
    received: Table
    capacity: float

    def keeping(self, residuals: Table) -> tuple[Table, Table]:
        """While the forward and the backward task run, residuals being kept (`keeping_at_work`)."""
        extra = self._largest([max(each.at_forward.working - each.at_backward.staying, 0) for each in self.blocks])
        anywhere = self._largest([each.at_backward.anywhere + each.at_backward.arriving + each.at_backward.made for each in self.blocks])
        beside = np.maximum(self._largest([each.at_backward.beside for each in self.blocks]), self.received)
        passing = np.where(anywhere <= self.capacity, self.sent + self.received, beside)
        return residuals + self.sent + extra, residuals + passing

    def recomputing(self, together: Sequence[TogetherBytes], inputs: Table) -> tuple[Table, Table]:
        """The same where a stage keeps only its `inputs` and computes its forward pass again (`recomputing_at_work`)."""
        passed = self._largest([each.at_forward.staying + each.at_forward.anywhere + each.at_forward.made for each in self.blocks])
        forward = inputs + np.where(passed <= self.capacity, self.sent, self._forward_moments())
        on_chip = self._backward_moments(together, [each.anywhere for each in together])
        whole = inputs + np.maximum(self.received, self._backward_moments(together, [each.most for each in together]))
        return forward, np.where(on_chip <= self.capacity, inputs + self.sent + self.received, np.maximum(forward, whole))

    def _largest(self, needed: Sequence[float]) -> Table:
        """What the block that needs most of it needs."""
        return _largest_so_far(np.broadcast_to(np.asarray(needed, float), (len(needed), len(needed))).copy())

    def _forward_moments(self) -> Table:
        """Beside the stage's inputs: of its first block what that makes and works with, of others all."""
        needed = np.broadcast_to([float(each.at_forward.whole) for each in self.blocks], (len(self.blocks),) * 2).copy()
        np.fill_diagonal(needed, [each.at_forward.made + each.at_forward.working for each in self.blocks])
        return _largest_so_far(needed)

    def _backward_moments(self, together: Sequence[TogetherBytes], working: Sequence[int]) -> Table:
        """Beside the stage's inputs, at the worst moment of the worst block's backward pass."""
        read = np.array([activation_bytes(each) for each in self.blocks], float)
        kept = np.array([kept_in_one_program(each, both) for each, both in zip(self.blocks, together, strict=True)], float)
        arriving, made = (np.array([getattr(each.at_backward, name) for each in self.blocks], float) for name in ("arriving", "made"))
        sums = np.concatenate(([0.0], np.cumsum(read + kept)[:-1]))
        before = sums[None, :] - (sums + read)[:, None]
        np.fill_diagonal(before, 0.0)
        needed = before + np.asarray(working, float) + arriving + np.maximum(read, made)
        np.fill_diagonal(needed, np.asarray(working, float) + arriving + made)
        return _largest_so_far(needed)


def _largest_so_far(needed: Table) -> Table:
    """float64[blocks, blocks + 1] from float64[blocks, blocks]: of stages from a to b the largest of `needed[a, a:b]`, none of none."""
    inside = np.where(np.tri(len(needed), k=-1, dtype=bool), 0.0, needed)
    return np.concatenate((np.zeros((len(needed), 1)), np.maximum.accumulate(inside, axis=1)), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class StageTables:
    """Of the stage with blocks a to b - 1, on one device, each a float64[blocks, blocks + 1].

    - `forward`, `backward`: seconds of a micro-batch, without recomputation; `forward` is infinite where b is not behind a;
    - `resident`: bytes throughout; `reduced`: of gradients that replicas sum for the update; `batch`: of a micro-batch's batch data;
    - `residuals`, `received`: bytes of what a micro-batch keeps without and with recomputation, batch data with it;
    - `keeping`, `recomputing`: bytes of a micro-batch while its forward and its backward task run, without and with recomputation;
    - `made`: bytes that the first half of a backward task makes for the second, `handed` of residuals that the second reads too.
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
        """Seconds of a micro-batch."""
        return self.backward + self.forward * (2 if recomputed else 1)

    def peaks(self, spec: PipelineSpec, device: int) -> Table:
        """Bytes on a device of a schedule with one chunk at its worst moment, the update included: one micro-batch is at work, others are
        to come, kept, or wait between the halves of their backward task. What arrives early is not in them."""
        recomputed = spec.recomputes(0, device)
        kept = self.received if recomputed else self.residuals
        forward, whole = self.recomputing if recomputed else self.keeping
        keeping = self.keeping[1]
        waiting = np.minimum(self.handed, self.residuals) + self.made
        first = np.maximum(whole, waiting) if recomputed else keeping + self.made
        second = waiting + keeping - self.residuals
        if device == 0:  # no gradient goes further back: the whole backward task is the second half
            waiting = first = kept
            second = whole
        at_work = {Kind.FORWARD: forward, Kind.BACKWARD: whole, Kind.BACKWARD_INPUT: first, Kind.BACKWARD_WEIGHT: second}
        most = self.reduced
        for moment in list_in_flight(spec, device):
            others = moment.coming * self.batch + moment.kept * kept + moment.waiting * waiting
            most = np.maximum(most, others + at_work[moment.kind])
        return self.resident + most


class InFlight(NamedTuple):
    """A task of a kind at work on a device, with how many other micro-batches are to come, are kept, and wait between two halves."""

    kind: Kind
    coming: int
    kept: int
    waiting: int


@lru_cache(maxsize=1 << 12)
def list_in_flight(spec: PipelineSpec, device: int) -> tuple[InFlight, ...]:
    """The moments of a device that hold more, in one way or another, than any other with a task of the kind.

    >>> [(str(kind), *others) for kind, *others in list_in_flight(PipelineSpec(2, 4), 0)]
    [('backward', 2, 1, 0), ('forward', 2, 1, 0)]
    """
    coming, kept, waiting = spec.micro_batches, 0, 0
    found: dict[InFlight, None] = {}
    for kind, _, _ in schedule_named(spec.schedule).order(device, PipelineShape(spec.stages, spec.micro_batches)):
        coming -= kind is Kind.FORWARD
        kept -= kind in (Kind.BACKWARD, Kind.BACKWARD_INPUT)
        waiting -= kind is Kind.BACKWARD_WEIGHT
        now = InFlight(kind, coming, kept, waiting)
        if not any(_holds_more(each, now) for each in found):
            found = {each: None for each in found if not _holds_more(now, each)} | {now: None}
        kept += kind is Kind.FORWARD
        waiting += kind is Kind.BACKWARD_INPUT
    return tuple(sorted(found))


def _holds_more(one: InFlight, other: InFlight) -> bool:
    """Whether one moment holds all that another with a task of its kind does: what is kept of a micro-batch has its batch data with it."""
    is_more = one.kept >= other.kept and one.waiting >= other.waiting and one.kept + one.coming >= other.kept + other.coming
    return one.kind == other.kind and is_more


def make_stage_tables(staged: StagedProgram) -> StageTables:
    """The tables of a plan's network."""
    costs, tasks, shards = block_costs(staged), tasks_of(staged.network), count_batch_shards(staged.plan)
    count, functions, context = len(costs), [task.stage.virtual_stage for task in tasks], make_stage_context(staged)
    chip = staged.plan.hardware.chip if staged.plan.hardware else None
    tile, values = chip.array_tile if chip else (), tasks[0].stage.partition.values
    batch = _sum_used(count, ((users, size, 0) for size, users in _batch_uses(staged, costs, shards, tile)))
    sizes = [each.held for each in value_bytes(context, staged.network)]
    kept = _find_users(task.residuals.values for task in tasks)
    read = _find_users(each.input_activations for each in functions)
    inside = _sum_blocks([block.kept(task.residuals.inside) for block, task in zip(costs, tasks, strict=True)])
    weights = weigh_params(staged.plan, staged.network)
    owners = _find_users(each.param_slices for each in functions)
    at_once = {each for task in tasks for each in {*task.stage.virtual_stage.param_slices} - {*task.list_partial_sums(context.parts)}}
    resident = _sum_used(count, ((users, weights[i].resident, 0) for i, users in owners))
    residuals = batch + inside + _sum_used(count, ((users, sizes[v], 0) for v, users in kept))
    entries = _sum_used(count, ((users, sizes[v], values[v].maker + 1) for v, users in read))
    tables = AtWorkTables(costs, _sum_sent(count, values, sizes), entries, placeable_bytes(chip) if chip else 0)
    keeping = tables.keeping(residuals)
    together = blocks_together(context, staged.network) if staged.spec.recomputing_stages else ()
    splits = schedule_named(staged.spec.schedule).splits_backward
    handed = handed_bytes(context, staged.network) if splits else [HandedBytes(0, 0)] * count
    return StageTables(
        _sum_blocks([each.forward for each in costs], np.inf),
        _sum_blocks([each.backward_input + each.backward_weight for each in costs]),
        resident + _sum_used(count, ((users[:1], weights[i].state, 0) for i, users in owners)),
        batch,
        residuals,
        batch + entries,
        keeping,
        tables.recomputing(together, batch + entries) if together else keeping,
        _sum_used(count, ((users, weights[i].sums, 0) for i, users in owners if i not in at_once)),
        _sum_blocks([each.made for each in handed]),
        _sum_blocks([each.kept for each in handed]),
    )


def _batch_uses(staged: StagedProgram, costs: Sequence[BlockCost], shards: int, tile: tuple[int, ...]) -> list[tuple[int, list[int]]]:
    """Bytes of each leaf of a micro-batch's data on one device, as the blocks that use it read it, and those blocks."""
    network, read = staged.network, dict(each for block in costs for each in block.at_forward.read)
    found = _find_users(task.stage.virtual_stage.batch for task in tasks_of(network))
    paths = network.batch_paths
    sizes = [read.get(path, sum_value_bytes([var.aval], shards, tile)) for path, var in zip(paths, network.flat.batch, strict=True)]
    return [(sizes[leaf], users) for leaf, users in found]


def _sum_sent(count: int, values: Sequence[StageValue], sizes: Sequence[int]) -> Table:
    """Bytes of what each stage makes and later ones read."""
    found = np.zeros((count, count + 1))
    for value, size in zip(values, sizes, strict=True):
        found[: value.maker + 1, value.maker + 1 : max(value.readers, default=-1) + 1] += size
    return found


def _find_users(used: Iterable[Iterable[int]]) -> list[tuple[int, list[int]]]:
    """For each thing that blocks use, those blocks in order."""
    found: dict[int, list[int]] = {}
    for block, things in enumerate(used):
        for each in {*things}:
            found.setdefault(each, []).append(block)
    return list(found.items())


def _sum_used(count: int, uses: Iterable[tuple[Sequence[int], float, int]]) -> Table:
    """The sum of what stages use, each thing once; of each the blocks that use it, its bytes, and the least a for which it counts."""
    added = np.zeros((count, count + 1))
    for users, size, least in uses:
        for before, user in zip((least - 1, *users), users, strict=False):
            added[max(before + 1, least) : user + 1, user + 1] += size
    return np.cumsum(added, axis=1)


def _sum_blocks(values: Sequence[float], nothing: float = 0.0) -> Table:
    """The sum over the blocks of each stage; `nothing` for those without a block."""
    found = np.cumsum(_spread(values), axis=1)
    found[np.tri(*found.shape) > 0] = nothing
    return found


def _spread(values: Sequence[float]) -> Table:
    """Each block's value where a stage gets it: float64[blocks, blocks + 1], at column i + 1 in the rows up to i."""
    table = np.concatenate(([0.0], np.asarray(values, float)))
    return np.triu(np.broadcast_to(table, (len(values), len(values) + 1)), 1)
