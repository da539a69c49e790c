"""What a schedule is: a name, a sentence, and the order in which each device runs its tasks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from workbench.core.schedules.stage_cost import StageCost
from workbench.errors import PipelineError

# A task: one stage working on one micro-batch. Schedules yield tasks; the simulator, the engine and the diagram read them.
#
# Letters, in all of this package: p devices, v chunks (stages a device holds), p v stages, m micro-batches; a schedule says which device a
# stage is on (`Schedule.device_of`), one of each p consecutive stages for each.


class Kind(StrEnum):
    """The kind of a task. A schedule has either `BACKWARD`, or `BACKWARD_INPUT` and later `BACKWARD_WEIGHT`."""

    FORWARD = "forward"
    BACKWARD = "backward"
    BACKWARD_INPUT = "backward_input"
    BACKWARD_WEIGHT = "backward_weight"

    @property
    def letter(self) -> str:
        """The letter in PyTorch's schedules: F, B, and I and W for the two halves of B."""
        return _LETTERS[self]


_LETTERS = {Kind.FORWARD: "F", Kind.BACKWARD: "B", Kind.BACKWARD_INPUT: "I", Kind.BACKWARD_WEIGHT: "W"}


class Task(NamedTuple):
    """Stage `stage` runs `kind` for micro-batch `micro_batch`. Recomputation is part of the backward task."""

    kind: Kind
    stage: int
    micro_batch: int

    def label(self, devices: int) -> str:
        """`F3`, and a prime for each further turn over the devices.

        >>> Task(Kind.FORWARD, 5, 3).label(devices=4), Task(Kind.BACKWARD, 1, 0).label(devices=4)
        ("F3'", 'B0')
        """
        return f"{self.kind.letter}{self.micro_batch}{chr(39) * (self.stage // devices)}"


Orders = tuple[tuple[Task, ...], ...]
"""For each device its tasks, one after the other."""


@dataclass(frozen=True, slots=True)
class PipelineShape:
    """How large a pipeline is: `devices` p, `micro_batches` m, `chunks` v of stages on each device."""

    devices: int
    micro_batches: int
    chunks: int = 1

    @property
    def stages(self) -> int:
        return self.devices * self.chunks


def round_robin(stage: int, shape: PipelineShape) -> int:
    """The device of a virtual stage where each device has one of every p: k mod p.

    >>> [round_robin(stage, PipelineShape(2, 4, chunks=2)) for stage in range(4)]
    [0, 1, 0, 1]
    """
    return stage % shape.devices


def v_shape(stage: int, shape: PipelineShape) -> int:
    """The device of a virtual stage where micro-batches go up the devices and back down again, so that the first one has the loss, too.

    >>> [v_shape(stage, PipelineShape(2, 4, chunks=2)) for stage in range(4)]
    [0, 1, 1, 0]
    """
    return min(stage, shape.stages - 1 - stage)


def fill_and_drain(shape: PipelineShape, cost: StageCost) -> float | None:
    """Seconds each device idles in fill and drain: it waits for p - 1 forward passes and p - 1 backward ones, (p - 1) (F + B) of one stage.

    With chunks a micro-batch is back in time for the next one if m is at least p; fewer have no closed form here.
    """
    return (shape.devices - 1) * cost.work if shape.chunks == 1 or shape.micro_batches >= shape.devices else None


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of tasks. `order(device, shape)` yields those of one device; when each starts follows from what it waits for.

    - `chunks`: the chunks that each device holds; with `loops` it may be any number of them.
    - `device_of(stage, shape)`: the device that holds a virtual stage.
    - `whole_rounds`: with chunks, the micro-batches go in rounds of one for each device, so m is a multiple of p.
    - `splits_backward`: the gradients of inputs and of weights are tasks of their own.
    - `spmd`: all devices can run it in lockstep, as one program (the shifting buffer of `pipeline.staged_program`).
    - `idle(shape, cost)`: the closed form of the seconds each device idles where all virtual stages cost `cost` and transfers nothing;
      `None` where there is none.
    - `in_flight(device, shape)`: how many pairs of micro-batch and chunk a device holds anything of at its worst moment.
    """

    name: str
    about: str
    order: Callable[[int, PipelineShape], Iterator[Task]]
    idle: Callable[[PipelineShape, StageCost], float | None]
    in_flight: Callable[[int, PipelineShape], int]
    chunks: int = 1
    device_of: Callable[[int, PipelineShape], int] = round_robin
    loops: bool = False
    whole_rounds: bool = False
    splits_backward: bool = False
    spmd: bool = False

    def tasks(self, devices: int, micro_batches: int, chunks: int = 1) -> Orders:
        """For each device its tasks in order. Raises `PipelineError` where the schedule does not allow these sizes."""
        shape = PipelineShape(devices, micro_batches, chunks)
        self.verify(shape)
        return tuple(tuple(self.order(device, shape)) for device in range(devices))

    def verify(self, shape: PipelineShape) -> None:
        """Raises `PipelineError` where the schedule does not allow this shape."""
        if shape.chunks != self.chunks and not self.loops:
            chunks = "one chunk" if self.chunks == 1 else f"{self.chunks} chunks"
            other = "with several chunks, schedule:interleaved" if shape.chunks > 1 else "with one chunk, schedule:zero_bubble"
            raise PipelineError(
                f"Schedule `{self.name}` has {chunks} of layers a device; the pipeline has chunks:{shape.chunks}.",
                [f"set chunks:{self.chunks}", f"use a schedule {other}"],
            )
        if self.whole_rounds and shape.chunks > 1 and shape.micro_batches % shape.devices:
            over = shape.micro_batches % shape.devices
            near = {shape.micro_batches - over, shape.micro_batches - over + shape.devices} - {0}
            raise PipelineError(
                f"Schedule `{self.name}` requires a multiple of the {shape.devices} stages as the number of micro-batches; "
                f"{shape.micro_batches} % {shape.devices} = {over}.",
                [f"make micro_batches {' or '.join(str(each) for each in sorted(near))}", "use schedule:breadth_first"],
            )


# The order in which one process dispatches the tasks of all devices: they take turns, each with its next task if its inputs were sent.
#
# Devices run behind the dispatch, but memory follows it: the memory of a transfer is allocated on the receiving device when the transfer is
# dispatched. So a device that is ahead of its neighbour in this order holds its inputs early, however soon it could work on them.


def dispatch_order(orders: Orders, receives: Sequence[Sequence[tuple[int, int]]]) -> dict[Task, int]:
    """The index of each task in the order; `receives` says for each stage which earlier ones send to it (`stage_cost.receives`).

    >>> from workbench.core.schedules.schedule import Kind, Task
    >>> orders = [[Task(Kind.FORWARD, stage, i) for i in range(2)] for stage in range(2)]
    >>> [(task.stage, task.micro_batch) for task in dispatch_order(orders, [[], [(0, 8)]])]
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    """
    sends: list[list[int]] = [[] for _ in receives]
    for stage, sources in enumerate(receives):
        for source, _ in sources:
            sends[source].append(stage)
    heads, done = [0] * len(orders), dict[Task, int]()
    count = sum(map(len, orders))
    while len(done) < count:
        before = len(done)
        for device, order in enumerate(orders):
            if heads[device] < len(order) and _is_ready(order[heads[device]], done, receives, sends):
                done[order[heads[device]]] = len(done)
                heads[device] += 1
        if len(done) == before:
            break
    return done


def _is_ready(task: Task, done: dict[Task, int], receives: Sequence[Sequence[tuple[int, int]]], sends: Sequence[Sequence[int]]) -> bool:
    """Whether its inputs were made by earlier tasks. The order of tasks on its own device needs no check."""
    kind, stage, i = task
    if kind is Kind.FORWARD:
        return all(Task(Kind.FORWARD, source, i) in done for source, _ in receives[stage])
    if kind is Kind.BACKWARD_WEIGHT:
        return True
    return all(Task(Kind.BACKWARD, later, i) in done or Task(Kind.BACKWARD_INPUT, later, i) in done for later in sends[stage])
