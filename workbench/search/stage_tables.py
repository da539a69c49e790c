"""Seconds and bytes of every stage that there may be, blocks a to b - 1 for each a and b, so that a partition can be chosen by them.

They are the sums over blocks of `estimate_stage_costs`: what several blocks of a stage use, counts once. A value that is used in blocks u
and v adds its bytes to a stage from a to b if one of them lies between: at column u + 1 for rows up to u, at column v + 1 for those behind
u, and so on; sums along the rows then are the table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules import PipelineShape, schedule_named
from workbench.core.schedules.tasks import Kind
from workbench.pipeline.data_parallel_groups import count_batch_shards
from workbench.pipeline.estimate_block_cost import make_stage_context
from workbench.pipeline.estimate_stage_costs import block_costs, tasks_of, weigh_params
from workbench.pipeline.staged_program import StagedProgram
from workbench.tracing.jaxpr.equation_costs import size_of

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StageTables:
    """Of the stage with blocks a to b - 1, on one device, each a float64[blocks, blocks + 1].

    - `forward`, `backward`: seconds of a micro-batch, without recomputation; `forward` is infinite where b is not behind a;
    - `resident`: bytes throughout; `reduced`: of gradients that replicas sum for the update; `batch`: of a micro-batch's batch data;
    - `residuals`, `received`: bytes of what a micro-batch keeps without and with recomputation, batch data with it; `inside`: of what its
      blocks read back, each for itself; `beside`: of what the worst of them needs besides;
    - `made`: bytes that the first half of a backward task makes for the second, `handed` of residuals that the second reads too.
    """

    forward: Table
    backward: Table
    resident: Table
    batch: Table
    residuals: Table
    received: Table
    inside: Table
    beside: Table
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
        whole = kept + (np.maximum(self.inside, self.beside) if recomputed else self.beside)
        waiting = np.minimum(self.handed, self.residuals) + self.made
        first = np.maximum(whole, waiting) if recomputed else whole + self.made
        if device == 0:  # no gradient goes further back: the whole backward task is the second half
            waiting = first = kept
        second = whole if device == 0 else waiting + self.beside
        at_work = {Kind.FORWARD: kept, Kind.BACKWARD: whole, Kind.BACKWARD_INPUT: first, Kind.BACKWARD_WEIGHT: second}
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
    count, functions = len(costs), [task.stage.virtual_stage for task in tasks]
    values = tasks[0].stage.partition.values
    batch_sizes = [size_of(var.aval) / shards for var in staged.network.flat.batch]
    batch = _sum_used(count, ((users, batch_sizes[leaf], 0) for leaf, users in _find_users(each.batch for each in functions)))
    kept = _find_users(task.residuals.values for task in tasks)
    read = _find_users(each.input_activations for each in functions)
    inside = _sum_blocks([block.kept(task.residuals.inside) for block, task in zip(costs, tasks, strict=True)])
    weights = weigh_params(staged.plan, staged.network)
    owners = _find_users(each.param_slices for each in functions)
    parts = make_stage_context(staged).parts
    at_once = {each for task in tasks for each in {*task.stage.virtual_stage.param_slices} - {*task.list_partial_sums(parts)}}
    resident = _sum_used(count, ((users, weights[i].resident, 0) for i, users in owners))
    return StageTables(
        _sum_blocks([each.forward for each in costs], np.inf),
        _sum_blocks([each.backward_input + each.backward_weight for each in costs]),
        resident + _sum_used(count, ((users[:1], weights[i].state, 0) for i, users in owners)),
        batch,
        batch + inside + _sum_used(count, ((users, values[v].bytes / shards, 0) for v, users in kept)),
        batch + _sum_used(count, ((users, values[v].bytes / shards, values[v].maker + 1) for v, users in read)),
        _sum_blocks([each.at_backward.staying for each in costs]),
        np.maximum.accumulate(_spread([each.at_backward.beside for each in costs]), axis=1),
        _sum_used(count, ((users, weights[i].sums, 0) for i, users in owners if i not in at_once)),
        _sum_blocks([each.half_handover.made / shards for each in tasks]),
        _sum_blocks([each.half_handover.kept / shards for each in tasks]),
    )


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
