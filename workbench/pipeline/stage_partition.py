"""Where a pipeline cuts a network: at the boundaries it names, the rest by balance."""

from collections.abc import Sequence
from math import gcd

from workbench.core.pipeline_spec import MOST, PipelineSpec
from workbench.core.program import Program
from workbench.errors import PipelineError
from workbench.pipeline.balance import balance
from workbench.tracing.grad_accumulation.split_batch import batch_dim, splits_of
from workbench.tracing.stage_partition.network import Block, Network
from workbench.tracing.stage_partition.partition import known_network, network_of
from workbench.tracing.stage_partition.stages import starts_at
from workbench.units import divisors


def starts_of(network: Network, spec: PipelineSpec, costs: Sequence[float] | None = None) -> tuple[int, ...]:
    """The block each piece but the first begins with: those the user named, the others by balance of `costs` (of operations, without)."""
    fixed = starts_at(network, spec.boundaries)
    verify_enough(network.name, network.paths, spec)
    return balance(costs or [block.flops for block in network.blocks], spec.pieces, fixed=fixed).starts


def verify_enough(name: str, paths: Sequence[str], spec: PipelineSpec) -> None:
    """Raises `PipelineError` for more pieces than blocks."""
    if spec.pieces <= len(paths):
        return
    wanted = f"{spec.stages} stages x {spec.chunks} chunks = {spec.pieces} pieces" if spec.chunks > 1 else f"{spec.stages} stages"
    shown = ", ".join(f"`{path}`" for path in paths[:8]) + (" and more" if len(paths) > 8 else "")
    raise PipelineError(
        f"{name} has {len(paths)} blocks ({shown}); {wanted} need as many.",
        [*_fewer(len(paths), spec), "give its layers named scopes, so that there are more blocks"],
    )


def _fewer(blocks: int, spec: PipelineSpec) -> list[str]:
    """The most chunks, and the most stages, with which every piece has a block; both, where one alone does not do."""
    chunks, stages = blocks // spec.stages, blocks // spec.chunks
    fewer_chunks = [f"make chunks {chunks}"] if spec.chunks > 1 and chunks else []
    fewer_stages = [f"make stages {stages} or less"] if stages > 1 or (stages and not fewer_chunks) else []
    return [*fewer_chunks, *fewer_stages] or [f"make stages {blocks} or less and chunks 1"]


def program_blocks(program: Program, micro_batches: int) -> tuple[str, ...]:
    """The paths a boundary may be put before, in order."""
    return network_of(program, micro_batches).paths


def network_blocks(program: Program, micro_batches: int = 1) -> tuple[Block, ...]:
    """The blocks that a cut may fall between, each with its cost for one micro-batch."""
    return network_of(program, micro_batches).blocks


def micro_batch_counts(program: Program) -> tuple[int, ...]:
    """The numbers of micro-batches that divide the batch. Raises `PipelineError` where nothing of the inputs can be divided."""
    inputs = [program.arguments[i] for i in program.inputs]
    name = batch_dim(inputs, program.name)
    size = gcd(*(tensor.shape[tensor.dims.index(name)] for tensor in inputs if name in tensor.dims))
    return tuple(count for count in divisors(size) if count <= MOST)


def verify_cut(program: Program, spec: PipelineSpec) -> None:
    """Raises `PipelineError` where the program cannot be cut so: no boundary is where none can be, and every piece has a block."""
    starts_of(network_of(program, spec.micro_batches), spec)


def verify_early(program: Program, spec: PipelineSpec) -> None:
    """The same as far as it can be told without a trace: whether micro-batches divide the batch, and of blocks that are known the rest.

    What is no training step has no blocks; the report says so.
    """
    if program.step.training is None:
        return
    splits_of(program, spec.micro_batches)
    if network := known_network(program, spec.micro_batches):
        starts_at(network, spec.boundaries)
        verify_enough(network.name, network.paths, spec)
