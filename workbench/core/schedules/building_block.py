"""Schedules that repeat one building block (Qi et al. 2024, arXiv:2405.15362, section 3): the passes of one micro-batch at fixed times on
each device, the next micro-batch 6 units of time later, which is as long as three passes over two chunks keep a device busy.

How long the block keeps something on a device decides how many micro-batches are there at a time. The gradients of weights are not in it:
they are done where a device would wait, or has no room for another micro-batch.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

from workbench.core.schedules.schedule import Kind, Orders, PipelineShape, Schedule, Task, v_shape
from workbench.core.schedules.stage_cost import StageCost

PERIOD = 6


class BlockTimes(NamedTuple):
    """When a device does the passes of micro-batch 0: forward on its way up the devices and down again, backward up and down."""

    forward_up: int
    forward_down: int
    backward_up: int
    backward_down: int


@lru_cache(maxsize=64)
def repeat_block(block: tuple[BlockTimes, ...], room: int, shape: PipelineShape) -> Orders:
    """The orders of all devices, given the block's times on each. `room`: pairs of micro-batch and chunk that a device may hold; not less
    than the repeated block does.

    The order is that in which every pass takes one unit of time; how long each takes is for the simulation.
    """
    devices = [_BlockDevice(_list_passes(times, device, shape), room) for device, times in enumerate(block)]
    made: set[Task] = set()
    while any(device.passes or device.waiting for device in devices):
        made.update([task for device in devices if (task := device.do_next(made, shape)) is not None])
    return tuple(tuple(device.done) for device in devices)


def v_schedule(name: str, about: str, order: Callable[[int, PipelineShape], Iterator[Task]], idle_tasks: Callable[[int], int]) -> Schedule:
    """A schedule of two chunks in a V. Its devices, so many, idle for so many tasks where tasks of all three kinds take equally long and
    there are as many micro-batches as devices at least."""
    counted = partial(_count_in_flight, order)
    return Schedule(name, about, order, partial(_idle, idle_tasks), counted, chunks=2, device_of=v_shape, splits_backward=True)


def _idle(idle_tasks: Callable[[int], int], shape: PipelineShape, cost: StageCost) -> float | None:
    alike = cost.forward == cost.backward_input == cost.backward_weight
    return idle_tasks(shape.devices) * cost.forward if alike and shape.micro_batches >= shape.devices else None


def _count_in_flight(order: Callable[[int, PipelineShape], Iterator[Task]], device: int, shape: PipelineShape) -> int:
    return count_held(order(device, shape))


def count_held(tasks: Iterable[Task]) -> int:
    """The most pairs of micro-batch and chunk that a device holds anything of, with these tasks in this order."""
    held = most = 0
    for task in tasks:
        held += task.kind is Kind.FORWARD
        most = max(most, held)
        held -= task.kind is Kind.BACKWARD_WEIGHT
    return most


def _list_passes(times: BlockTimes, device: int, shape: PipelineShape) -> deque[Task]:
    """The passes of a device, in the order of the repeated block."""
    up, down = device, shape.stages - 1 - device
    passes = ((Kind.FORWARD, up), (Kind.FORWARD, down), (Kind.BACKWARD_INPUT, down), (Kind.BACKWARD_INPUT, up))
    at = [(time + PERIOD * i, Task(*each, i)) for time, each in zip(times, passes, strict=True) for i in range(shape.micro_batches)]
    return deque(task for _, task in sorted(at))


@dataclass
class _BlockDevice:
    """A device at a moment: the passes to come, the gradients of weights that wait, what it holds and what it has done."""

    passes: deque[Task]
    room: int
    waiting: deque[Task] = field(default_factory=deque)
    done: list[Task] = field(default_factory=list)
    held: int = 0

    def do_next(self, made: Collection[Task], shape: PipelineShape) -> Task | None:
        """The task of this unit of time: the next pass if it can be done, else a gradient of weights."""
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


# Orders over the two chunks of a device in a V, in which each task is of the next micro-batch for its kind and chunk.


class ChunkTask(NamedTuple):
    """The next micro-batch of a kind on one of the two chunks of a device: 0 on the way up, 1 on the way down."""

    kind: Kind
    chunk: int


F0, F1 = ChunkTask(Kind.FORWARD, 0), ChunkTask(Kind.FORWARD, 1)
I0, I1 = ChunkTask(Kind.BACKWARD_INPUT, 0), ChunkTask(Kind.BACKWARD_INPUT, 1)
W0, W1 = ChunkTask(Kind.BACKWARD_WEIGHT, 0), ChunkTask(Kind.BACKWARD_WEIGHT, 1)


def number_tasks(tasks: Iterable[ChunkTask], device: int, shape: PipelineShape) -> Iterator[Task]:
    """These tasks with their micro-batches, those left out that there are not: what is left of a valid order is a valid order.

    >>> [task.label(2) for task in number_tasks([F0, F1, F0, I1, F0], device=0, shape=PipelineShape(2, 2, chunks=2))]
    ['F0', "F0'", 'F1', "I0'"]
    """
    done = Counter[ChunkTask]()
    for each in tasks:
        if done[each] < shape.micro_batches:
            yield Task(each.kind, (device, shape.stages - 1 - device)[each.chunk], done[each])
        done[each] += 1
