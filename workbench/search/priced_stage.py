"""The blocks of a plan with their costs, as bounds of its schedules read them: those of the planner, and less than it counts where a figure
depends on where the network is partitioned."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.pipeline.data_parallel_groups import count_batch_shards
from workbench.pipeline.estimate_block_cost import BlockCost, StageContext
from workbench.pipeline.estimate_stage_costs import tasks_of, weigh_params
from workbench.pipeline.staged_program import StagedProgram
from workbench.plan.plan import Plan
from workbench.search.stage_bounds import BlockTotals
from workbench.tracing.stage_partition.block_programs import BlockTasks


@dataclass(frozen=True, slots=True)
class PricedStage:
    """`works`: seconds of each block, by which the planner balances; `summed_over`: the axes whose devices add gradients at the end of the
    step."""

    plan: Plan
    totals: BlockTotals
    works: tuple[float, ...]
    summed_over: tuple[str, ...]


def price_stage(staged: StagedProgram, context: StageContext, costs: tuple[BlockCost, ...]) -> PricedStage:
    """The stage of blocks that cost this."""
    tasks, shards = tasks_of(staged.network), count_batch_shards(staged.plan)
    values = tasks[0].stage.partition.values
    columns = [[getattr(each, name) for each in costs] for name in ("forward", "backward_input", "backward_weight")]
    kept = [block.kept(task.residuals.inside) for block, task in zip(costs, tasks, strict=True)]
    received = [sum(values[v].bytes for v in task.stage.virtual_stage.input_activations) // shards for task in tasks]
    resident, summed = zip(*_weigh_blocks(staged, context, tasks), strict=True)
    totals = BlockTotals(*(np.array(each, float) for each in (*columns, kept, received, resident, summed)))
    return PricedStage(staged.plan, totals, tuple(each.work for each in costs), context.parts.axes)


def _weigh_blocks(staged: StagedProgram, context: StageContext, tasks: tuple[BlockTasks, ...]) -> Iterator[tuple[int, int]]:
    """Of each block the bytes of parameters, sums and optimiser's state that it is the first to use, and of the sums among them that no
    block adds at once."""
    weights = weigh_params(staged.plan, staged.network)
    partial = [{*task.list_partial_sums(context.parts)} for task in tasks]
    at_once = {i for task, some in zip(tasks, partial, strict=True) for i in {*task.stage.virtual_stage.param_slices} - some}
    seen: set[int] = set()
    for task, some in zip(tasks, partial, strict=True):
        new = {*task.stage.virtual_stage.param_slices} - seen
        seen |= new
        yield sum(weights[i].resident + weights[i].state for i in new), sum(weights[i].sums for i in new & some - at_once)
