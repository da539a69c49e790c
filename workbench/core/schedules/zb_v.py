"""Zero bubble in the memory of one-forward-one-backward (ZB-V; Qi et al. 2024, arXiv:2401.10241, section 6, and arXiv:2405.15362; the order
of PyTorch's `ScheduleZBVZeroBubble`).

    p = 2 devices, m = 4 micro-batches, v = 2 chunks; F0' is micro-batch 0 on the device's second chunk

    device 0   F0  F1  F2  F0' I0' W0' F1' I1' W1' F3  I0  W0  F2' I2' W2' I1  W1  F3' I3' W3' I2  W2  I3  W3  .
    device 1   .   F0  F0' F1  F1' I0' W0' F2  I0  W0  F2' I1' W1' F3  I1  W1  F3' I2' W2' I2  I3' I3  W2  W3' W3

The chunks are a V: micro-batches go up the devices and back down, so that the first device has the loss and begins the backward pass, too.
Idle: p - 1 forward passes of a chunk, before a device's first task or after its last, if F, I and W take equally long and m is at least
2 p - 1. Every device keeps 2 p chunks of micro-batches, as much as p micro-batches of all its layers.
"""

from collections.abc import Iterator

from workbench.core.schedules.building_block import F0, F1, I0, I1, W0, W1, ChunkTask, number_tasks
from workbench.core.schedules.schedule import PipelineShape, Schedule, Task, v_shape
from workbench.core.schedules.stage_cost import StageCost


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    full = max(shape.micro_batches, 2 * shape.devices - 1)  # as many as fill the pipeline
    return number_tasks(_list_tasks(device, shape.devices, full), device, shape)


def _list_tasks(device: int, p: int, m: int) -> Iterator[ChunkTask]:
    behind = p - device  # this device and those behind it
    yield from [F0] * (2 * behind - 1) + [F1, F0] * device + [F1, I1, W1] * behind
    yield from [F0, I0, W0, F1, I1, W1] * (m - 2 * p + 1 + device) + [I0, W0, F1, I1, W1] * (behind - 1)
    yield from [I0, I1] * device + [I0, W0] * behind + [W1] * device + [W0] * device


def idle(shape: PipelineShape, cost: StageCost) -> float | None:
    """For tasks of all three kinds that take equally long, in a full pipeline."""
    alike = cost.forward == cost.backward_input == cost.backward_weight
    return (shape.devices - 1) * cost.forward if alike and shape.micro_batches >= 2 * shape.devices - 1 else None


def count_in_flight(device: int, shape: PipelineShape) -> int:
    """The forwards on the first chunk and on the second before the first backward is done: there is one for each from there on."""
    p, m = shape.devices, shape.micro_batches
    return min(2 * p - 1 - device, m) + min(device + 1, m)


SCHEDULE = Schedule(
    "zb_v",
    "Two chunks in a V, separate weight gradients: almost no bubble at the memory of 1F1B (ZB-V).",
    order,
    idle,
    count_in_flight,
    chunks=2,
    device_of=v_shape,
    splits_backward=True,
)
