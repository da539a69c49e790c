"""Define a pipeline schedule: a name, a description, and the task order of each device."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from workbench.core.schedules.stage_cost import StageCost
from workbench.errors import PipelineError

# A task is one stage processing one micro-batch. Schedules yield tasks; the simulator, the engine and the diagram read them.
#
# Letters in this package: p devices, v chunks (stages per device), p v stages, m micro-batches. `Schedule.device_of` maps a stage to
# a device; each device has one of every p consecutive stages.


class Kind(StrEnum):
    """The kind of a task. A schedule has either `BACKWARD`, or `BACKWARD_INPUT` followed later by `BACKWARD_WEIGHT`."""

    FORWARD = "forward"
    BACKWARD = "backward"
    BACKWARD_INPUT = "backward_input"
    BACKWARD_WEIGHT = "backward_weight"

    @property
    def letter(self) -> str:
        """The letter used by PyTorch's schedules: F, B, or I and W for the two halves of B."""
        return _LETTERS[self]


_LETTERS = {Kind.FORWARD: "F", Kind.BACKWARD: "B", Kind.BACKWARD_INPUT: "I", Kind.BACKWARD_WEIGHT: "W"}


class Task(NamedTuple):
    """Stage `stage` runs `kind` for micro-batch `micro_batch`. Recomputation is part of the backward task."""

    kind: Kind
    stage: int
    micro_batch: int

    def label(self, devices: int) -> str:
        """Format as `F3`, with a prime for each further round over the devices.

        >>> Task(Kind.FORWARD, 5, 3).label(devices=4), Task(Kind.BACKWARD, 1, 0).label(devices=4)
        ("F3'", 'B0')
        """
        return f"{self.kind.letter}{self.micro_batch}{chr(39) * (self.stage // devices)}"


Orders = tuple[tuple[Task, ...], ...]
"""The tasks of each device in order."""


@dataclass(frozen=True, slots=True)
class PipelineShape:
    """Pipeline sizes: `devices` p, `micro_batches` m, `chunks` v (stages per device)."""

    devices: int
    micro_batches: int
    chunks: int = 1

    @property
    def stages(self) -> int:
        return self.devices * self.chunks


def round_robin(stage: int, shape: PipelineShape) -> int:
    """Return the device of a virtual stage under round-robin placement: k mod p.

    >>> [round_robin(stage, PipelineShape(2, 4, chunks=2)) for stage in range(4)]
    [0, 1, 0, 1]
    """
    return stage % shape.devices


def v_shape(stage: int, shape: PipelineShape) -> int:
    """Return the device of a virtual stage under V placement, where the first device also has the loss.

    >>> [v_shape(stage, PipelineShape(2, 4, chunks=2)) for stage in range(4)]
    [0, 1, 1, 0]
    """
    return min(stage, shape.stages - 1 - stage)


def fill_and_drain(shape: PipelineShape, cost: StageCost) -> float | None:
    """Return the idle seconds per device, (p - 1) (F + B) of one stage; with chunks only for m >= p, else `None`."""
    return (shape.devices - 1) * cost.work if shape.chunks == 1 or shape.micro_batches >= shape.devices else None


def equal_tasks_idle(
    tasks: Callable[[int], int], least: Callable[[int], int] = lambda p: p
) -> Callable[[PipelineShape, StageCost], float | None]:
    """Return the closed form of `tasks(p)` idle tasks per device, for three kinds of one length and m >= `least(p)`."""

    def idle(shape: PipelineShape, cost: StageCost) -> float | None:
        alike = cost.forward == cost.backward_input == cost.backward_weight
        return tasks(shape.devices) * cost.forward if alike and shape.micro_batches >= least(shape.devices) else None

    return idle


@dataclass(frozen=True, slots=True)
class Schedule:
    """A task order per device: `order(device, shape)` yields its tasks; start times follow from dependencies.

    - `chunks`: chunks per device; any number with `loops`.
    - `device_of(stage, shape)`: the device of a virtual stage.
    - `whole_rounds`: with chunks, micro-batches go in rounds of one per device, so m is a multiple of p.
    - `splits_backward`: gradients of inputs and of weights are separate tasks.
    - `spmd`: all devices can run it in lockstep, as one program (the shifting buffer of `pipeline.staged_program`).
    - `idle(shape, cost)`: idle seconds per device in closed form, for virtual stages of equal cost and free transfers;
      `None` if there is none.
    - `in_flight(device, shape)`: the peak number of (micro-batch, chunk) pairs held by a device.
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
        """Return the tasks of each device in order. Raises `PipelineError` if the schedule does not allow these sizes."""
        shape = PipelineShape(devices, micro_batches, chunks)
        self.verify(shape)
        return tuple(tuple(self.order(device, shape)) for device in range(devices))

    def verify(self, shape: PipelineShape) -> None:
        """Raise `PipelineError` if the schedule does not allow this shape."""
        if shape.chunks != self.chunks and not self.loops:
            chunks = "one chunk" if self.chunks == 1 else f"{self.chunks} chunks"
            other = "with several chunks, schedule:interleaved" if shape.chunks > 1 else "with one chunk, schedule:zero_bubble"
            raise PipelineError(
                f"Schedule `{self.name}` has {chunks} of layers a device; the pipeline has chunks:{shape.chunks}.",
                [f"set chunks:{self.chunks}", f"use a schedule {other}"],
            )
        if self.whole_rounds and shape.chunks > 1 and shape.micro_batches % shape.devices:
            excess = shape.micro_batches % shape.devices
            nearest = {shape.micro_batches - excess, shape.micro_batches - excess + shape.devices} - {0}
            raise PipelineError(
                f"Schedule `{self.name}` requires a multiple of the {shape.devices} stages as the number of micro-batches; "
                f"{shape.micro_batches} % {shape.devices} = {excess}.",
                [f"make micro_batches {' or '.join(str(each) for each in sorted(nearest))}", "use schedule:breadth_first"],
            )


# One process dispatches the tasks of all devices round-robin: the next task of each device whose inputs were sent.
#
# Execution lags behind dispatch, but memory does not: a transfer's memory is allocated on the receiving device when the transfer is
# dispatched. A device ahead of its neighbour in this order therefore holds its inputs early.


def dispatch_order(orders: Orders, receives: Sequence[Sequence[tuple[int, int]]]) -> dict[Task, int]:
    """Return each task's index in the dispatch order.

    `receives` lists for each stage the earlier stages that send to it (`stage_cost.receives`).

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
    """Return whether earlier tasks have made its inputs; the order on its own device needs no check."""
    kind, stage, i = task
    if kind is Kind.FORWARD:
        return all(Task(Kind.FORWARD, source, i) in done for source, _ in receives[stage])
    if kind is Kind.BACKWARD_WEIGHT:
        return True
    return all(Task(Kind.BACKWARD, later, i) in done or Task(Kind.BACKWARD_INPUT, later, i) in done for later in sends[stage])
