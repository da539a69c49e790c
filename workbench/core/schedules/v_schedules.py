"""Schedules of two chunks per device in a V: up the devices and down again; the string after each has its picture.

Some repeat one building block (Qi et al. 2024, arXiv:2405.15362, section 3).

The block fixes the times of one micro-batch's passes on each device; the next micro-batch follows 6 time units later,
as long as three passes over two chunks. The lifespan of the block on a device bounds the micro-batches in flight.
Weight gradients are not in the block: they fill idle time, or run when a device has no room for another micro-batch.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

from workbench.core.schedules.schedule import Kind, Orders, PipelineShape, Schedule, Task, equal_tasks_idle, v_shape

PERIOD = 6


class BlockTimes(NamedTuple):
    """Start times of the passes of micro-batch 0 on one device: forward and backward, up and down the devices of the V."""

    forward_up: int
    forward_down: int
    backward_up: int
    backward_down: int


@lru_cache(maxsize=64)
def repeat_block(block: tuple[BlockTimes, ...], room: int, shape: PipelineShape) -> Orders:
    """Return the task orders of all devices, given the block's times on each, with one time unit per pass.

    `room`: the maximum (micro-batch, chunk) pairs on a device, at least as many as the repeated block holds.
    """
    devices = [_BlockDevice(_list_passes(times, device, shape), room) for device, times in enumerate(block)]
    made: set[Task] = set()
    while any(device.passes or device.waiting for device in devices):
        made.update([task for device in devices if (task := device.do_next(made, shape)) is not None])
    return tuple(tuple(device.done) for device in devices)


def count_held(tasks: Iterable[Task]) -> int:
    """Return the peak number of (micro-batch, chunk) pairs held by a device that runs these tasks in order."""
    held = most = 0
    for task in tasks:
        held += task.kind is Kind.FORWARD
        most = max(most, held)
        held -= task.kind is Kind.BACKWARD_WEIGHT
    return most


def _list_passes(times: BlockTimes, device: int, shape: PipelineShape) -> deque[Task]:
    up, down = device, shape.stages - 1 - device
    passes = ((Kind.FORWARD, up), (Kind.FORWARD, down), (Kind.BACKWARD_INPUT, down), (Kind.BACKWARD_INPUT, up))
    timed = [
        (time + PERIOD * i, Task(*kind_and_stage, i))
        for time, kind_and_stage in zip(times, passes, strict=True)
        for i in range(shape.micro_batches)
    ]
    return deque(task for _, task in sorted(timed))


@dataclass
class _BlockDevice:
    """The state of a device: remaining passes, pending weight gradients, pairs held and tasks done."""

    passes: deque[Task]
    room: int
    waiting: deque[Task] = field(default_factory=deque)
    done: list[Task] = field(default_factory=list)
    held: int = 0

    def do_next(self, made: Collection[Task], shape: PipelineShape) -> Task | None:
        """Return the task of this time unit: the next pass if it is ready, else a weight gradient."""
        if self.passes and self._can_do(self.passes[0], made, shape):
            task = self.passes.popleft()
            if task.kind is Kind.FORWARD:
                self.held += 1
            else:
                self.waiting.append(task._replace(kind=Kind.BACKWARD_WEIGHT))
        elif self.waiting:
            task = self.waiting.popleft()
            self.held -= 1
        else:
            return None
        self.done.append(task)
        return task

    def _can_do(self, task: Task, made: Collection[Task], shape: PipelineShape) -> bool:
        forward = task.kind is Kind.FORWARD
        source = task.stage - 1 if forward else task.stage + 1
        arrived = not 0 <= source < shape.stages or task._replace(stage=source) in made
        return arrived and not (forward and self.held == self.room)


# Orders over the two chunks of a device in a V; each task takes the next micro-batch of its kind and chunk.


class ChunkTask(NamedTuple):
    """A task kind on chunk 0 (up) or 1 (down) of a device, for the next micro-batch."""

    kind: Kind
    chunk: int


F0, F1 = ChunkTask(Kind.FORWARD, 0), ChunkTask(Kind.FORWARD, 1)
I0, I1 = ChunkTask(Kind.BACKWARD_INPUT, 0), ChunkTask(Kind.BACKWARD_INPUT, 1)
W0, W1 = ChunkTask(Kind.BACKWARD_WEIGHT, 0), ChunkTask(Kind.BACKWARD_WEIGHT, 1)


def number_tasks(tasks: Iterable[ChunkTask], device: int, shape: PipelineShape) -> Iterator[Task]:
    """Assign micro-batches to these tasks, dropping tasks beyond the last micro-batch, which keeps a valid order valid.

    >>> [task.label(2) for task in number_tasks([F0, F1, F0, I1, F0], device=0, shape=PipelineShape(2, 2, chunks=2))]
    ['F0', "F0'", 'F1', "I0'"]
    """
    done = Counter[ChunkTask]()
    for task in tasks:
        if done[task] < shape.micro_batches:
            yield Task(task.kind, (device, shape.stages - 1 - device)[task.chunk], done[task])
        done[task] += 1


Order = Callable[[int, PipelineShape], Iterator[Task]]
_v_schedule = partial(Schedule, chunks=2, device_of=v_shape, splits_backward=True)


def _zb_v(device: int, shape: PipelineShape) -> Iterator[Task]:
    m = max(shape.micro_batches, 2 * shape.devices - 1)  # enough to fill the pipeline
    return number_tasks(_zb_v_tasks(device, shape.devices, m), device, shape)


def _zb_v_tasks(device: int, p: int, m: int) -> Iterator[ChunkTask]:
    behind = p - device  # this device and later ones
    yield from [F0] * (2 * behind - 1) + [F1, F0] * device + [F1, I1, W1] * behind
    yield from [F0, I0, W0, F1, I1, W1] * (m - 2 * p + 1 + device) + [I0, W0, F1, I1, W1] * (behind - 1)
    yield from [I0, I1] * device + [I0, W0] * behind + [W1] * device + [W0] * device


def _count_in_full_v(first: int, device: int, shape: PipelineShape) -> int:
    """Count the forwards on both chunks before the first backward is done; then each forward follows a backward.

    `first`: those of device 0 on its first chunk, beyond twice the devices.
    """
    return min(2 * shape.devices + first - device, shape.micro_batches) + min(device + 1, shape.micro_batches)


ZB_V = _v_schedule(
    "zb_v",
    "Two chunks in a V, separate weight gradients: almost no bubble at the memory of 1F1B (ZB-V).",
    _zb_v,
    equal_tasks_idle(lambda p: p - 1, least=lambda p: 2 * p - 1),
    partial(_count_in_full_v, -1),
)
"""Zero bubble at the memory of one-forward-one-backward (ZB-V; Qi et al. 2024, arXiv:2401.10241, section 6, and arXiv:2405.15362; the order
of PyTorch's `ScheduleZBVZeroBubble`).

    p = 2 devices, m = 4 micro-batches, v = 2 chunks; F0' is micro-batch 0 on the device's second chunk

    device 0   F0  F1  F2  F0' I0' W0' F1' I1' W1' F3  I0  W0  F2' I2' W2' I1  W1  F3' I3' W3' I2  W2  I3  W3  .
    device 1   .   F0  F0' F1  F1' I0' W0' F2  I0  W0  F2' I1' W1' F3  I1  W1  F3' I2' W2' I2  I3' I3  W2  W3' W3

The chunks form a V: micro-batches go up the devices and back down, so that the first device also has the loss and begins the backward pass.
Idle: p - 1 forward passes of a chunk, before a device's first task or after its last, if F, I and W take equally long and m is at least
2 p - 1. Every device keeps 2 p chunks of micro-batches, as much as p micro-batches of all its layers.
"""


def _dualpipe_v(device: int, shape: PipelineShape) -> Iterator[Task]:
    m = max(shape.micro_batches, 2 * shape.devices)  # enough to fill the pipeline
    return number_tasks(_dualpipe_v_tasks(device, shape.devices, m), device, shape)


def _dualpipe_v_tasks(device: int, p: int, m: int) -> Iterator[ChunkTask]:
    behind, turns = p - device - 1, device + 1
    yield from [F0] * (2 * behind) + [F0, F1] * turns + [I1, W1, F1] * behind
    yield from [F0, I1, W1, F1, I0, W0] * (m - 2 * p + turns) + [I1, W1, F1, I0, W0] * behind
    ends = [(I1, W1), (I0, W0)] * turns
    yield from (task for pair in ends[:turns] for task in pair)
    yield from (first for first, _ in ends[turns:])  # weight gradients are delayed from here on, oldest first
    late = [second for _, second in ends[turns:]] + [W0] * behind
    yield from (task for weight in late[:behind] for task in (weight, I0))
    yield from late[behind:]


DUALPIPE_V = _v_schedule(
    "dualpipe_v",
    "Two chunks in a V, overlapping a forward with a backward task (DualPipeV).",
    _dualpipe_v,
    equal_tasks_idle(lambda p: p - 1, least=lambda p: 2 * p),
    partial(_count_in_full_v, 0),
)
"""DualPipeV (DeepSeek's DualPipe, arXiv:2412.19437, section 3.2.1, halved by Qi et al. 2025; the order of `dualpipev.py` in
deepseek-ai/DualPipe).

    p = 2 devices, m = 5 micro-batches, v = 2 chunks; F0' is micro-batch 0 on the device's second chunk

    device 0   F0  F1  F2  F0' I0' W0' F1' F3  I1' W1' F2' I0  W0  F4  I2' W2' F3' I1  W1  I3' W3' F4' I2  W2  I4' W4' I3  W3  .   I4  W4
    device 1   .   F0  F0' F1  F1' F2  I0' W0' F2' I0  W0  F3  I1' W1' F3' I1  W1  F4  I2' W2' F4' I2  W2  I3' W3' I3  W3  I4' I4  W4' W4

The chunks form a V. Mostly, a forward pass on one chunk is followed by another micro-batch's backward pass on the other, so that
their kernels and collectives overlap; here they alternate. A whole backward pass is I followed by W, and the result of I
is sent at once. Idle: p - 1 forward passes of a chunk, if F, I and W take equally long and m is at least 2 p; every device keeps 2 p + 1
chunks of micro-batches.
"""


def _count_in_block(order: Order, device: int, shape: PipelineShape) -> int:
    return count_held(order(device, shape))


def _v_half(device: int, shape: PipelineShape) -> Iterator[Task]:
    p = shape.devices
    shift = 0 if p % 2 else 3  # with an even p, two passes of a device would coincide
    block = tuple(BlockTimes(2 * d, 3 * p - d - 2, 3 * p + shift + 2 * d - 1, 6 * p + shift - d - 2) for d in range(p))
    return iter(repeat_block(block, 2 * ((p + 2) // 2), shape)[device])


V_HALF = _v_schedule(
    "v_half",
    "Two chunks in a V: half the memory of 1F1B and half its bubble (V-Half).",
    _v_half,
    equal_tasks_idle(lambda p: max(3 * (p - 1) - p % 2, 0)),
    partial(_count_in_block, _v_half),
)
"""Half of the memory of one-forward-one-backward (V-Half; Qi et al. 2024, arXiv:2405.15362, section 3).

    p = 3 devices, m = 4 micro-batches, v = 2 chunks; F0' is micro-batch 0 on the device's second chunk

    device 0   F0  F1  .   .   .   F0' I0' F2  W0' F1' I1' W1' I0  F3  W0  F2' I2' W2' I1  W1  .   F3' I3' I2  W3' W2  .   I3  W3
    device 1   .   F0  .   .   F0' F1  .   I0' F1' W0' F2  I0  I1' W0  F2' W1' F3  I1  I2' W1  F3' W2' I2  I3' W2  W3' I3  W3  .
    device 2   .   .   F0  F0' .   .   F1  F1' I0' I0  W0' F2  W0  F2' I1' I1  W1' F3  W1  F3' I2' I2  W2' W2  I3' I3  W3' W3  .

A building block on chunks in a V with early backward passes: no device keeps more than 2 ((p + 2) div 2) chunks of micro-batches,
slightly more than half of one-forward-one-backward. Idle: 3 p - 3 tasks of a chunk (one less for an odd p) if F, I and W take
equally long, half the bubble of one-forward-one-backward; it does not grow with m as long as W + 2 I >= 2 F and W + 2 F >= 2 I.
"""


def _v_min(device: int, shape: PipelineShape) -> Iterator[Task]:
    p = shape.devices
    shift = 0 if p % 3 else 2  # with a multiple of 3, two passes of a device would coincide
    block = tuple(BlockTimes(d, 2 * p - d - 1, 2 * p + shift + d, 4 * p + shift - d - 1) for d in range(p))
    return iter(repeat_block(block, 2 * ((p + 4) // 3), shape)[device])


V_MIN = _v_schedule(
    "v_min",
    "Two chunks in a V: a third of the memory of 1F1B, two thirds of its bubble (V-Min).",
    _v_min,
    equal_tasks_idle(lambda p: max(4 * p - (5 if p % 3 else 3), 0)),
    partial(_count_in_block, _v_min),
)
"""A third of the memory of one-forward-one-backward (V-Min; Qi et al. 2024, arXiv:2405.15362, section 3).

    p = 3 devices, m = 3 micro-batches, v = 2 chunks; F0' is micro-batch 0 on the device's second chunk

    device 0   F0  .   .   .   .   F0' F1  I0' W0' .   .   F1' F2  I0  I1' W0  W1' F2' .   I1  I2' W1  W2' .   .   I2  W2
    device 1   .   F0  .   .   F0' .   .   F1  I0' W0' F1' .   I0  F2  W0  I1' F2' W1' I1  W1  .   I2' W2' .   I2  W2  .
    device 2   .   .   F0  F0' .   .   .   .   F1  F1' I0' I0  W0' W0  F2  F2' I1' I1  W1' W1  .   .   I2' I2  W2' W2  .

The shortest building block on chunks in a V: no device keeps more than 2 ((p + 4) div 3) chunks of micro-batches, slightly more
than a third of one-forward-one-backward. Idle: 4 p - 5 tasks of a chunk (4 p - 3 if p is a multiple of 3) if F, I and W are equal, two
thirds of the bubble of one-forward-one-backward; if they do not, it grows with m.
"""
