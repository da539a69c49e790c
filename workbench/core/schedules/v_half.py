"""Half of the memory of one-forward-one-backward (V-Half; Qi et al. 2024, arXiv:2405.15362, section 3).

    p = 3 devices, m = 4 micro-batches, v = 2 chunks; F0' is micro-batch 0 on the device's second chunk

    device 0   F0  F1  .   .   .   F0' I0' F2  W0' F1' I1' W1' I0  F3  W0  F2' I2' W2' I1  W1  .   F3' I3' I2  W3' W2  .   I3  W3
    device 1   .   F0  .   .   F0' F1  .   I0' F1' W0' F2  I0  I1' W0  F2' W1' F3  I1  I2' W1  F3' W2' I2  I3' W2  W3' I3  W3  .
    device 2   .   .   F0  F0' .   .   F1  F1' I0' I0  W0' F2  W0  F2' I1' I1  W1' F3  W1  F3' I2' I2  W2' W2  I3' I3  W3' W3  .

A building block on chunks in a V whose backward passes begin early: no device keeps more than 2 ((p + 2) div 2) chunks of micro-batches,
half as much as with one-forward-one-backward and a little. Idle: 3 p - 3 tasks of a chunk (one less for an odd p) if F, I and W take
equally long, half of the bubble of one-forward-one-backward; it does not grow with m as long as W + 2 I >= 2 F and W + 2 F >= 2 I.
"""

from collections.abc import Iterator

from workbench.core.schedules.building_block import BlockTimes, repeat_block, v_schedule
from workbench.core.schedules.schedule import PipelineShape, Task


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    p = shape.devices
    shift = 0 if p % 2 else 3  # with an even p two passes of a device would be at the same time
    block = tuple(BlockTimes(2 * d, 3 * p - d - 2, 3 * p + shift + 2 * d - 1, 6 * p + shift - d - 2) for d in range(p))
    return iter(repeat_block(block, 2 * ((p + 2) // 2), shape)[device])


def idle_tasks(p: int) -> int:
    return max(3 * (p - 1) - p % 2, 0)


SCHEDULE = v_schedule("v_half", "Two chunks in a V: half the memory of 1F1B and half its bubble (V-Half).", order, idle_tasks)
