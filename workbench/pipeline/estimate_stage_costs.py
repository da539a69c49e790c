"""The cost of each virtual stage of a pipelined plan, from the planner's own model of its blocks.

Each block is estimated as programs of its own, over the devices of one stage: its forward task, and its backward task as it runs. A
virtual stage is the sum of its blocks, so that moving a boundary needs no new estimate. Without hardware a second stands for 10^12
operations: good to compare virtual stages, and for no more than that.
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
from workbench.pipeline.block_layouts import laid_network, tasks_of
from workbench.pipeline.estimate_block_cost import (
    BlockCost,
    StageContext,
    TogetherBytes,
    estimate_together,
    make_stage_context,
)
from workbench.pipeline.stage_bytes import (
    SliceBytes,
    handed_bytes,
    keeping_at_work,
    recomputing_at_work,
    sum_value_bytes,
    value_bytes,
    weigh_params,
)
from workbench.pipeline.stage_memory import with_exact_memory
from workbench.pipeline.stage_transfer import transfer_of
from workbench.pipeline.staged_program import StagedProgram, count_batch_shards
from workbench.plan.plan import Plan
from workbench.propagation import gc_paused
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.partition_network import StagePartition, StageValue

Estimated = TypeVar("Estimated")


def block_costs(staged: StagedProgram) -> tuple[BlockCost, ...]:
    """The cost of every block. Cached for the last few plans whose stages are alike (`StageContext`)."""
    return stage_block_costs(make_stage_context(staged), staged.network)


@cache_with_program(5)
def stage_block_costs(stage: StageContext, network: Network) -> tuple[BlockCost, ...]:
    """The cost of every block of a network on the devices of one stage."""
    placed = zip(laid_network(stage, network), tasks_of(network), strict=True)
    return tuple(laid.cost._replace(path=block.stage.virtual_stage.blocks[0]) for laid, block in placed)


@cache_with_program(5)
def blocks_together(stage: StageContext, network: Network) -> tuple[TogetherBytes, ...]:
    """What the two passes of every block have as one program, which stages that recompute need to be known."""
    return tuple(estimate_each(estimate_together, stage, network))


def estimate_each(estimated: Callable[[BlockTasks, StageContext], Estimated], stage: StageContext, network: Network) -> list[Estimated]:
    """One estimate for each block, made once of those that are alike and laid out alike."""
    known: dict[int, Estimated] = {}
    laid = laid_network(stage, network)
    with gc_paused():  # tracing leaves many live objects and little garbage
        for each in laid:
            if id(each) not in known:
                known[id(each)] = estimated(each.block, each.stage)
    return [known[id(each)] for each in laid]


def stage_costs(staged: StagedProgram, *, exact_memory: bool = False) -> tuple[StageCost, ...]:
    """The cost of each virtual stage, partitioned as the pipeline's boundaries and the balance of these costs say.

    `exact_memory` takes memory from each whole virtual stage as one program, not from its blocks (`stage_memory`).
    """
    starts = plan_starts(staged)
    costs = partition_costs(staged, starts)
    return with_exact_memory(staged, starts, costs) if exact_memory else costs


def plan_starts(staged: StagedProgram) -> tuple[int, ...]:
    """The number of the block each virtual stage but the first begins with; if boundaries name all of them, nothing is estimated."""
    spec = staged.spec
    if len(spec.boundaries) == spec.virtual_stages - 1:
        return find_starts(staged.network, spec)
    return balanced_starts(staged.network, spec, block_costs(staged), find_sending(staged))


def find_sending(staged: StagedProgram) -> Sending:
    """What the blocks of a plan send, and over which links."""
    values = tasks_of(staged.network)[0].stage.partition.values
    sizes = value_bytes(make_stage_context(staged), staged.network)
    return Sending(values, tuple(each.sent for each in sizes), transfer_of(staged.plan))


def partition_costs(staged: StagedProgram, starts: Sequence[int]) -> tuple[StageCost, ...]:
    """The costs of the virtual stages that begin with these blocks."""
    plan, network = staged.plan, staged.network
    costs, tasks = block_costs(staged), tasks_of(network)
    bounds = (0, *starts, len(costs))
    stage_of = assign_blocks(bounds)
    context = make_stage_context(staged)
    param_slices = tuple(
        frozenset(param_slice for task in tasks[a:b] for param_slice in task.stage.virtual_stage.param_slices) for a, b in pairwise(bounds)
    )
    sizes = value_bytes(context, network)
    ledger = _Ledger(staged, context, costs, tasks, stage_of, param_slices, weigh_params(plan, network), tuple(each.held for each in sizes))
    together = blocks_together(context, network) if staged.spec.recomputing_stages else ()
    sends = list_sends(ledger.partition.values, [each.sent for each in sizes], stage_of)
    found = []
    for stage, (a, b) in enumerate(pairwise(bounds)):
        stage_blocks, reduced_grads = costs[a:b], ledger.reduced_grads(a, b)
        sent = ledger.sent_update(reduced_grads)
        cost = StageCost(
            forward=sum(each.forward for each in stage_blocks),
            backward_input=sum(each.backward_input for each in stage_blocks),
            backward_weight=sum(each.backward_weight for each in stage_blocks),
            resident=ledger.resident(stage),
            residuals=ledger.residuals(a, b) + ledger.batch_inputs(stage),
            input_activations=ledger.input_activations(stage) + ledger.batch_inputs(stage),
            sends=sends[stage],
            update=ledger.update(stage, sent) + sum(each.once for each in stage_blocks),
            batch_inputs=ledger.batch_inputs(stage),
            borrowed_grads=ledger.borrowed_grads(stage) + (0 if ledger.sums_in_place else reduced_grads),
            sent_update=sent,
            sent_forward=sum_payloads(each.sent_forward for each in stage_blocks),
            sent_both=sum_payloads(each.sent_both for each in stage_blocks),
            outgoing_forward=sum(each.outgoing_forward for each in stage_blocks),
            outgoing_both=sum(each.outgoing_both for each in stage_blocks),
            flops_forward=sum(each.flops_forward for each in stage_blocks),
            flops_both=sum(each.flops_both for each in stage_blocks),
        )
        at_work = ledger.at_work(stage, cost, stage_blocks, together[a:b])
        found.append(replace(cost, at_work=at_work, halves=ledger.halves(stage, a, b, replace(cost, at_work=at_work))))
    return tuple(found)


@dataclass(frozen=True)
class _Ledger:
    """Bytes of the virtual stages, on one device.

    - `stage_of` says where each block is, `param_slices` which parameter slices each stage uses, `weights` what each slice takes;
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
        """Whether gradients are summed over devices in the memory that they lie in."""
        return self.plan.hardware is not None and self.plan.hardware.runtime.updates_in_place

    @property
    def partition(self) -> StagePartition:
        """The partition with a boundary at every block."""
        return self.tasks[0].stage.partition

    def resident(self, stage: int) -> int:
        """Parameters and their accumulated gradients, and the optimiser's state of those that no earlier stage uses."""
        states = sum(self.weights[param_slice].state for param_slice in self._find_owned(stage))
        return states + sum(self.weights[param_slice].resident for param_slice in self.param_slices[stage])

    def _find_owned(self, stage: int) -> frozenset[int]:
        """The parameter slices that the stage updates: those it is the first to use."""
        return self.param_slices[stage].difference(*self.param_slices[:stage])

    def borrowed_grads(self, stage: int) -> int:
        """Accumulated gradients, in later stages, of parameter slices that this stage updates."""
        owned = self._find_owned(stage)
        return sum(self.weights[param_slice].sums for later in self.param_slices[stage + 1 :] for param_slice in later & owned)

    def reduced_grads(self, a: int, b: int) -> int:
        """Bytes of gradients that the devices of these blocks sum over data-parallel groups at the end of the step."""
        split = [(task, {*task.list_partial_sums(self.parts)}) for task in self.tasks[a:b]]
        partial = {param_slice for _, param_slices in split for param_slice in param_slices}
        at_once = {param_slice for task, param_slices in split for param_slice in {*task.stage.virtual_stage.param_slices} - param_slices}
        return sum(self.weights[param_slice].sums for param_slice in partial - at_once)

    def sent_update(self, reduced_grads: int) -> Payload:
        return (((self.parts.axes, "all-reduce"), reduced_grads),) if reduced_grads else ()

    def residuals(self, a: int, b: int) -> int:
        """What a micro-batch leaves on a device from its forward to its backward pass: inside the blocks as it is sharded there."""
        values = {value for task in self.tasks[a:b] for value in task.residuals.values}
        inside = sum(block.kept(task.residuals.inside) for block, task in zip(self.costs[a:b], self.tasks[a:b], strict=True))
        return inside + self._value_bytes(values)

    def at_work(
        self, stage: int, cost: StageCost, stage_blocks: Sequence[BlockCost], together: Sequence[TogetherBytes]
    ) -> tuple[AtWork, AtWork]:
        """Bytes at work, from the stage's blocks, where residuals are kept and where they are computed again; of these no more than of
        those is known without `together`, where no stage recomputes."""
        sent = {number for number, value in enumerate(self.partition.values) if self._is_sent(value, stage)}
        arriving, departing = self._value_bytes(sent), cost.input_activations - cost.batch_inputs
        chip = self.context.hardware.chip if self.context.hardware else None
        beside = arriving, arriving, departing, placeable_bytes(chip) if chip else 0
        keeping = keeping_at_work(stage_blocks, cost.residuals, *beside)
        return keeping, recomputing_at_work(stage_blocks, together, cost.input_activations, *beside) if together else keeping

    def _is_sent(self, value: StageValue, stage: int) -> bool:
        return self.stage_of[value.maker] == stage and any(self.stage_of[each] != stage for each in value.readers)

    def _value_bytes(self, values: Iterable[int]) -> int:
        """Bytes on one device of values of the partition."""
        return sum(self.sizes[value] for value in values)

    def halves(self, stage: int, a: int, b: int, cost: StageCost) -> tuple[Halves, Halves] | None:
        """Bytes of the two halves of a backward task, from the sum of the blocks: what the halves of each block hand over, and their worst
        moments. Recomputed values turn into waiting ones block after block, the worst moment is at the start; residuals stay until the
        first half is done. `None` for a schedule whose backward tasks are whole."""
        if not schedule_named(self.staged.spec.schedule).splits_backward:
            return None
        if not any(
            self.partition.values[v].flows_back and self.stage_of[self.partition.values[v].maker] != stage for v in self._values_read(stage)
        ):
            first, second = cost.residuals, cost.input_activations  # the whole backward task is its second half
            (_, keeping), (_, recomputing) = cost.at_work_of(recomputed=False), cost.at_work_of(recomputed=True)
            return Halves(first, first, keeping), Halves(second, second, recomputing)
        between = handed_bytes(self.context, self.network)[a:b]
        made, kept_for_weights = sum(each.made for each in between), sum(each.kept for each in between)
        waiting = min(kept_for_weights, cost.residuals) + made
        kept, again = (cost.at_work_of(recomputed=each).backward for each in (False, True))
        second = waiting + kept - cost.residuals
        return Halves(kept + made, waiting, second), Halves(max(again, waiting), waiting, second)

    def _values_read(self, stage: int) -> set[int]:
        """The values that a stage's blocks read."""
        return {value for block in self._blocks[stage] for value in self.partition.virtual_stages[block].input_activations}

    @cached_property
    def _blocks(self) -> tuple[tuple[int, ...], ...]:
        """The blocks of each stage."""
        return tuple(tuple(block for block, each in enumerate(self.stage_of) if each == stage) for stage in range(len(self.param_slices)))

    def input_activations(self, stage: int) -> int:
        values = {v for v in self._values_read(stage) if self.stage_of[self.partition.values[v].maker] != stage}
        return self._value_bytes(values)

    def batch_inputs(self, stage: int) -> int:
        """Batch data of a micro-batch that the stage reads, as it is sharded there."""
        blocks = self._blocks[stage]
        leaves = {leaf for block in blocks for leaf in self.partition.virtual_stages[block].batch}
        read = dict(each for block in blocks for each in self.costs[block].at_forward.read)
        unread = (self.network.flat.batch[leaf].aval for leaf in leaves if self.network.batch_paths[leaf] not in read)
        known = sum(read.get(self.network.batch_paths[leaf], 0) for leaf in leaves)
        tile = self.context.hardware.chip.array_tile if self.context.hardware else ()
        return known + sum_value_bytes(unread, count_batch_shards(self.plan), tile)

    def update(self, stage: int, sent: Payload) -> float:
        """Seconds of the update: the optimiser reads and writes parameters, gradients and state once, which memory bandwidth bounds; before
        that, gradients are summed over devices."""
        plan, hardware = self.plan, self.plan.hardware
        if hardware is None:
            return 0.0
        sums = sum(collective_seconds(kind, axes, count, plan.mesh, hardware, plan.axis_assignment) for (axes, kind), count in sent)
        return 2 * self.resident(stage) / hardware.chip.memory_bandwidth + sums
