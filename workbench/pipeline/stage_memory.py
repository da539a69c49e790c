"""Memory of each virtual stage, task by task, from the whole virtual stage as one program: within 10 % of compiled
programs.

This is slower than a sum over blocks (`estimate_stage_costs`), about 0.5 s per distinct virtual stage, and cached: only
tasks of the schedule are estimated, and equal virtual stages only once.
"""

from collections.abc import Sequence
from dataclasses import replace

from workbench.core.derived_value_cache import cache_with_owner, cache_with_program
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.schedules import schedule_named
from workbench.core.schedules.stage_cost import AtWork, Halves, StageCost
from workbench.pipeline.block_layouts import LaidBlock, lay_out_blocks
from workbench.pipeline.estimate_block_cost import StageContext, TaskBytes, make_stage_context, place_results, task_bytes
from workbench.pipeline.staged_program import StagedProgram
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.partition_network import partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks
from workbench.tracing.stage_partition.trace_network import Network


def with_exact_memory(staged: StagedProgram, starts: tuple[int, ...], costs: Sequence[StageCost]) -> tuple[StageCost, ...]:
    """Replace the bytes in these costs with those of whole virtual stages."""
    spec, stage = staged.spec, make_stage_context(staged)
    virtual_stages = lay_out_stages(stage, staged.network, starts)
    return tuple(
        _replace_memory(cost, virtual_stage.block, virtual_stage.stage, spec, _list_modes(spec, number))
        for number, (cost, virtual_stage) in enumerate(zip(costs, virtual_stages, strict=True))
    )


def _list_modes(spec: PipelineSpec, virtual_stage: int) -> set[bool]:
    stage = spec.device_of(virtual_stage)
    return {spec.recomputes(i, stage) for i in range(spec.micro_batches)}


@cache_with_program(1500)
def lay_out_stages(stage: StageContext, network: Network, starts: tuple[int, ...]) -> tuple[LaidBlock, ...]:
    """Lay out each virtual stage as a separate program; the first of equal ones with equal shardings is shared."""
    partition = partition_network(network, starts)
    exemplars: dict[tuple[object, ...], BlockTasks] = {}
    whole = [BlockTasks(StageTasks(partition, virtual_stage)) for virtual_stage in partition.virtual_stages]
    shared = [exemplars.setdefault(tasks.structural_key, tasks) for tasks in whole]
    blocks = [tasks if exemplar is tasks else BlockTasks(tasks.stage, exemplar) for tasks, exemplar in zip(whole, shared, strict=True)]
    return lay_out_blocks(stage, blocks)


def _replace_memory(cost: StageCost, virtual_stage: BlockTasks, stage: StageContext, spec: PipelineSpec, modes: set[bool]) -> StageCost:
    """Use the bytes of whole programs; figures of tasks that the schedule does not have stay unchanged."""
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
    batch_bytes = sum(
        size for path, size in _forward_bytes(virtual_stage, stage, recompute=True).read if not path.startswith("input_activations/")
    )
    return replace(
        cost,
        residuals=staying[False],
        input_activations=staying[True],
        batch_inputs=batch_bytes,
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
    programs = virtual_stage.half_programs(stage.parts, recompute=recompute, add_separately=stage.adds_separately)
    first_results = place_results(programs[0], stage) if programs[0] else ()
    second_stage = replace(stage, entering=(*stage.entering, *first_results))
    first, second = _half_bytes(programs[0], stage), _half_bytes(programs[1], second_stage)
    read = dict(first.read)
    only_second = {path: size for path, size in second.read if path not in read and not path.startswith("pending/")}
    later_bytes = sum(only_second.values())  # resident while the first half runs
    staying = first.staying + sum(size for path, size in only_second.items() if not path.startswith("arriving/"))
    return Halves(first.whole + later_bytes, second.reads, second.whole), staying


def _half_bytes(program: Program | None, stage: StageContext) -> TaskBytes:
    return task_bytes(program, stage) if program else TaskBytes(0, 0, 0, 0, 0, ())
