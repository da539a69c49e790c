"""Breadth-first (Lamy-Poirier 2023, arXiv:2211.05953): all micro-batches through a chunk before the next chunk begins.

    p = 2 devices, m = 3 micro-batches, v = 2 chunks

    device 0   F0  F1  F2  F0' F1' F2' .   .   B0' B1' B2' B0  B1  B2
    device 1   .   F0  F1  F2  F0' F1' F2' B0' B1' B2' B0  B1  B2  .

A chunk's weights are gathered once and its gradients summed once a step, which makes it go with fully sharded data parallelism. The
backward pass takes the micro-batches in the order of the forward one. Idle and memory as circular.
"""

from collections.abc import Iterator

from workbench.core.schedules.schedule import Kind, PipelineShape, Schedule, Task, fill_and_drain


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    for kind in (Kind.FORWARD, Kind.BACKWARD):
        for chunk in range(shape.chunks) if kind is Kind.FORWARD else reversed(range(shape.chunks)):
            for micro_batch in range(shape.micro_batches):
                yield Task(kind, chunk * shape.devices + device, micro_batch)


def count_in_flight(_: int, shape: PipelineShape) -> int:
    return shape.micro_batches * shape.chunks


SCHEDULE = Schedule(
    "breadth_first",
    "All micro-batches through one chunk, then the next: weights gathered once per chunk.",
    order,
    fill_and_drain,
    count_in_flight,
    loops=True,
)
