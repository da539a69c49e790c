"""A third of the memory of one-forward-one-backward (V-Min; Qi et al. 2024, arXiv:2405.15362, section 3).

    p = 3 devices, m = 3 micro-batches, v = 2 chunks; F0' is micro-batch 0 on the device's second chunk

    device 0   F0  .   .   .   .   F0' F1  I0' W0' .   .   F1' F2  I0  I1' W0  W1' F2' .   I1  I2' W1  W2' .   .   I2  W2
    device 1   .   F0  .   .   F0' .   .   F1  I0' W0' F1' .   I0  F2  W0  I1' F2' W1' I1  W1  .   I2' W2' .   I2  W2  .
    device 2   .   .   F0  F0' .   .   .   .   F1  F1' I0' I0  W0' W0  F2  F2' I1' I1  W1' W1  .   .   I2' I2  W2' W2  .

The shortest building block on chunks in a V: no device keeps more than 2 ((p + 4) div 3) chunks of micro-batches, a third as much as with
one-forward-one-backward and a little. Idle: 4 p - 5 tasks of a chunk (4 p - 3 if p is a multiple of 3) if F, I and W take equally long, two
thirds of the bubble of one-forward-one-backward; if they do not, it grows with m.
"""

from collections.abc import Iterator

from workbench.core.schedules.building_block import BlockTimes, repeat_block, v_schedule
from workbench.core.schedules.schedule import PipelineShape, Task


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    p = shape.devices
    shift = 0 if p % 3 else 2  # with a multiple of 3 two passes of a device would be at the same time
    block = tuple(BlockTimes(d, 2 * p - d - 1, 2 * p + shift + d, 4 * p + shift - d - 1) for d in range(p))
    return iter(repeat_block(block, 2 * ((p + 4) // 3), shape)[device])


def idle_tasks(p: int) -> int:
    return max(4 * p - (5 if p % 3 else 3), 0)


SCHEDULE = v_schedule("v_min", "Two chunks in a V: a third of the memory of 1F1B, two thirds of its bubble (V-Min).", order, idle_tasks)
