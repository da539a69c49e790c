"""The SPMD pipeline engine: a pipelined plan as one program for all devices (`workbench.pipeline.spmd_pipeline_plan`), on one host or on
several. The ordinary engine compiles and runs it."""

import jax

from workbench.engine.spmd.device_mesh import device_mesh
from workbench.pipeline.spmd_pipeline_plan import as_spmd_program
from workbench.plan.plan import Plan


def spmd_plan(plan: Plan, mesh: jax.sharding.Mesh | None = None) -> Plan:
    """The plan whose step is the SPMD form of the pipeline, over these devices or the attached ones; it has no pipeline any more.

    Raises `PipelineError` where its layers do not allow that.
    """
    return as_spmd_program(plan, mesh or device_mesh(plan))
