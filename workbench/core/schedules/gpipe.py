"""Fill and drain (GPipe, Huang et al. 2019, section 2.3): all forwards, then all backwards, the last micro-batch first.

    p = 3 devices, m = 4 micro-batches

    device 0   F0 F1 F2 F3 .  .  .  .  B3 B2 B1 B0
    device 1   .  F0 F1 F2 F3 .  .  B3 B2 B1 B0 .
    device 2   .  .  F0 F1 F2 F3 B3 B2 B1 B0 .  .

Idle: (p - 1) of a micro-batch's forward and backward, whatever m. Every device keeps all m micro-batches.
"""

from collections.abc import Iterator

from workbench.core.schedules.schedule import Kind, PipelineShape, Schedule, Task, fill_and_drain


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    for micro_batch in range(shape.micro_batches):
        yield Task(Kind.FORWARD, device, micro_batch)
    for micro_batch in reversed(range(shape.micro_batches)):
        yield Task(Kind.BACKWARD, device, micro_batch)


def count_in_flight(_: int, shape: PipelineShape) -> int:
    return shape.micro_batches


SCHEDULE = Schedule("gpipe", "All forwards, then all backwards.", order, fill_and_drain, count_in_flight, spmd=True)
