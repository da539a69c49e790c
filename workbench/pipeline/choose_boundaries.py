"""Where a pipeline partitions a network: at the boundaries it names, and for the rest by balance."""

from collections.abc import Sequence

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.text_tables import paths_text
from workbench.errors import PipelineError
from workbench.pipeline.balance import balance
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.tracing.stage_partition.network_blocks import Block, Network
from workbench.tracing.stage_partition.partition_network import starts_at
from workbench.tracing.stage_partition.trace_network import known_network, network_of


def find_starts(network: Network, spec: PipelineSpec) -> tuple[int, ...]:
    """The block each virtual stage but the first begins with: those the user named, the others by balance of operations."""
    fixed = starts_at(network, spec.boundaries)
    verify_enough_blocks(network.name, network.paths, spec)
    return balance([block.flops for block in network.blocks], spec.virtual_stages, fixed=fixed).starts


def verify_enough_blocks(name: str, paths: Sequence[str], spec: PipelineSpec) -> None:
    """Raises `PipelineError` for more virtual stages than blocks."""
    if spec.virtual_stages <= len(paths):
        return
    requirement = (
        f"{spec.stages} stages x {spec.chunks} chunks = {spec.virtual_stages} virtual stages"
        if spec.chunks > 1
        else f"{spec.stages} stages"
    )
    raise PipelineError(
        f"{name} has {len(paths)} blocks ({paths_text(paths)}); {requirement} need as many.",
        [*_suggest_fewer(len(paths), spec), "give its layers named scopes, so that there are more blocks"],
    )


def _suggest_fewer(blocks: int, spec: PipelineSpec) -> list[str]:
    """The most chunks, and the most stages, with which every virtual stage has a block; both, where one alone does not do."""
    chunks, stages = blocks // spec.stages, blocks // spec.chunks
    fewer_chunks = [f"make chunks {chunks}"] if spec.chunks > 1 and chunks else []
    fewer_stages = [f"make stages {stages} or less"] if stages > 1 or (stages and not fewer_chunks) else []
    return [*fewer_chunks, *fewer_stages] or [f"make stages {blocks} or less and chunks 1"]


def program_blocks(program: Program, micro_batches: int) -> tuple[str, ...]:
    """The paths before which a boundary may be put, in order."""
    return network_of(program, micro_batches).paths


def network_blocks(program: Program, micro_batches: int = 1) -> tuple[Block, ...]:
    """The blocks that a boundary may separate, each with its cost for one micro-batch."""
    return network_of(program, micro_batches).blocks


def verify_partition(program: Program, spec: PipelineSpec) -> None:
    """Raises `PipelineError` where the program cannot be partitioned so: a boundary where none can be, a virtual stage without a block."""
    find_starts(network_of(program, spec.micro_batches), spec)


def apply_edit(plan: Plan, edit: Edit) -> Plan:
    """The plan after one edit. Raises a `WorkbenchError` where that would be illegal, and `PipelineError` where the edit asks for stages
    that the program is known not to have."""
    after = edit.apply(plan)
    _verify_change(plan, after)
    return after


def _verify_change(before: Plan, after: Plan) -> None:
    """Raises `PipelineError` for stages that the program is known not to have. Nothing is traced for it: where the blocks are not known
    yet, or the program is no training step and has none, the report says so."""
    spec, program = after.pipeline, after.program
    if spec is None or program.step.training is None or (spec == before.pipeline and program is before.program):
        return
    if network := known_network(program, spec.micro_batches):
        starts_at(network, spec.boundaries)
        verify_enough_blocks(network.name, network.paths, spec)
