"""One forward, one backward (PipeDream-Flush; Narayanan et al. 2021, arXiv:2006.09503).

    p = 3 devices, m = 4 micro-batches

    device 0   F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
    device 1   .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .
    device 2   .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .

Idle as long as fill and drain, but device d keeps no more than p - d micro-batches.
"""

from collections.abc import Iterator

from workbench.core.schedules.schedule import Kind, PipelineShape, Schedule, Task, fill_and_drain


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    m = shape.micro_batches
    warmup = min(shape.devices - device - 1, m)
    for i in range(warmup):
        yield Task(Kind.FORWARD, device, i)
    for i in range(m - warmup):
        yield Task(Kind.FORWARD, device, warmup + i)
        yield Task(Kind.BACKWARD, device, i)
    for i in range(m - warmup, m):
        yield Task(Kind.BACKWARD, device, i)


def count_in_flight(device: int, shape: PipelineShape) -> int:
    return min(shape.devices - device, shape.micro_batches)


SCHEDULE = Schedule(
    "1f1b", "One forward, one backward: the time of GPipe, with at most p micro-batches in memory.", order, fill_and_drain, count_in_flight
)
