"""Estimate the cost of each virtual stage of a pipelined plan with the planner's model of its blocks.

Each block is estimated as separate programs over the devices of one stage: its forward task and its actual backward
task. A virtual stage is the sum of its blocks, so moving a boundary needs no new estimate. Without hardware one second
stands for 10^12 operations, which only serves to compare virtual stages.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.schedules import schedule_named
from workbench.core.schedules.stage_cost import AtWork, Halves, Payload, StageCost, sum_payloads
from workbench.cost.collective_times import collective_seconds
from workbench.cost.on_chip_memory import placeable_bytes
from workbench.pipeline.balance import Sending, assign_blocks, balanced_starts, find_starts, list_sends
from workbench.pipeline.block_layouts import lay_out_network, tasks_of
from workbench.pipeline.estimate_block_cost import BlockCost, StageContext, TogetherBytes, estimate_together, make_stage_context
from workbench.pipeline.stage_bytes import (
    SliceBytes,
    bytes_keeping_residuals,
    bytes_recomputing,
    handed_bytes,
    param_slice_bytes,
    sum_value_bytes,
    value_bytes,
)
from workbench.pipeline.stage_memory import with_exact_memory
from workbench.pipeline.stage_transfer import transfer_of
from workbench.pipeline.staged_program import StagedProgram, count_batch_shards
from workbench.plan.plan import Plan
from workbench.propagation import gc_paused
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.partition_network import StagePartition, StageValue
from workbench.tracing.stage_partition.trace_network import Network

Estimated = TypeVar("Estimated")


def block_costs(staged: StagedProgram) -> tuple[BlockCost, ...]:
    """Return the cost of every block, cached for the last plans with the same `StageContext`."""
    return stage_block_costs(make_stage_context(staged), staged.network)


@cache_with_program(5)
def stage_block_costs(stage: StageContext, network: Network) -> tuple[BlockCost, ...]:
    """Return the cost of every block of a network on the devices of one stage."""
    pairs = zip(lay_out_network(stage, network), tasks_of(network), strict=True)
    return tuple(laid.cost._replace(path=block.stage.virtual_stage.blocks[0]) for laid, block in pairs)


@cache_with_program(5)
def estimate_blocks_as_one(stage: StageContext, network: Network) -> tuple[TogetherBytes, ...]:
    """Estimate both passes of every block as one program, for stages that recompute."""
    return tuple(estimate_each(estimate_together, stage, network))


def estimate_each(estimated: Callable[[BlockTasks, StageContext], Estimated], stage: StageContext, network: Network) -> list[Estimated]:
    """Return one estimate per block, computed once for equal blocks with equal shardings."""
    estimates: dict[int, Estimated] = {}
    blocks = lay_out_network(stage, network)
    with gc_paused():  # tracing leaves many live objects and little garbage
        for block in blocks:
            if id(block) not in estimates:
                estimates[id(block)] = estimated(block.block, block.stage)
    return [estimates[id(block)] for block in blocks]


def stage_costs(staged: StagedProgram, *, exact_memory: bool = False) -> tuple[StageCost, ...]:
    """Return the cost of each virtual stage, partitioned by the pipeline's boundaries and by balance.

    With `exact_memory`, memory is that of each virtual stage as one program, not the sum of its blocks
    (`stage_memory`).
    """
    starts = plan_starts(staged)
    costs = partition_costs(staged, starts)
    return with_exact_memory(staged, starts, costs) if exact_memory else costs


def plan_starts(staged: StagedProgram) -> tuple[int, ...]:
    """Return the first block of each virtual stage but the first; nothing is estimated if boundaries name all of them."""
    spec = staged.spec
    if len(spec.boundaries) == spec.virtual_stages - 1:
        return find_starts(staged.network, spec)
    return balanced_starts(staged.network, spec, block_costs(staged), find_sending(staged))


def find_sending(staged: StagedProgram) -> Sending:
    """Return the values sent between the blocks of a plan, and their links."""
    values = tasks_of(staged.network)[0].stage.partition.values
    sizes = value_bytes(make_stage_context(staged), staged.network)
    return Sending(values, tuple(size.sent for size in sizes), transfer_of(staged.plan))


def partition_costs(staged: StagedProgram, starts: Sequence[int]) -> tuple[StageCost, ...]:
    """Return the costs of the virtual stages that begin with these blocks."""
    plan, network = staged.plan, staged.network
    costs, tasks = block_costs(staged), tasks_of(network)
    bounds = (0, *starts, len(costs))
    stage_of = assign_blocks(bounds)
    context = make_stage_context(staged)
    param_slices = tuple(
        frozenset(param_slice for task in tasks[a:b] for param_slice in task.stage.virtual_stage.param_slices) for a, b in pairwise(bounds)
    )
    sizes = value_bytes(context, network)
    ledger = _Ledger(
        staged, context, costs, tasks, stage_of, param_slices, param_slice_bytes(plan, network), tuple(size.held for size in sizes)
    )
    together = estimate_blocks_as_one(context, network) if staged.spec.recomputing_stages else ()
    sends = list_sends(ledger.partition.values, [size.sent for size in sizes], stage_of)
    result = []
    for stage, (a, b) in enumerate(pairwise(bounds)):
        stage_blocks, reduced_grads = costs[a:b], ledger.reduced_grads(a, b)
        sent = ledger.sent_update(reduced_grads)
        cost = StageCost(
            forward=sum(block.forward for block in stage_blocks),
            backward_input=sum(block.backward_input for block in stage_blocks),
            backward_weight=sum(block.backward_weight for block in stage_blocks),
            resident=ledger.resident(stage),
            residuals=ledger.residuals(a, b) + ledger.batch_inputs(stage),
            input_activations=ledger.input_activations(stage) + ledger.batch_inputs(stage),
            sends=sends[stage],
            update=ledger.update(stage, sent) + sum(block.once for block in stage_blocks),
            batch_inputs=ledger.batch_inputs(stage),
            borrowed_grads=ledger.borrowed_grads(stage) + (0 if ledger.sums_in_place else reduced_grads),
            sent_update=sent,
            sent_forward=sum_payloads(block.sent_forward for block in stage_blocks),
            sent_both=sum_payloads(block.sent_both for block in stage_blocks),
            outgoing_forward=sum(block.outgoing_forward for block in stage_blocks),
            outgoing_both=sum(block.outgoing_both for block in stage_blocks),
            flops_forward=sum(block.flops_forward for block in stage_blocks),
            flops_both=sum(block.flops_both for block in stage_blocks),
        )
        at_work = ledger.at_work(stage, cost, stage_blocks, together[a:b])
        result.append(replace(cost, at_work=at_work, halves=ledger.halves(stage, a, b, replace(cost, at_work=at_work))))
    return tuple(result)


@dataclass(frozen=True)
class _Ledger:
    """Bytes of the virtual stages, on one device.

    - `stage_of`: stage of each block; `param_slices`: parameter slices used by each stage; `weights`: bytes of each
      slice;
    - `sizes`: bytes of the values between blocks.
    """

    staged: StagedProgram
    context: StageContext
    costs: tuple[BlockCost, ...]
    tasks: tuple[BlockTasks, ...]
    stage_of: tuple[int, ...]
    param_slices: tuple[frozenset[int], ...]
    weights: tuple[SliceBytes, ...]
    sizes: tuple[int, ...]

    @property
    def plan(self) -> Plan:
        return self.staged.plan

    @property
    def network(self) -> Network:
        return self.staged.network

    @property
    def parts(self) -> DataParallelGroups:
        return self.context.parts

    @property
    def sums_in_place(self) -> bool:
        """Whether gradients are summed over devices in their own memory."""
        return self.plan.hardware is not None and self.plan.hardware.runtime.updates_in_place

    @property
    def partition(self) -> StagePartition:
        return self.tasks[0].stage.partition

    def resident(self, stage: int) -> int:
        """Parameters with accumulated gradients, and optimizer state of the parameters that no earlier stage uses."""
        states = sum(self.weights[param_slice].state for param_slice in self._find_owned(stage))
        return states + sum(self.weights[param_slice].resident for param_slice in self.param_slices[stage])

    def _find_owned(self, stage: int) -> frozenset[int]:
        return self.param_slices[stage].difference(*self.param_slices[:stage])

    def borrowed_grads(self, stage: int) -> int:
        """Accumulated gradients, in later stages, of parameter slices that this stage updates."""
        owned = self._find_owned(stage)
        return sum(self.weights[param_slice].sums for later in self.param_slices[stage + 1 :] for param_slice in later & owned)

    def reduced_grads(self, a: int, b: int) -> int:
        """Bytes of gradients that the devices of these blocks sum over data-parallel groups at the end of the step."""
        partial_by_task = [(task, {*task.list_partial_sums(self.parts)}) for task in self.tasks[a:b]]
        partial = {param_slice for _, param_slices in partial_by_task for param_slice in param_slices}
        complete = {
            param_slice for task, param_slices in partial_by_task for param_slice in {*task.stage.virtual_stage.param_slices} - param_slices
        }
        return sum(self.weights[param_slice].sums for param_slice in partial - complete)

    def sent_update(self, reduced_grads: int) -> Payload:
        return (((self.parts.axes, "all-reduce"), reduced_grads),) if reduced_grads else ()

    def residuals(self, a: int, b: int) -> int:
        values = {value for task in self.tasks[a:b] for value in task.residuals.values}
        inside = sum(block.kept(task.residuals.inside) for block, task in zip(self.costs[a:b], self.tasks[a:b], strict=True))
        return inside + self._value_bytes(values)

    def at_work(
        self, stage: int, cost: StageCost, stage_blocks: Sequence[BlockCost], together: Sequence[TogetherBytes]
    ) -> tuple[AtWork, AtWork]:
        """Peak bytes with residuals kept, and with recomputation, which is the same if no stage recomputes."""
        sent = {number for number, value in enumerate(self.partition.values) if self._is_sent(value, stage)}
        arriving, departing = self._value_bytes(sent), cost.input_activations - cost.batch_inputs
        chip = self.context.hardware.chip if self.context.hardware else None
        beside = arriving, arriving, departing, placeable_bytes(chip) if chip else 0
        keeping = bytes_keeping_residuals(stage_blocks, cost.residuals, *beside)
        return keeping, bytes_recomputing(stage_blocks, together, cost.input_activations, *beside) if together else keeping

    def _is_sent(self, value: StageValue, stage: int) -> bool:
        return self.stage_of[value.maker] == stage and any(self.stage_of[reader] != stage for reader in value.readers)

    def _value_bytes(self, values: Iterable[int]) -> int:
        return sum(self.sizes[value] for value in values)

    def halves(self, stage: int, a: int, b: int, cost: StageCost) -> tuple[Halves, Halves] | None:
        """Bytes of the two halves of a backward task as sums over the blocks: values handed over and peaks.

        Recomputed values become pending ones block after block, so the peak is at the start; residuals stay until the
        first half is done. `None` for schedules with whole backward tasks.
        """
        if not schedule_named(self.staged.spec.schedule).splits_backward:
            return None
        if not any(
            self.partition.values[v].flows_back and self.stage_of[self.partition.values[v].maker] != stage for v in self._values_read(stage)
        ):
            first, second = cost.residuals, cost.input_activations  # the whole backward task is its second half
            (_, keeping), (_, recomputing) = cost.at_work_of(recomputed=False), cost.at_work_of(recomputed=True)
            return Halves(first, first, keeping), Halves(second, second, recomputing)
        handed = handed_bytes(self.context, self.network)[a:b]
        handed_over, kept_for_weights = sum(block.made for block in handed), sum(block.kept for block in handed)
        pending = min(kept_for_weights, cost.residuals) + handed_over
        kept, recomputing_peak = (cost.at_work_of(recomputed=recomputed).backward for recomputed in (False, True))
        second = pending + kept - cost.residuals
        return Halves(kept + handed_over, pending, second), Halves(max(recomputing_peak, pending), pending, second)

    def _values_read(self, stage: int) -> set[int]:
        return {value for block in self._blocks[stage] for value in self.partition.virtual_stages[block].input_activations}

    @cached_property
    def _blocks(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(block for block, owner in enumerate(self.stage_of) if owner == stage) for stage in range(len(self.param_slices)))

    def input_activations(self, stage: int) -> int:
        values = {v for v in self._values_read(stage) if self.stage_of[self.partition.values[v].maker] != stage}
        return self._value_bytes(values)

    def batch_inputs(self, stage: int) -> int:
        blocks = self._blocks[stage]
        leaves = {leaf for block in blocks for leaf in self.partition.virtual_stages[block].batch}
        read = dict(path_and_size for block in blocks for path_and_size in self.costs[block].at_forward.read)
        unread = (self.network.flat.batch[leaf].aval for leaf in leaves if self.network.batch_paths[leaf] not in read)
        read_bytes = sum(read.get(self.network.batch_paths[leaf], 0) for leaf in leaves)
        tile = self.context.hardware.chip.array_tile if self.context.hardware else ()
        return read_bytes + sum_value_bytes(unread, count_batch_shards(self.plan), tile)

    def update(self, stage: int, sent: Payload) -> float:
        """Seconds of the update, bound by memory bandwidth, and of the gradient sums over devices before it."""
        plan, hardware = self.plan, self.plan.hardware
        if hardware is None:
            return 0.0
        sums = sum(collective_seconds(kind, axes, count, plan.mesh, hardware, plan.axis_assignment) for (axes, kind), count in sent)
        return 2 * self.resident(stage) / hardware.chip.memory_bandwidth + sums
