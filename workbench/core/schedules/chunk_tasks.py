"""Orders over the two chunks of a device in a V, in which each task is of the next micro-batch for its kind and chunk."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from workbench.core.schedules.schedule import PipelineShape
from workbench.core.schedules.tasks import Kind, Task


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
