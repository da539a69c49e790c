"""A plan with a pipeline, and its program traced for one micro-batch: what the planning of its stages starts from."""

from dataclasses import dataclass

from workbench.core.pipeline_spec import PipelineSpec
from workbench.errors import PipelineError
from workbench.plan.plan import Plan
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.trace_network import network_of


@dataclass(frozen=True, slots=True)
class StagedProgram:
    """Made once by `staged_program`, and passed to whatever plans, estimates or compiles the stages.

    - `spec` is the plan's pipeline;
    - `network` is the program's loss for one of `spec.micro_batches`, in blocks that a boundary may separate.
    """

    plan: Plan
    spec: PipelineSpec
    network: Network


def staged_program(plan: Plan) -> StagedProgram:
    """The plan's staged program. Raises `PipelineError` for a plan without a pipeline, no training step, or micro-batches that do not
    divide the batch; `TraceError` where JAX cannot trace the loss of one."""
    spec = spec_of(plan)
    return StagedProgram(plan, spec, network_of(plan.program, spec.micro_batches))


def spec_of(plan: Plan) -> PipelineSpec:
    """The plan's pipeline. Raises `PipelineError` where it has none."""
    if plan.pipeline is None:
        raise PipelineError(f"{plan.name} has no pipeline.", ['give the plan one: pipeline="stages:4 micro_batches:8"'])
    return plan.pipeline
