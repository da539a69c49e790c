"""A task: one stage working on one micro-batch. Schedules yield tasks; the simulator, the engine and the diagram read them.

Letters, in all of this package: p devices, v chunks (stages a device holds), p v stages, m micro-batches; a schedule says which device a
stage is on (`Schedule.device_of`), one of each p consecutive stages for each.
"""

from enum import StrEnum
from typing import NamedTuple


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
