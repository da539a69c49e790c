"""Stages of equal cost."""

from workbench.core.schedules.stage_cost import StageCost


def equal_stages(
    stages: int, forward: float = 1.0, backward_input: float = 1.0, backward_weight: float = 1.0, sent: int = 0
) -> tuple[StageCost, ...]:
    """Return stages of equal cost, each sending `sent` bytes per micro-batch to the next."""
    return tuple(
        StageCost(
            forward,
            backward_input,
            backward_weight,
            input_activations=sent,
            sends=((stage + 1, sent),) if sent and stage + 1 < stages else (),
        )
        for stage in range(stages)
    )
