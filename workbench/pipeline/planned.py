"""The pipeline of a plan, planned: its pieces with what they cost, and the step simulated over them."""

from collections.abc import Iterator, Sequence
from functools import partial

from workbench.core.schedules.costs import StageCost
from workbench.cost.communication import collective_seconds
from workbench.pipeline.simulate import simulate
from workbench.pipeline.stage_costs import block_costs, costs_of_cut, plan_starts
from workbench.pipeline.stage_memory import with_close_memory
from workbench.pipeline.stage_partition import network_blocks, program_blocks
from workbench.pipeline.transfer import FREE, Transfer
from workbench.plan.plan import Plan
from workbench.reports.pipeline import PipelineReport, PlannedBlock, VirtualStage
from workbench.reports.simulated import Simulated


def pipeline_report(plan: Plan) -> PipelineReport:
    """Of a plan with a pipeline. Raises `PipelineError` where its program cannot be cut so.

    Without hardware seconds are nominal (`stage_pricing.NOMINAL`) and transfers take none: pieces compare, and no more than that.
    """
    return _cut_at(plan, plan_starts(plan))


def _cut_at(plan: Plan, starts: Sequence[int]) -> PipelineReport:
    spec = plan.pipeline
    assert spec is not None, "asked of plans with a pipeline"
    costs = costs_of_cut(plan, starts)
    paths = program_blocks(plan.program, spec.micro_batches)
    bounds = (0, *starts, len(paths))
    pieces = tuple(
        VirtualStage(number, number % spec.stages, tuple(paths[a:b]), cost)
        for number, (a, b, cost) in enumerate(zip(bounds[:-1], bounds[1:], costs, strict=True))
    )
    capacity = plan.hardware.chip.memory if plan.hardware else 0
    blocks = tuple(_blocks(plan, spec.micro_batches))
    step = simulate(spec, costs, transfer_of(plan))
    exact_memory = partial(_exact_memory, plan, tuple(starts), costs)
    return PipelineReport(spec, pieces, step, capacity, blocks, partial(_cut_at, plan), partial(costs_of_cut, plan), exact_memory)


def _exact_memory(plan: Plan, starts: tuple[int, ...], costs: Sequence[StageCost]) -> Simulated:
    assert plan.pipeline is not None, "asked of plans with a pipeline"
    return simulate(plan.pipeline, with_close_memory(plan, starts, costs), transfer_of(plan))


def _blocks(plan: Plan, micro_batches: int) -> Iterator[PlannedBlock]:
    for cost, block in zip(block_costs(plan), network_blocks(plan.program, micro_batches), strict=True):
        yield PlannedBlock(block.path, cost.forward, cost.backward_input + cost.backward_weight, block.parameter_bytes, block.crossing)


def transfer_of(plan: Plan) -> Transfer:
    """From one stage to the next over the links that the pipeline's axis lies on, behind what the devices compute."""
    hardware, spec = plan.hardware, plan.pipeline
    if hardware is None or spec is None:
        return FREE
    return Transfer(lambda count: collective_seconds("collective-permute", (spec.axis,), count, plan.mesh, hardware, plan.wiring))
