"""Interleaved one-forward-one-backward (Narayanan et al. 2021, arXiv:2104.04473, section 2.2; the order of Megatron-LM).

    p = 2 devices, m = 4 micro-batches, v = 2 chunks: F0' is micro-batch 0 on the device's second chunk

    device 0   F0  F1  F0' F1' F2  B0' F3  B1' F2' B0  F3' B1  .   B2' .   B3' B2  B3
    device 1   .   F0  F1  F0' B0' F1' B1' F2  B0  F3  B1  F2' B2' F3' B3' B2  B3  .

Micro-batches go in rounds of p through one chunk and then the next, backwards from the last chunk to the first. Idle: 1 / v as long as
one-forward-one-backward; the first device keeps 1 + (p - 1) / (p v) times as much of its layers (Korthikanti et al. 2022, section 4.2.3),
and v times as much is sent. m is a multiple of p.
"""

from collections.abc import Iterator

from workbench.core.schedules.schedule import Kind, PipelineShape, Schedule, Task, fill_and_drain


def order(device: int, shape: PipelineShape) -> Iterator[Task]:
    total, warmup = shape.micro_batches * shape.chunks, count_in_flight(device, shape) - 1
    forward, backward = (list(_iterate_rounds(device, shape, kind)) for kind in (Kind.FORWARD, Kind.BACKWARD))
    yield from forward[:warmup]
    for i in range(total - warmup):
        yield forward[warmup + i]
        yield backward[i]
    yield from backward[total - warmup :]


def count_in_flight(device: int, shape: PipelineShape) -> int:
    """The forwards before the first backward, that of the first round on the last chunk, is done."""
    last = shape.devices - device - 1  # devices behind this one
    ahead = 2 * last + (shape.chunks - 1) * shape.devices if shape.chunks > 1 else last
    return min(ahead + 1, shape.micro_batches * shape.chunks)


def _iterate_rounds(device: int, shape: PipelineShape, kind: Kind) -> Iterator[Task]:
    """Rounds of p micro-batches, chunk by chunk."""
    p, chunks = shape.devices, range(shape.chunks)
    for first in range(0, shape.micro_batches, p):
        for chunk in chunks if kind is Kind.FORWARD else reversed(chunks):
            for micro_batch in range(first, min(first + p, shape.micro_batches)):
                yield Task(kind, chunk * p + device, micro_batch)


SCHEDULE = Schedule(
    "interleaved",
    "1F1B over several chunks per device: a shorter bubble.",
    order,
    fill_and_drain,
    count_in_flight,
    loops=True,
    whole_rounds=True,
)
