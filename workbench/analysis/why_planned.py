"""Which plans XLA's partitioner is not asked about, and why: their figures stay planned."""

from workbench.plan.plan import Plan

PIPELINED_REASON = "A plan with a pipeline stays planned: its stages are separate programs, for which XLA's partitioner is not run."
MICRO_BATCHES_REASON = (
    "A step in micro-batches stays planned: it is several programs, one after the other, for which XLA's partitioner is not run."
)
ONE_DEVICE_REASON = "One device sends nothing, so there is nothing for XLA's partitioner to do."


def why_planned(plan: Plan) -> str:
    """Why XLA's partitioner cannot be asked about a plan; empty if it can."""
    if plan.pipeline is not None:
        return PIPELINED_REASON if plan.pipeline.stages > 1 else MICRO_BATCHES_REASON
    is_tpu = plan.hardware is not None and plan.hardware.chip.platform == "tpu"  # whose compiler also gives its memory
    return ONE_DEVICE_REASON if plan.mesh.size == 1 and not is_tpu else ""
