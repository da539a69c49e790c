"""Circular (praxis `circular_repeat`, MaxText): fill and drain, where every micro-batch goes round the devices v times.

    p = 2 devices, m = 3 micro-batches, v = 2 chunks

    device 0   F0  F1  F2  F0' F1' F2' .   .   B2' B1' B0' B2  B1  B0
    device 1   .   F0  F1  F2  F0' F1' F2' B2' B1' B0' B2  B1  B0  .

The backward pass is the mirror of the forward one, as differentiation makes it of a loop. Idle: (p - 1) of one chunk, 1 / v as long as
fill and drain, if m is at least p; with fewer the first micro-batch is not back in time. Every device keeps all m micro-batches.
"""

from collections.abc import Iterator

from workbench.core.schedules.schedule import Kind, PipelineShape, Schedule, Task, fill_and_drain


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    forward = [(chunk * shape.devices + device, i) for chunk in range(shape.chunks) for i in range(shape.micro_batches)]
    for stage, micro_batch in forward:
        yield Task(Kind.FORWARD, stage, micro_batch)
    for stage, micro_batch in reversed(forward):
        yield Task(Kind.BACKWARD, stage, micro_batch)


def count_in_flight(_: int, shape: PipelineShape) -> int:
    return shape.micro_batches * shape.chunks


SCHEDULE = Schedule(
    "circular",
    "Fill and drain; each micro-batch passes the devices several times.",
    order,
    fill_and_drain,
    count_in_flight,
    loops=True,
    spmd=True,
)
