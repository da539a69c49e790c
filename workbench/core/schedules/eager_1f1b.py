"""Eager one-forward-one-backward (eager-1F1B; Zhuang et al. 2022, arXiv:2211.05322, section 4): twice the warm-up.

    p = 3 devices, m = 6 micro-batches

    device 0   F0 F1 F2 F3 F4 B0 F5 B1 .  B2 .  B3 .  B4 .  B5
    device 1   .  F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 .  B4 .  B5 .
    device 2   .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 .  .

Two micro-batches, not one, are on their way between a device and the next, so that one is sent while the other is worked on. Idle as
one-forward-one-backward where nothing is sent; sending delays fill and drain alone, if a transfer takes no longer than half of a stage's
forward and backward pass. Device d keeps 2 (p - d) - 1 micro-batches.
"""

from collections.abc import Iterator

from workbench.core.schedules.schedule import Kind, PipelineShape, Schedule, Task, fill_and_drain


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    m, warmup = shape.micro_batches, count_in_flight(device, shape) - 1
    for i in range(m + warmup):
        if i < m:
            yield Task(Kind.FORWARD, device, i)
        if i >= warmup:
            yield Task(Kind.BACKWARD, device, i - warmup)


def count_in_flight(device: int, shape: PipelineShape) -> int:
    return min(2 * (shape.devices - device) - 1, shape.micro_batches)


SCHEDULE = Schedule(
    "eager_1f1b", "1F1B with twice the warm-up: hidden transfers, up to twice the memory.", order, fill_and_drain, count_in_flight
)
