"""The planned pipeline of a plan: virtual stages with their costs, and the simulated step."""

from collections.abc import Iterator, Sequence
from functools import partial

from workbench.core.schedules.stage_cost import StageCost
from workbench.pipeline.estimate_stage_costs import block_costs, partition_costs, plan_starts
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_memory import with_exact_memory
from workbench.pipeline.stage_transfer import transfer_of
from workbench.pipeline.staged_program import StagedProgram, staged_program
from workbench.plan.plan import Plan
from workbench.reports.pipeline import PipelineReport, PlannedBlock, VirtualStage
from workbench.reports.simulated_pipeline import SimulatedPipeline


def pipeline_report(plan: Plan) -> PipelineReport:
    """Return the report of a pipelined plan. Raises `PipelineError` if its program cannot be partitioned.

    Without hardware, seconds are nominal (`estimate_block_cost.NOMINAL`) and transfers are free, which only serves to
    compare virtual stages.
    """
    staged = staged_program(plan)
    return _report_of_partition(staged, plan_starts(staged))


def _report_of_partition(staged: StagedProgram, starts: Sequence[int]) -> PipelineReport:
    plan, spec, paths = staged.plan, staged.spec, staged.network.paths
    costs = partition_costs(staged, starts)
    bounds = (0, *starts, len(paths))
    virtual_stages = tuple(
        VirtualStage(number, spec.device_of(number), tuple(paths[a:b]), cost)
        for number, (a, b, cost) in enumerate(zip(bounds[:-1], bounds[1:], costs, strict=True))
    )
    capacity = plan.hardware.chip.memory if plan.hardware else 0
    blocks = tuple(_list_blocks(staged))
    step = simulate(spec, costs, transfer_of(plan))
    exact_memory = partial(_simulate_exact_memory, staged, tuple(starts), costs)
    return PipelineReport(
        spec, virtual_stages, step, capacity, blocks, partial(_report_of_partition, staged), partial(partition_costs, staged), exact_memory
    )


def _simulate_exact_memory(staged: StagedProgram, starts: tuple[int, ...], costs: Sequence[StageCost]) -> SimulatedPipeline:
    return simulate(staged.spec, with_exact_memory(staged, starts, costs), transfer_of(staged.plan))


def _list_blocks(staged: StagedProgram) -> Iterator[PlannedBlock]:
    for cost, block in zip(block_costs(staged), staged.network.blocks, strict=True):
        yield PlannedBlock(block.path, cost.forward, cost.backward_input + cost.backward_weight, block.parameter_bytes, block.crossing)
