"""The cut of a plan: at the boundaries its pipeline names, the rest by balance."""

from collections.abc import Sequence

from workbench.errors import PipelineError
from workbench.pipeline.balance import balance
from workbench.pipeline_spec import PipelineSpec
from workbench.plan import Plan
from workbench.program import Program
from workbench.tracing.cut import Cut, cut_network, starts_at
from workbench.tracing.cutting import network_of
from workbench.tracing.network import Network


def cut_program(plan: Plan, shared: str = "replicate") -> Cut:
    """The plan's program in as many pieces as its pipeline has. Raises `PipelineError` where that cannot be."""
    assert plan.pipeline is not None, "asked of plans with a pipeline"
    network = network_of(plan.program, plan.pipeline.micro_batches)
    return cut_network(network, starts_of(network, plan.pipeline), shared)


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
        [f"make stages {max(len(paths) // spec.chunks, 1)} or less", "give its layers named scopes, so that there are more blocks"],
    )


def program_blocks(program: Program, micro_batches: int) -> tuple[str, ...]:
    """The paths a boundary may be put before, in order."""
    return network_of(program, micro_batches).paths
