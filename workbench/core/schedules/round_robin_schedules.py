"""Schedules whose stages go round the devices, one chunk after the other; the string after each has its picture."""

from collections.abc import Callable, Iterator
from functools import partial

from workbench.core.schedules.schedule import Kind, PipelineShape, Schedule, Task, equal_tasks_idle, fill_and_drain

CountInFlight = Callable[[int, PipelineShape], int]


def _mirrored(device: int, shape: PipelineShape) -> Iterator[Task]:
    """Yield all forwards, chunk by chunk, and the backwards in reverse."""
    forward = [(chunk * shape.devices + device, i) for chunk in range(shape.chunks) for i in range(shape.micro_batches)]
    for stage, micro_batch in forward:
        yield Task(Kind.FORWARD, stage, micro_batch)
    for stage, micro_batch in reversed(forward):
        yield Task(Kind.BACKWARD, stage, micro_batch)


def _count_all(_: int, shape: PipelineShape) -> int:
    return shape.micro_batches * shape.chunks


GPIPE = Schedule("gpipe", "All forwards, then all backwards.", _mirrored, fill_and_drain, _count_all, spmd=True)
"""Fill and drain (GPipe, Huang et al. 2019, section 2.3): all forwards, then all backwards, the last micro-batch first.

    p = 3 devices, m = 4 micro-batches

    device 0   F0 F1 F2 F3 .  .  .  .  B3 B2 B1 B0
    device 1   .  F0 F1 F2 F3 .  .  B3 B2 B1 B0 .
    device 2   .  .  F0 F1 F2 F3 B3 B2 B1 B0 .  .

Idle: (p - 1) of a micro-batch's forward and backward, whatever m. Every device keeps all m micro-batches.
"""

CIRCULAR = Schedule(
    "circular",
    "Fill and drain; each micro-batch passes the devices several times.",
    _mirrored,
    fill_and_drain,
    _count_all,
    loops=True,
    spmd=True,
)
"""Circular (praxis `circular_repeat`, MaxText): fill and drain, with v passes of every micro-batch over the devices.

    p = 2 devices, m = 3 micro-batches, v = 2 chunks

    device 0   F0  F1  F2  F0' F1' F2' .   .   B2' B1' B0' B2  B1  B0
    device 1   .   F0  F1  F2  F0' F1' F2' B2' B1' B0' B2  B1  B0  .

The backward pass mirrors the forward pass, as in a differentiated loop. Idle: (p - 1) of one chunk, 1 / v as long as
fill and drain, if m is at least p; otherwise the first micro-batch returns too late. Every device keeps all m micro-batches.
"""


def _chunk_by_chunk(device: int, shape: PipelineShape) -> Iterator[Task]:
    for kind in (Kind.FORWARD, Kind.BACKWARD):
        for chunk in range(shape.chunks) if kind is Kind.FORWARD else reversed(range(shape.chunks)):
            for micro_batch in range(shape.micro_batches):
                yield Task(kind, chunk * shape.devices + device, micro_batch)


BREADTH_FIRST = Schedule(
    "breadth_first",
    "All micro-batches through one chunk, then the next: weights gathered once per chunk.",
    _chunk_by_chunk,
    fill_and_drain,
    _count_all,
    loops=True,
)
"""Breadth-first (Lamy-Poirier 2023, arXiv:2211.05953): all micro-batches through a chunk before the next chunk begins.

    p = 2 devices, m = 3 micro-batches, v = 2 chunks

    device 0   F0  F1  F2  F0' F1' F2' .   .   B0' B1' B2' B0  B1  B2
    device 1   .   F0  F1  F2  F0' F1' F2' B0' B1' B2' B0  B1  B2  .

Each chunk's weights are gathered and its gradients summed once per step, which suits fully sharded data parallelism. The
backward pass processes micro-batches in forward order. Idle time and memory as `circular`.
"""


def _alternating(count_in_flight: CountInFlight, device: int, shape: PipelineShape) -> Iterator[Task]:
    """Yield forwards until all micro-batches in flight are there, and then a backward for each forward."""
    total, warmup = shape.micro_batches * shape.chunks, count_in_flight(device, shape) - 1
    forward, backward = (list(_iterate_rounds(device, shape, kind)) for kind in (Kind.FORWARD, Kind.BACKWARD))
    yield from forward[:warmup]
    for i in range(total - warmup):
        yield forward[warmup + i]
        yield backward[i]
    yield from backward[total - warmup :]


def _iterate_rounds(device: int, shape: PipelineShape, kind: Kind) -> Iterator[Task]:
    p, chunks = shape.devices, range(shape.chunks)
    for first in range(0, shape.micro_batches, p):
        for chunk in chunks if kind is Kind.FORWARD else reversed(chunks):
            for micro_batch in range(first, min(first + p, shape.micro_batches)):
                yield Task(kind, chunk * p + device, micro_batch)


def _count_rounds(device: int, shape: PipelineShape) -> int:
    """Count the forwards before the first backward (of the first round on the last chunk) is done."""
    last = shape.devices - device - 1  # number of later devices
    ahead = 2 * last + (shape.chunks - 1) * shape.devices if shape.chunks > 1 else last
    return min(ahead + 1, shape.micro_batches * shape.chunks)


ONE_F_ONE_B = Schedule(
    "1f1b",
    "One forward, one backward: the time of GPipe, with at most p micro-batches in memory.",
    partial(_alternating, _count_rounds),
    fill_and_drain,
    _count_rounds,
)
"""One forward, one backward (PipeDream-Flush; Narayanan et al. 2021, arXiv:2006.09503).

    p = 3 devices, m = 4 micro-batches

    device 0   F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
    device 1   .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .
    device 2   .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .

Devices are idle as long as in GPipe, but device d keeps at most p - d micro-batches.
"""

INTERLEAVED = Schedule(
    "interleaved",
    "1F1B over several chunks per device: a shorter bubble.",
    partial(_alternating, _count_rounds),
    fill_and_drain,
    _count_rounds,
    loops=True,
    whole_rounds=True,
)
"""Interleaved one-forward-one-backward (Narayanan et al. 2021, arXiv:2104.04473, section 2.2; the order of Megatron-LM).

    p = 2 devices, m = 4 micro-batches, v = 2 chunks: F0' is micro-batch 0 on the device's second chunk

    device 0   F0  F1  F0' F1' F2  B0' F3  B1' F2' B0  F3' B1  .   B2' .   B3' B2  B3
    device 1   .   F0  F1  F0' B0' F1' B1' F2  B0  F3  B1  F2' B2' F3' B3' B2  B3  .

Rounds of p micro-batches pass one chunk after the other, in the backward pass from last to first. Idle: 1 / v as long as
one-forward-one-backward; the first device keeps 1 + (p - 1) / (p v) times as much of its layers (Korthikanti et al. 2022, section 4.2.3),
and v times as many bytes are sent. m is a multiple of p.
"""


def _count_eager(device: int, shape: PipelineShape) -> int:
    return min(2 * (shape.devices - device) - 1, shape.micro_batches)


EAGER_1F1B = Schedule(
    "eager_1f1b",
    "1F1B with twice the warm-up: hidden transfers, up to twice the memory.",
    partial(_alternating, _count_eager),
    fill_and_drain,
    _count_eager,
)
"""Eager one-forward-one-backward (eager-1F1B; Zhuang et al. 2022, arXiv:2211.05322, section 4): twice the warm-up.

    p = 3 devices, m = 6 micro-batches

    device 0   F0 F1 F2 F3 F4 B0 F5 B1 .  B2 .  B3 .  B4 .  B5
    device 1   .  F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 .  B4 .  B5 .
    device 2   .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 .  .

Two micro-batches, not one, are in flight between neighbouring devices, so that one is sent while the other is processed. Idle as
one-forward-one-backward without transfers; these delay only fill and drain, if one takes no longer than half of a stage's
forward and backward pass. Device d keeps 2 (p - d) - 1 micro-batches.
"""


def _with_weights_late(device: int, shape: PipelineShape) -> Iterator[Task]:
    m = shape.micro_batches
    warmup = min(shape.devices - device - 1, m)
    for i in range(warmup):
        yield Task(Kind.FORWARD, device, i)
    for i in range(m):
        if warmup + i < m:
            yield Task(Kind.FORWARD, device, warmup + i)
        yield Task(Kind.BACKWARD_INPUT, device, i)
        if i >= device:
            yield Task(Kind.BACKWARD_WEIGHT, device, i - device)
    for i in range(max(m - device, 0), m):
        yield Task(Kind.BACKWARD_WEIGHT, device, i)


ZERO_BUBBLE = Schedule(
    "zero_bubble",
    "1F1B with separate weight gradients that fill the bubble (ZB-H1).",
    _with_weights_late,
    equal_tasks_idle(lambda p: p - 1),
    lambda _, shape: min(shape.devices, shape.micro_batches),
    splits_backward=True,
)
"""Zero bubble within the memory of one-forward-one-backward (ZB-H1; Qi et al. 2024, arXiv:2401.10241, section 2.1).

    p = 3 devices, m = 4 micro-batches; I the gradient of a stage's input, W that of its weights

    device 0   F0 F1 F2 .  .  I0 W0 F3 I1 W1 I2 W2 I3 W3
    device 1   .  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
    device 2   .  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3

No task waits for a W, so W tasks fill the bubble: device d runs them d micro-batches late and keeps p micro-batches, like device
0. Idle: (p - 1) (F + I - W).
"""
