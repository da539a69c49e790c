"""Memory of each virtual stage, task by task, from the whole virtual stage as one program: within a tenth of what is compiled.

This is slower than a sum over blocks (`estimate_stage_costs`), about half a second for each distinct virtual stage, and cached: only the
tasks that the schedule has are estimated, and virtual stages that are alike only once.
"""

from collections.abc import Sequence
from dataclasses import replace

from workbench.core.derived_value_cache import cache_with_owner, cache_with_program
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.schedules import schedule_named
from workbench.core.schedules.stage_cost import AtWork, Halves, StageCost
from workbench.pipeline.block_layouts import LaidBlock, laid_blocks
from workbench.pipeline.estimate_block_cost import StageContext, TaskBytes, make_stage_context, place_results, task_bytes
from workbench.pipeline.staged_program import StagedProgram
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.partition_network import partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks


def with_exact_memory(staged: StagedProgram, starts: tuple[int, ...], costs: Sequence[StageCost]) -> tuple[StageCost, ...]:
    """The costs of these virtual stages with their bytes replaced by those of whole virtual stages."""
    spec, stage = staged.spec, make_stage_context(staged)
    virtual_stages = lay_out_stages(stage, staged.network, starts)
    return tuple(
        _replace_memory(cost, virtual_stage.block, virtual_stage.stage, spec, _list_modes(spec, number))
        for number, (cost, virtual_stage) in enumerate(zip(costs, virtual_stages, strict=True))
    )


def _list_modes(spec: PipelineSpec, virtual_stage: int) -> set[bool]:
    """Whether micro-batches are recomputed on a virtual stage, or not, or both."""
    stage = spec.device_of(virtual_stage)
    return {spec.recomputes(i, stage) for i in range(spec.micro_batches)}


@cache_with_program(1500)
def lay_out_stages(stage: StageContext, network: Network, starts: tuple[int, ...]) -> tuple[LaidBlock, ...]:
    """Each virtual stage as a program of its own; of those that are alike and laid out alike the first stands for all."""
    partition = partition_network(network, starts)
    first: dict[tuple[object, ...], BlockTasks] = {}
    whole = [BlockTasks(StageTasks(partition, virtual_stage)) for virtual_stage in partition.virtual_stages]
    likes = [first.setdefault(each.structural_key, each) for each in whole]
    blocks = [each if like is each else BlockTasks(each.stage, like) for each, like in zip(whole, likes, strict=True)]
    return laid_blocks(stage, blocks)


def _replace_memory(cost: StageCost, virtual_stage: BlockTasks, stage: StageContext, spec: PipelineSpec, modes: set[bool]) -> StageCost:
    """The cost with the bytes of whole programs; figures for tasks that the schedule does not have stay as they were."""
    at_work = [cost.at_work_of(recomputed=False), cost.at_work_of(recomputed=True)]
    halves = [cost.halves_of(recomputed=False), cost.halves_of(recomputed=True)]
    staying = [cost.residuals, cost.input_activations]
    for recompute in modes:
        forward, backward = (
            _forward_bytes(virtual_stage, stage, recompute=recompute),
            _backward_bytes(virtual_stage, stage, recompute=recompute),
        )
        at_work[recompute] = AtWork(forward.whole, backward.whole)
        staying[recompute] = backward.staying
        if schedule_named(spec.schedule).splits_backward:
            halves[recompute], staying[recompute] = _halves(virtual_stage, stage, recompute=recompute)
    fed = sum(size for path, size in _forward_bytes(virtual_stage, stage, recompute=True).read if not path.startswith("input_activations/"))
    return replace(
        cost,
        residuals=staying[False],
        input_activations=staying[True],
        batch_inputs=fed,
        at_work=(at_work[0], at_work[1]),
        halves=(halves[0], halves[1]),
    )


@cache_with_owner
def _forward_bytes(virtual_stage: BlockTasks, stage: StageContext, *, recompute: bool) -> TaskBytes:
    return task_bytes(virtual_stage.forward_program if recompute else virtual_stage.keeping_program, stage)


@cache_with_owner
def _backward_bytes(virtual_stage: BlockTasks, stage: StageContext, *, recompute: bool) -> TaskBytes:
    return task_bytes(virtual_stage.backward_program(stage.parts, recompute=recompute, add_separately=stage.adds_separately), stage)


@cache_with_owner
def _halves(virtual_stage: BlockTasks, stage: StageContext, *, recompute: bool) -> tuple[Halves, int]:
    """Bytes of the halves of a backward task, and what stays from the forward pass to the first of them."""
    programs = virtual_stage.half_programs(stage.parts, recompute=recompute, add_separately=stage.adds_separately)
    made = place_results(programs[0], stage) if programs[0] else ()
    handing = replace(stage, entering=(*stage.entering, *made))
    first, second = _half_bytes(programs[0], stage), _half_bytes(programs[1], handing)
    read = dict(first.read)
    only_second = {path: size for path, size in second.read if path not in read and not path.startswith("pending/")}
    later = sum(only_second.values())  # held while the first half runs
    staying = first.staying + sum(size for path, size in only_second.items() if not path.startswith("arriving/"))
    return Halves(first.whole + later, second.reads, second.whole), staying


def _half_bytes(program: Program | None, stage: StageContext) -> TaskBytes:
    return task_bytes(program, stage) if program else TaskBytes(0, 0, 0, 0, 0, ())
