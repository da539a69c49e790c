"""DualPipeV (DeepSeek's DualPipe, arXiv:2412.19437, section 3.2.1, cut in half by Qi et al. 2025; the order of `dualpipev.py` in
deepseek-ai/DualPipe).

    p = 2 devices, m = 5 micro-batches, v = 2 chunks; F0' is micro-batch 0 on the device's second chunk

    device 0   F0  F1  F2  F0' I0' W0' F1' F3  I1' W1' F2' I0  W0  F4  I2' W2' F3' I1  W1  I3' W3' F4' I2  W2  I4' W4' I3  W3  .   I4  W4
    device 1   .   F0  F0' F1  F1' F2  I0' W0' F2' I0  W0  F3  I1' W1' F3' I1  W1  F4  I2' W2' F4' I2  W2  I3' W3' I3  W3  I4' I4  W4' W4

The chunks are a V. Most of the time a forward pass on one chunk is followed by the backward pass of another micro-batch on the other, for
kernels and collectives of the two to overlap; here they take turns. A whole backward pass is I and W one after the other, and what I makes
is sent at once. Idle: p - 1 forward passes of a chunk, if F, I and W take equally long and m is at least 2 p; every device keeps 2 p + 1
chunks of micro-batches.
"""

from collections.abc import Iterator

from workbench.core.schedules.building_block import F0, F1, I0, I1, W0, W1, ChunkTask, number_tasks
from workbench.core.schedules.schedule import PipelineShape, Schedule, Task, v_shape
from workbench.core.schedules.stage_cost import StageCost


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    full = max(shape.micro_batches, 2 * shape.devices)  # as many as fill the pipeline
    return number_tasks(_list_tasks(device, shape.devices, full), device, shape)


def _list_tasks(device: int, p: int, m: int) -> Iterator[ChunkTask]:
    behind, turns = p - device - 1, device + 1
    yield from [F0] * (2 * behind) + [F0, F1] * turns + [I1, W1, F1] * behind
    yield from [F0, I1, W1, F1, I0, W0] * (m - 2 * p + turns) + [I1, W1, F1, I0, W0] * behind
    ends = [(I1, W1), (I0, W0)] * turns
    yield from (each for pair in ends[:turns] for each in pair)
    yield from (first for first, _ in ends[turns:])  # from here on weight gradients are late, the oldest first
    late = [second for _, second in ends[turns:]] + [W0] * behind
    yield from (each for weight in late[:behind] for each in (weight, I0))
    yield from late[behind:]


def idle(shape: PipelineShape, cost: StageCost) -> float | None:
    """For tasks of all three kinds that take equally long, in a full pipeline."""
    alike = cost.forward == cost.backward_input == cost.backward_weight
    return (shape.devices - 1) * cost.forward if alike and shape.micro_batches >= 2 * shape.devices else None


def count_in_flight(device: int, shape: PipelineShape) -> int:
    """The forwards on the first chunk and on the second before the first backward of the main part is done."""
    p, m = shape.devices, shape.micro_batches
    return min(2 * p - device, m) + min(device + 1, m)


SCHEDULE = Schedule(
    "dualpipe_v",
    "Two chunks in a V, overlapping a forward with a backward task (DualPipeV).",
    order,
    idle,
    count_in_flight,
    chunks=2,
    device_of=v_shape,
    splits_backward=True,
)
