"""Zero bubble within the memory of one-forward-one-backward (ZB-H1; Qi et al. 2024, arXiv:2401.10241, section 2.1).

    p = 3 devices, m = 4 micro-batches; I the gradient of a stage's input, W that of its weights

    device 0   F0 F1 F2 .  .  I0 W0 F3 I1 W1 I2 W2 I3 W3
    device 1   .  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
    device 2   .  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3

Nothing waits for a W, so they fill what would be idle: device d does them d micro-batches late, and keeps p micro-batches as device 0
does. Idle: (p - 1) (F + I - W).
"""

from collections.abc import Iterator

from workbench.core.schedules.schedule import Kind, PipelineShape, Schedule, Task
from workbench.core.schedules.stage_cost import StageCost


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    m = shape.micro_batches
    warmup = min(shape.devices - device - 1, m)
    for i in range(warmup):
        yield Task(Kind.FORWARD, device, i)
    for i in range(m):
        if warmup + i < m:
            yield Task(Kind.FORWARD, device, warmup + i)
        yield Task(Kind.BACKWARD_INPUT, device, i)
        if i >= device:
            yield Task(Kind.BACKWARD_WEIGHT, device, i - device)
    for i in range(max(m - device, 0), m):
        yield Task(Kind.BACKWARD_WEIGHT, device, i)


def idle(shape: PipelineShape, cost: StageCost) -> float | None:
    """The paper's closed form, for tasks of all three kinds that take equally long and at least as many micro-batches as devices."""
    alike = cost.forward == cost.backward_input == cost.backward_weight
    if not alike or shape.micro_batches < shape.devices:
        return None
    return (shape.devices - 1) * (cost.forward + cost.backward_input - cost.backward_weight)


def count_in_flight(_: int, shape: PipelineShape) -> int:
    return min(shape.devices, shape.micro_batches)


SCHEDULE = Schedule(
    "zero_bubble",
    "1F1B with separate weight gradients that fill the bubble (ZB-H1).",
    order,
    idle,
    count_in_flight,
    splits_backward=True,
)
